"""Interpreters and requirements in, a channel folder with packages and an index out."""

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec

from envkit import engine
from envkit.channel import interpreter, wheel
from envkit.errors import InputError, NetworkError
from envkit.progress import Step, Tell, silent


class Made(msgspec.Struct, frozen=True, kw_only=True):
    """What a run of `make` wrote."""

    channel: Path
    packages: tuple[str, ...]


def make(
    folder: Path,
    *,
    pythons: Sequence[Path],
    wheels: Sequence[str] = (),
    wheel_pythons: Sequence[str] = (),
    tell: Tell = silent,
) -> Made:
    """Package `pythons` and the wheels of `wheels` with all they depend on, then index the channel.

    Each requirement is resolved by itself, so that several versions of one project fit in one channel. It is
    resolved for every interpreter whose minor version is in `wheel_pythons`, or for all where that is empty.
    """
    interpreters = [interpreter.inspect(python) for python in pythons]
    chosen = [one for one in interpreters if not wheel_pythons or one.minor in wheel_pythons]
    if wheels and not chosen:
        raise InputError(
            f"no interpreter of version {', '.join(wheel_pythons)} was given to package wheels for",
            hint=f"given: {', '.join(one.minor for one in interpreters) or 'none'}; add --python EXE",
        )
    folder.mkdir(parents=True, exist_ok=True)
    for left in folder.glob(".unfinished-*"):
        shutil.rmtree(left)
    made = []
    for one in interpreters:
        tell(Step(stage="package", item=f"python {one.version}"))
        made.append(interpreter.package(one, folder))
    for one in chosen if wheels else ():
        made += _package_wheels(one, wheels, folder, tell)
    tell(Step(stage="index", item=folder.name))
    engine.index(folder)
    return Made(channel=folder, packages=tuple(dict.fromkeys(path.name for path in made)))


def _package_wheels(one: interpreter.Interpreter, wheels: Sequence[str], folder: Path, tell: Tell) -> list[Path]:
    target = wheel.Target(minor=one.minor, subdir=one.subdir, markers=_markers(one))
    with tempfile.TemporaryDirectory(prefix="envkit-wheels-") as scratch:
        for requirement in wheels:
            tell(Step(stage="fetch", item=f"{requirement} for python {one.minor}"))
            _fetch(one, requirement, Path(scratch))
        found = sorted(Path(scratch).glob("*.whl"))
        made = []
        for number, path in enumerate(found, 1):
            tell(Step(stage="package", item=path.name, done=number, total=len(found), unit="wheels"))
            made.append(wheel.package(path, target, folder))
    return made


def _fetch(one: interpreter.Interpreter, requirement: str, folder: Path) -> None:
    """Download one requirement and all it needs, as wheels for this interpreter."""
    command = [*_pip(one), "download", "--quiet", "--only-binary", ":all:", "--dest", str(folder), requirement]
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode != 0:
        said = [line for line in result.stderr.splitlines() if line.startswith("ERROR")] or result.stderr.splitlines()
        raise NetworkError(
            f"{requirement} for Python {one.minor}: no wheel could be fetched",
            details=tuple(said[-4:]),
            hint="check the requirement and that a package index can be reached",
        )


def _markers(one: interpreter.Interpreter) -> dict[str, str]:
    """The PEP 508 environment of an interpreter: this machine's, with the interpreter's own version."""
    from packaging.markers import default_environment

    ours = {key: str(value) for key, value in default_environment().items()}
    return ours | {
        "implementation_name": "cpython",
        "implementation_version": one.version,
        "platform_python_implementation": "CPython",
        "python_full_version": one.version,
        "python_version": one.minor,
    }


def _pip(one: interpreter.Interpreter) -> list[str]:
    """The interpreter's own pip, or envkit's driving it."""
    own = subprocess.run([one.executable, "-m", "pip", "--version"], capture_output=True, cwd="/")
    if own.returncode == 0:
        return [one.executable, "-m", "pip", "--disable-pip-version-check"]
    return [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", one.executable]
