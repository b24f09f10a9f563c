"""The pip entries of a lock: fetched once by hash, installed without dependencies into a prefix being built.

Scripts get the final prefix in their first line although they are written before the prefix stands there.
"""

import hashlib
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from envkit import places, redact
from envkit import prefix as prefixes
from envkit.errors import BuildError, DamagedPackageError, NetworkError
from envkit.lock import Package, expand
from envkit.progress import Step, Tell

_AS_IF_THERE = "import sys; sys.executable = sys.argv.pop(1); from pip._internal.cli.main import main; sys.exit(main())"
# Settings of pip that would put the packages elsewhere or bring others in.
_DROPPED = (
    "PIP_TARGET",
    "PIP_USER",
    "PIP_PREFIX",
    "PIP_ROOT",
    "PIP_REQUIRE_VIRTUALENV",
    "PIP_CONSTRAINT",
    "PIP_PYTHON",
)


def install(staging: Path, prefix: Path, entries: Sequence[Package], *, offline: bool, tell: Tell) -> None:
    """Install the entries into `staging`, as they will stand in `prefix`."""
    interpreter = prefixes.python(staging)
    environ = {name: value for name, value in os.environ.items() if name not in _DROPPED}
    environ |= {"PATH": f"{interpreter.parent}{os.pathsep}{os.environ.get('PATH', '')}", "PYTHONNOUSERSITE": "1"}
    wheels = []
    for number, entry in enumerate(entries, 1):
        tell(Step(stage="pip", item=f"{entry.name} {entry.version}", done=number, total=len(entries), unit="packages"))
        wheels.append(_wheel(interpreter, entry, environ, offline=offline))
    final = prefix / interpreter.relative_to(staging)
    command = [
        *(str(interpreter), "-I", "-c", _AS_IF_THERE, str(final), "install", "--no-deps", "--no-index"),
        *("--no-compile", "--no-warn-script-location", "--disable-pip-version-check", "--force-reinstall", "--quiet"),
        *(part for wheel in wheels for part in ("--find-links", str(wheel.parent))),
        *(f"{entry.name}=={_version(wheel)}" for entry, wheel in zip(entries, wheels, strict=True)),
    ]
    result = subprocess.run(command, env=environ, capture_output=True, text=True, cwd=staging)
    if result.returncode != 0:
        raise BuildError("pip could not install the locked entries", details=_said(result.stderr))


def _version(wheel: Path) -> str:
    return wheel.name.split("-")[1]


def _wheel(interpreter: Path, entry: Package, environ: dict[str, str], *, offline: bool) -> Path:
    """The entry's wheel, from the cache or fetched (and built where the lock names a source archive)."""
    key = entry.hash.sha256 or hashlib.sha256(entry.url.encode()).hexdigest()
    folder = places.cache() / "wheels" / f"{key}-{_flavour(interpreter)}"
    found = next(iter(sorted(folder.glob("*.whl"))), None)
    if found is None:
        if offline:
            raise NetworkError(f"{entry.name} {entry.version} is not in the cache", hint="build once without --offline")
        found = _fetch(interpreter, entry, environ, folder)
    if entry.url.partition("#")[0].endswith(".whl") and entry.hash.sha256:
        _check(found, entry)
    return found


def _flavour(interpreter: Path) -> str:
    """Wheels that are built here depend on the Python version and platform."""
    version = next((folder.name for folder in interpreter.parent.parent.glob("lib/python3*")), "python")
    return f"{version}-{sys.platform}"


def _fetch(interpreter: Path, entry: Package, environ: dict[str, str], folder: Path) -> Path:
    import tempfile

    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".fetch-") as scratch:
        requirement = Path(scratch) / "requirements.txt"
        address = expand(entry.source.url if entry.source else entry.url)
        pinned = f" --hash=sha256:{entry.hash.sha256}" if entry.hash.sha256 and not address.startswith("git+") else ""
        requirement.write_text(f"{entry.name} @ {address}{pinned}\n", encoding="utf-8")
        made = Path(scratch) / "made"
        command = [
            *(str(interpreter), "-I", "-m", "pip", "wheel", "--no-deps", "--disable-pip-version-check", "--quiet"),
            *(("--require-hashes",) if pinned else ()),
            *("--wheel-dir", str(made), "-r", str(requirement)),
        ]
        result = subprocess.run(command, env=environ, capture_output=True, text=True, cwd=scratch)
        if result.returncode != 0:
            raise _failure(entry, result.stderr)
        made.rename(folder)
    return next(iter(sorted(folder.glob("*.whl"))))


def _failure(entry: Package, said: str) -> Exception:
    lines = _said(said)
    if "DO NOT MATCH THE HASHES" in said:
        return DamagedPackageError(
            f"{entry.name} {entry.version}: the index serves other bytes than the lock names",
            details=lines,
            hint="lock again if the project replaced the file; otherwise do not trust it",
        )
    if any(sign in said for sign in ("HTTP error", "Could not fetch", "Connection", "Max retries", "401", "403")):
        return NetworkError(
            f"{entry.name} {entry.version} could not be fetched from {redact.url(entry.url)}",
            details=lines,
            hint="does this index need a login? (netrc, keyring)",
        )
    return BuildError(f"pip could not make a wheel of {entry.name} {entry.version}", details=lines)


def _check(wheel: Path, entry: Package) -> None:
    """A cached wheel must still be the locked one."""
    if hashlib.sha256(wheel.read_bytes()).hexdigest() != entry.hash.sha256:
        wheel.unlink()
        raise DamagedPackageError(
            f"{entry.name} {entry.version}: the cached wheel was damaged; it is removed", hint="run the command again"
        )


def _said(text: str) -> tuple[str, ...]:
    return tuple(redact.url(line) for line in text.splitlines() if line.strip() and "[notice]" not in line)[-8:]
