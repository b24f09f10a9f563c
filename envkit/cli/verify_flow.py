"""The arrows of `verify`: lock, build where there is nothing yet, probe where there is a reference, compare."""

import os
from pathlib import Path

import msgspec

from envkit import activation, engine, inside, probe, report
from envkit import lock as locks
from envkit import prefix as prefixes
from envkit import verify as verdicts
from envkit.cli import flow, options
from envkit.cli.render import Talk
from envkit.errors import InputError
from envkit.report import Report


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    """The options of the command."""

    source: Path
    lock_path: Path | None
    against: Path | None
    name: str | None
    prefix: Path | None
    no_build: bool
    report_path: Path | None
    as_json: bool


def verify(wish: Wish, talk: Talk) -> verdicts.Verdict:
    """Walk from environment.yml to findings."""
    if flow.is_lock(wish.source):
        raise InputError(f"{wish.source} is a lock", hint="verify takes the environment.yml; give the lock with --lock")
    asked, where, held, freshness = flow.request(wish.source, wish.lock_path)
    prefix = options.prefix_from(wish.name, wish.prefix, asked.name if asked else None)
    platform = engine.platform()
    locks.for_platform(held, platform, str(where))
    reference = _reference(wish)
    if not prefix.exists() and not wish.no_build:
        flow.refuse_stale(freshness, wish.source)
        flow.build_lock(prefix, held, where, asked, talk, offline=False, force=False)
    prefixes.check(prefix)
    current = _current(wish, prefix, reference, talk)
    subject = verdicts.Subject(
        prefix=prefix,
        lock=held,
        platform=platform,
        freshness=freshness,
        unmet=engine.unmet(held.conda(platform), engine.host_packages()),
        reference=reference,
        current=current,
    )
    return verdicts.verify(subject, workers=flow.cores(), tell=talk)


def _reference(wish: Wish) -> Report | None:
    path = wish.against or wish.source.parent / flow.REPORT
    return report.read(path) if wish.against is not None or path.exists() else None


def _current(wish: Wish, prefix: Path, reference: Report | None, talk: Talk) -> Report | None:
    """How the environment behaves now; not asked where nobody would compare it."""
    if reference is None and wish.report_path is None:
        return None
    target = inside.Target(
        python=prefixes.python(prefix), environ=activation.environ(prefix, os.environ), prefix=prefix, name=wish.name
    )
    told = probe.probe(target, tell=talk)
    if wish.report_path is not None:
        report.write(wish.report_path, told)
    return told
