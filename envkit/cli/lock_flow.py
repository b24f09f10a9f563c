"""The two things that `lock` does: write a lock, and tell whether one is fresh."""

from pathlib import Path

import msgspec

from envkit import check as check_file
from envkit import environment, locker
from envkit import lock as locks
from envkit.cli import flow
from envkit.cli.render import Talk
from envkit.errors import InputError


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome, and a sentence for people."""

    lock_file: str
    fresh: bool
    sentence: str
    platforms: tuple[str, ...] = ()
    stale: tuple[str, ...] = ()
    packages: int = 0


def check(source: Path, given: Path | None, platforms: tuple[str, ...]) -> Told:
    """Whether the lock is fresh; a lock that is not there is not."""
    path = flow.lock_beside(source, given)
    if not path.exists():
        environment.read(source)
        return Told(lock_file=str(path), fresh=False, sentence=f"{path} does not exist: envkit lock {source}")
    held = locks.read(path)
    told = locker.check(source, held, platforms=platforms)
    if told.fresh:
        sentence = f"{path} is fresh for {source}"
    else:
        stale = f"stale for {', '.join(told.stale)}" if told.stale else ""
        missing = f"not locked for {', '.join(told.missing)}" if told.missing else ""
        sentence = f"{path} is {' and '.join(filter(None, (stale, missing)))}: envkit lock {source}"
    return Told(
        lock_file=str(path),
        fresh=told.fresh,
        sentence=sentence,
        platforms=held.metadata.platforms,
        stale=(*told.stale, *told.missing),
        packages=len(held.package),
    )


def _judge(asked: environment.Environment, source: Path, platforms: tuple[str, ...], talk: Talk) -> None:
    """Refuse what would fail later, all at once, before anything is solved; count what is only doubtful."""
    findings = check_file.judge(asked, platforms=platforms).findings
    errors = [one for one in findings if one.severity == "error"]
    if errors:
        raise InputError(
            f"{source}: {len(errors)} error(s)",
            details=tuple(one.shown(str(source)) + (f" [{one.next}]" if one.next else "") for one in errors),
            hint=f"envkit check {source} says all there is to say",
        )
    warnings = sum(one.severity == "warning" for one in findings)
    if warnings:
        talk.note(f"note: {warnings} warning(s): envkit check {source} shows them")


def write(
    source: Path,
    given: Path | None,
    platforms: tuple[str, ...],
    update: tuple[str, ...],
    cuda: str | None,
    conda: Path | None,
    talk: Talk,
) -> Told:
    """Write the lock."""
    path = flow.lock_beside(source, given)
    asked = environment.read(source)
    _judge(asked, source, platforms, talk)
    present = locks.read(path) if path.exists() else None
    if update and present is None:
        raise InputError(f"{path}: there is no lock to update", hint=f"envkit lock {source}")
    wanted = flow.target(asked, cuda=cuda, platforms=platforms, present=present)
    held = locker.write(source, path, wanted, update=update, conda=conda, tell=talk)
    counted = f"{len(held.package)} packages for {', '.join(held.metadata.platforms)}, CUDA {wanted.cuda}"
    return Told(
        lock_file=str(path),
        fresh=True,
        sentence=f"wrote {path}: {counted}",
        platforms=held.metadata.platforms,
        packages=len(held.package),
    )
