"""From what the doctor is shown to a situation: a file, a lock, a prefix, or this machine alone."""

import os
import tempfile
from pathlib import Path

import msgspec

from envkit import check, driver, engine, host, lock
from envkit import situation as situations
from envkit.cli import flow, options
from envkit.errors import BrokenEnvironmentError, InputError
from envkit.finding import UnreadableFile
from envkit.situation import Situation


def situation(
    source: Path | None, name: str | None, prefix: Path | None, platform: str | None
) -> tuple[str, Situation]:
    """Its name for people, and all that is known of it. Raises InputError for what cannot be read."""
    if source is not None and (name is not None or prefix is not None):
        raise InputError("give a file or an environment, not both")
    if source is not None and source.is_dir():
        source, prefix = None, source
    here = engine.platform()
    place = None
    if source is not None:
        where, platform, given = str(source), platform or here, _of_file(source, platform)
    elif name is not None or prefix is not None:
        place = options.prefix_from(name, prefix)
        where, platform, given = str(place), here, _of_prefix(place)
    else:
        where, given = "this machine", Situation()
    facts = {**given.facts, "platform": platform or here}
    # What is for another platform does not run here: this machine says nothing about it.
    if facts["platform"] == here:
        python = next((one.version for one in given.of("python") if one.version), None)
        machine = situations.of_machine(
            host.describe(Path(tempfile.gettempdir())),
            driver.describe(),
            engine.host_packages(),
            os.environ,
            python=python,
            place=place,
        )
        facts = {**machine, **facts}
    return where, situations.derive(msgspec.structs.replace(given, facts=facts))


def _of_file(path: Path, platform: str | None) -> Situation:
    if flow.is_lock(path):
        return _of_lock(lock.read(path), platform, str(path))
    checked = check.check(path, platforms=(platform,) if platform else ())
    if checked.subject is None or checked.environment is None:
        raise UnreadableFile(str(path), checked.findings)
    if platform is None:
        return situations.of_environment(checked.subject)
    return situations.of_environment(check.take_apart(checked.environment.for_platform(platform))[0])


def _of_lock(held: lock.Lock, platform: str | None, where: str) -> Situation:
    wanted = platform or engine.platform()
    return situations.of_lock(lock.for_platform(held, wanted, where), wanted)


def _of_prefix(place: Path) -> Situation:
    try:
        return situations.of_prefix(place)
    except BrokenEnvironmentError as error:
        raise InputError(error.message, details=error.details, hint=error.hint) from error
