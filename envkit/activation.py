"""Activating an environment: for a child process, and as code for a shell.

Values never become shell text that is not quoted: an environment.yml may hold any text in `variables:`
(rattler 0.28 puts them between double quotes, where a shell runs what is in `$(...)`).
"""

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, get_args

from envkit import prefix as prefixes
from envkit.errors import BrokenEnvironmentError

Shell = Literal["bash", "zsh", "fish", "powershell"]
SHELLS: tuple[Shell, ...] = get_args(Shell)

_MARK = b"\0envkit\0"
_SOURCE_ALL = 'for script in "$@"; do . "$script"; done 1>&2; printf "\\0envkit\\0"; exec env -0'
_SUFFIX: dict[Shell, str] = {"bash": ".sh", "zsh": ".sh", "fish": ".fish", "powershell": ".ps1"}


def environ(prefix: Path, outer: Mapping[str, str]) -> dict[str, str]:
    """The variables of a process in the activated environment: activation scripts have run, `variables:` are set."""
    inner = dict(outer) | changes(prefix, outer)
    scripts = activation_scripts(prefix, ".sh")
    return _after_scripts(prefix, scripts, inner) if scripts and os.name != "nt" else inner


def changes(prefix: Path, outer: Mapping[str, str]) -> dict[str, str]:
    """The variables that activation sets, as conda does, before any script runs."""
    prefixes.check(prefix)
    previous = outer.get("CONDA_PREFIX")
    folders = [folder for folder in outer.get("PATH", os.defpath).split(os.pathsep) if folder]
    if previous:
        folders = [folder for folder in folders if not _inside(folder, previous)]
    own = [str(folder) for folder in _path_folders(prefix)]
    return {
        "PATH": os.pathsep.join([*own, *(folder for folder in folders if folder not in own)]),
        "CONDA_PREFIX": str(prefix),
        "CONDA_SHLVL": "1",
        "CONDA_DEFAULT_ENV": prefix.name if prefix.parent.name == "envs" else str(prefix),
        "CONDA_PROMPT_MODIFIER": f"({prefix.name}) ",
        **prefixes.variables(prefix),
    }


def _inside(folder: str, prefix: str) -> bool:
    return folder in (prefix, f"{prefix}/bin", f"{prefix}/condabin")


def _path_folders(prefix: Path) -> Sequence[Path]:
    if os.name == "nt":
        return [prefix, prefix / "Library" / "bin", prefix / "Scripts", prefix / "bin"]
    return [prefix / "bin"]


def activation_scripts(prefix: Path, suffix: str) -> tuple[Path, ...]:
    """The activation scripts for one kind of shell, in the order in which conda runs them."""
    return tuple(sorted((prefix / "etc" / "conda" / "activate.d").glob(f"*{suffix}")))


def _after_scripts(prefix: Path, scripts: Sequence[Path], inner: Mapping[str, str]) -> dict[str, str]:
    """Run the scripts in a shell that gets their paths as arguments, and read its variables back."""
    shell = shutil.which("bash") or shutil.which("sh") or "/bin/sh"
    command = [shell, "-c", _SOURCE_ALL, "activate", *(str(script) for script in scripts)]
    result = subprocess.run(command, env=dict(inner), capture_output=True, stdin=subprocess.DEVNULL)
    _, mark, text = result.stdout.partition(_MARK)
    if result.returncode != 0 or not mark:
        raise BrokenEnvironmentError(
            f"{prefix}: an activation script failed",
            details=tuple(result.stderr.decode(errors="replace").splitlines()[-5:]),
            hint=f"scripts: {', '.join(script.name for script in scripts)}",
        )
    pairs = (entry.partition("=") for entry in text.decode(errors="surrogateescape").split("\0") if entry)
    return {name: value for name, _, value in pairs if name != "_"}


def shell_code(prefix: Path, shell: Shell, outer: Mapping[str, str]) -> str:
    """Code that activates the environment in a running shell, for `eval`."""
    lines = [_assign(name, value, shell) for name, value in changes(prefix, outer).items()]
    lines += [_source(script, shell) for script in activation_scripts(prefix, _SUFFIX[shell])]
    return "\n".join(lines) + "\n"


def _assign(name: str, value: str, shell: Shell) -> str:
    match shell:
        case "bash" | "zsh":
            return f"export {name}={shlex.quote(value)}"
        case "fish":
            return f"set -gx {name} {_fish(value)}"
        case "powershell":
            return f"${{Env:{name}}} = {_powershell(value)}"


def _source(script: Path, shell: Shell) -> str:
    match shell:
        case "bash" | "zsh":
            return f". {shlex.quote(str(script))}"
        case "fish":
            return f"source {_fish(str(script))}"
        case "powershell":
            return f". {_powershell(str(script))}"


def _fish(value: str) -> str:
    return "'" + re.sub(r"([\\'])", r"\\\1", value) + "'"


def _powershell(value: str) -> str:
    # PowerShell takes the typographic quotes for quotes too.
    return "'" + re.sub(r"(['‘’‚‛])", r"\1\1", value) + "'"
