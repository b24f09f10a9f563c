"""envkit activate."""

import os
from pathlib import Path

import click

from envkit import activation
from envkit.cli import options, render


@click.command()
@click.argument("environment", required=False, metavar="NAME")
@options.name_or_prefix
@click.option("--shell", type=click.Choice(activation.SHELLS), help="The shell; from $SHELL by default.")
def command(environment: str | None, name: str | None, prefix: Path | None, shell: activation.Shell | None) -> None:
    """Print code that activates an environment in the shell that evaluates it.

    \b
    Examples:
      eval "$(envkit activate t1)"                                        bash, zsh
      envkit activate t1 --shell fish | source
      envkit activate t1 --shell powershell | Out-String | Invoke-Expression
    """
    place = options.prefix_from(environment or name, prefix)
    chosen = shell or detect(os.environ.get("SHELL", ""))
    render.say(activation.shell_code(place, chosen, os.environ).rstrip("\n"))


def detect(path: str) -> activation.Shell:
    """The kind of shell by its path; bash's code for one that is not known, since most read it."""
    named = Path(path).name
    return next((one for one in activation.SHELLS if one == named), "powershell" if named == "pwsh" else "bash")
