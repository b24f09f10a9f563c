"""Lock in, prefix out: built beside its place and moved there whole, so that a half-made one is never found.

Whatever happens, at the prefix there is either nothing new or a finished environment. Unfinished work lies in
`.NAME.envkit-unfinished-*` beside it and is cleared by the next build. The folder is new each time: a process that
is just dying may still write into the last one.
"""

import contextlib
import datetime
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from envkit import codec, engine, pip_step, places
from envkit import prefix as prefixes
from envkit.engine.install import Question
from envkit.errors import BuildError, EnvkitError, InputError
from envkit.lock import Lock
from envkit.progress import Step, Tell, silent

_UNSAFE = set("\"'`$\\:\n\r\0")


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What to build, and where."""

    lock: Lock
    platform: str
    prefix: Path
    specs: tuple[str, ...] = ()
    variables: Mapping[str, str] = msgspec.field(default_factory=dict)
    offline: bool = False
    force: bool = False


class Built(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome. `fresh` is false where the prefix already was this very environment."""

    prefix: Path
    fresh: bool
    packages: int
    link_scripts: tuple[str, ...] = ()
    clobbered: tuple[str, ...] = ()


def build(request: Request, *, now: datetime.datetime, tell: Tell = silent) -> Built:
    """Build the environment, or find it already there. `now` (aware, UTC) dates the history.

    Raises BuildError, NetworkError, DamagedPackageError, StorageError, PlatformError; nothing is left half-made.
    """
    prefix = request.prefix
    check_path(prefix)
    records = request.lock.conda(request.platform)
    digest = request.lock.digest(request.platform)
    count = len(records) + len(request.lock.pip(request.platform))
    with _storage_errors(prefix), _alone(prefix, tell):
        prefix.parent.mkdir(parents=True, exist_ok=True)
        _restore(prefix)
        if _already_there(request, digest):
            return Built(prefix=prefix, fresh=False, packages=count)
        clear_unfinished(prefix)
        staging = Path(tempfile.mkdtemp(dir=prefix.parent, prefix=f".{prefix.name}.envkit-unfinished-"))
        staging.chmod(0o755)
        try:
            installed = _fill(staging, request, now, digest, tell)
            _move_in(staging, prefix)
        finally:
            _clear(staging)
        _register(prefix)
    return Built(
        prefix=prefix,
        fresh=True,
        packages=count,
        link_scripts=installed.link_scripts,
        clobbered=installed.clobbered,
    )


def check_path(prefix: Path) -> None:
    """Refuse paths that scripts and PATH cannot carry: conda writes the prefix into shell scripts between quotes."""
    offenders = sorted({character for character in str(prefix) if character in _UNSAFE})
    if offenders:
        raise InputError(
            f"{str(prefix)!r} cannot be a prefix: it holds {' '.join(offenders)!r}",
            hint="quotes, '$', '\\' and ':' break the scripts of an environment; spaces and accents are fine",
        )
    if prefix == Path(prefix.anchor) or prefix == Path.home():
        raise InputError(f"{prefix} cannot be a prefix", hint="give a folder of its own")


@contextlib.contextmanager
def _alone(prefix: Path, tell: Tell) -> Iterator[None]:
    """Two builds of one prefix follow each other; the second says that it waits."""
    import hashlib

    import filelock

    folder = places.locks()
    folder.mkdir(parents=True, exist_ok=True)
    lock = filelock.FileLock(folder / f"{hashlib.sha256(os.fsencode(prefix)).hexdigest()[:24]}.lock")
    try:
        lock.acquire(timeout=0)
    except filelock.Timeout:
        tell(Step(stage="wait", item=f"another build of {prefix} is at work"))
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


