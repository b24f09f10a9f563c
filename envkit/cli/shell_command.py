"""envkit shell."""

import os
import subprocess
import tempfile
from pathlib import Path

import click

from envkit import activation
from envkit.cli import options
from envkit.cli.activate_command import detect


@click.command()
@options.name_or_prefix
def command(name: str | None, prefix: Path | None) -> None:
    """Start $SHELL in the activated environment; `exit` leaves it.

    \b
    Example:
      envkit shell -n t1
    """
    place = options.prefix_from(name, prefix)
    program = os.environ.get("SHELL") or "/bin/sh"
    code = activation.shell_code(place, detect(program), os.environ)
    with tempfile.TemporaryDirectory(prefix="envkit-shell-") as folder:
        words, more = _start(program, code, Path(folder))
        status = subprocess.call(words, env=activation.environ(place, os.environ) | more)
    raise SystemExit(status)


def _start(program: str, code: str, folder: Path) -> tuple[list[str], dict[str, str]]:
    """The command that starts a shell which activates after its own start-up files: they often rewrite PATH."""
    match Path(program).name:
        case "bash":
            (folder / "rc").write_text(f"[ -f ~/.bashrc ] && . ~/.bashrc\n{code}", encoding="utf-8")
            return [program, "--rcfile", str(folder / "rc"), "-i"], {}
        case "zsh":
            (folder / ".zshrc").write_text(
                f'ZDOTDIR="$ENVKIT_ZDOTDIR"\n[ -f "$ZDOTDIR/.zshrc" ] && . "$ZDOTDIR/.zshrc"\n{code}', encoding="utf-8"
            )
            home = os.environ.get("ZDOTDIR") or str(Path.home())
            return [program, "-i"], {"ZDOTDIR": str(folder), "ENVKIT_ZDOTDIR": home}
        case "fish":
            return [program, "--init-command", code], {}
        case _:
            return [program], {}
