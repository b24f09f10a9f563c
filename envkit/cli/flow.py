"""Arrows that more than one command walks: a lock for a file, a build of a lock, a look at an interpreter."""

import datetime
from pathlib import Path

from envkit import build, engine, environment, host, lock, locker
from envkit.build import Built, Request
from envkit.cli.render import Talk
from envkit.environment import Environment
from envkit.errors import BuildError, InputError
from envkit.lock import Lock
from envkit.locker import Freshness, Target

LOCK = "conda-lock.yml"
REPORT = "environment.report.json"


def lock_beside(source: Path, given: Path | None) -> Path:
    """The lock of an environment.yml."""
    return given or source.parent / LOCK


def read_lock(path: Path, source: Path) -> Lock:
    """A lock that must be there."""
    if not path.exists():
        raise InputError(f"{path}: there is no lock for {source}", hint=f"envkit lock {source}")
    return lock.read(path)


def target(asked: Environment, *, cuda: str | None, platforms: tuple[str, ...], present: Lock | None) -> Target:
    """What to lock for: the platforms asked for, else the file's, else the lock's, else this machine's."""
    chosen = platforms or asked.platforms or (present.metadata.platforms if present else ()) or (engine.platform(),)
    return locker.target(asked, cuda=cuda, platforms=chosen, present=present)


def is_lock(path: Path) -> bool:
    """Whether a file is a lock, of whatever tool, rather than an environment.yml: by its top-level keys."""
    from envkit import codec

    keys = {line.partition(":")[0] for line in codec.read_text(path).splitlines() if line[:1].isalpha()}
    return "version" in keys and bool(keys & {"package", "packages"}) and "dependencies" not in keys


def request(path: Path, given_lock: Path | None) -> tuple[Environment | None, Path, Lock, Freshness | None]:
    """What a build or a verification works on: the environment.yml, its lock, and whether the lock is fresh."""
    if is_lock(path):
        held = lock.read(path)
        source = next((path.parent / one for one in held.metadata.sources if (path.parent / one).is_file()), None)
        return (environment.read(source) if source else None), path, held, None
    asked = environment.read(path)
    place = lock_beside(path, given_lock)
    held = read_lock(place, path)
    return asked, place, held, locker.check(path, held)


def build_lock(
    prefix: Path, held: Lock, where: Path, asked: Environment | None, talk: Talk, *, offline: bool, force: bool
) -> Built:
    """Build a lock for this machine and say what a person should know."""
    platform = engine.platform()
    lock.for_platform(held, platform, str(where))
    built = build.build(
        Request(
            lock=held,
            platform=platform,
            prefix=prefix,
            specs=asked.for_platform(platform).spec_texts if asked else (),
            variables=asked.variables if asked else {},
            offline=offline,
            force=force,
        ),
        now=datetime.datetime.now(datetime.timezone.utc),
        tell=talk,
    )
    for script in built.link_scripts:
        talk.note(f"note: the link script {script} was not run; envkit never runs link scripts")
    if built.clobbered:
        talk.note(f"note: {len(built.clobbered)} file(s) are in two packages: {', '.join(built.clobbered[:5])}")
    for line in engine.unmet(held.conda(platform), engine.host_packages()):
        talk.note(f"note: this machine lacks what the lock needs: {line.replace(' | ', '; it has ')}")
    return built


def refuse_stale(freshness: Freshness | None, source: Path) -> None:
    """A lock of another environment.yml must not be built in silence."""
    if freshness is not None and freshness.stale:
        raise BuildError(
            f"the lock is not the one of {source}: the file changed since ({', '.join(freshness.stale)})",
            hint=f"envkit lock {source}",
        )


def cores() -> int:
    """Cores to use for parallel work."""
    return host.usable_cores()