@contextlib.contextmanager
def _storage_errors(prefix: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise codec.unwritable(Path(error.filename or prefix), error) from error


def _beside(prefix: Path, what: str) -> Path:
    return prefix.parent / f".{prefix.name}.envkit-{what}"


def clear_unfinished(prefix: Path) -> None:
    """Clear what killed builds left beside a prefix, as far as it can be cleared now."""
    start = f".{prefix.name}.envkit-unfinished-"
    for left in prefix.parent.iterdir():
        if left.name.startswith(start):
            shutil.rmtree(left, ignore_errors=True)


def _clear(folder: Path) -> None:
    if folder.exists():
        shutil.rmtree(folder)


def _restore(prefix: Path) -> None:
    """After a build that was killed while it replaced an environment: put the old one back, or drop it."""
    replaced = _beside(prefix, "replaced")
    if replaced.exists() and not prefix.exists():
        replaced.replace(prefix)
    _clear(replaced)


def _already_there(request: Request, digest: str) -> bool:
    """Whether the prefix is this environment, whole. Anything else that stands there is only replaced by force."""
    prefix = request.prefix
    if not prefix.exists() or (prefix.is_dir() and not any(prefix.iterdir())):
        return False
    if not prefix.is_dir() or not (prefix / "conda-meta").is_dir():
        raise BuildError(f"{prefix} exists and is not an environment; it is left alone", hint="choose another place")
    if request.force:
        return False
    done = prefixes.completion(prefix)
    if done is None:
        raise BuildError(
            f"{prefix} is an environment that envkit did not make; it is left alone",
            hint="--force replaces it; -p or -n choose another place",
        )
    if done.lock_digest != digest or done.platform != request.platform:
        raise BuildError(f"{prefix} was built from another lock", hint="--force builds it again from this one")
    return True


def _fill(staging: Path, request: Request, now: datetime.datetime, digest: str, tell: Tell) -> engine.Installed:
    records = request.lock.conda(request.platform)
    question = Question(
        records=records,
        folder=str(staging),
        prefix=str(request.prefix),
        platform=request.platform,
        specs=request.specs,
        offline=request.offline,
    )
    tell(Step(stage="install", total=len(records), unit="packages"))
    installed = engine.install(question, tell)
    entries = request.lock.pip(request.platform)
    if entries:
        pip_step.install(staging, request.prefix, entries, offline=request.offline, tell=tell)
    _write_state(staging, request.variables)
    _write_history(staging, request, now)
    done = prefixes.Completion(
        platform=request.platform, lock_digest=digest, specs=request.specs, link_scripts=installed.link_scripts
    )
    codec.write(staging / "conda-meta" / prefixes.COMPLETION, codec.encode(done))
    return installed


def _write_state(staging: Path, variables: Mapping[str, str]) -> None:
    if variables:
        state = {"version": 1, "env_vars": dict(variables)}
        codec.write(staging / "conda-meta" / "state", json.dumps(state, indent=2).encode() + b"\n")


def _write_history(staging: Path, request: Request, now: datetime.datetime) -> None:
    """conda's history: the requested specs, and each record as CHANNEL/SUBDIR::NAME-VERSION-BUILD."""
    lines = [
        f"==> {now:%Y-%m-%d %H:%M:%S} <==",
        "# cmd: envkit build",
        *(f"+{one.url.rpartition('/')[0]}::{one.name}-{one.version}-{one.build}" for one in prefixes.records(staging)),
        f"# update specs: {json.dumps(list(request.specs))}",
    ]
    codec.write(staging / "conda-meta" / "history", ("\n".join(lines) + "\n").encode())


def _move_in(staging: Path, prefix: Path) -> None:
    """The one step that makes the environment appear."""
    replaced = _beside(prefix, "replaced")
    if prefix.exists() and any(prefix.iterdir()):
        prefix.replace(replaced)
    staging.replace(prefix)
    _clear(replaced)


def _register(prefix: Path) -> None:
    """Add the prefix to conda's list; a list that cannot be written is no reason to fail."""
    path = places.environments_list()
    try:
        known = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
        if str(prefix) not in known:
            codec.write(path, ("\n".join([*known, str(prefix)]) + "\n").encode())
    except (OSError, EnvkitError):
        return


def remove(prefix: Path, tell: Tell = silent) -> None:
    """Remove an environment: out of sight first, then off the disk, so that a half-removed one is never found."""
    with _storage_errors(prefix), _alone(prefix, tell):
        prefixes.check(prefix)
        tell(Step(stage="remove", item=str(prefix)))
        clear_unfinished(prefix)
        aside = _beside(prefix, "unfinished-removed")
        prefix.replace(aside)
        _clear(aside)
    path = places.environments_list()
    if path.is_file():
        known = path.read_text(encoding="utf-8").splitlines()
        if str(prefix) in known:
            codec.write(path, "".join(f"{one}\n" for one in known if one != str(prefix)).encode())
