"""rattler's errors as ours: the sentence, the class, the next action. It raises text, so text is what is read."""

import re

from envkit import redact
from envkit.errors import (
    BuildError,
    DamagedPackageError,
    EnvkitError,
    InputError,
    NetworkError,
    StorageError,
    UnsolvableError,
)

_STATUS = re.compile(r"HTTP status \w+ error \((?P<status>\d+)[^)]*\) for url \((?P<url>[^)]+)\)")
_UNREACHED = re.compile(r"error sending request for url \((?P<url>[^)]+)\)")
_NO_CHANNEL = re.compile(r"could not find subdir '(?P<subdir>[^']+)' in channel '(?P<channel>[^']+)'")
_HASH = re.compile(
    r"hash mismatch .*?(?P<file>[^/\s]+\.(?:conda|tar\.bz2)).*expected (?P<expected>\w+), got (?P<got>\w+)"
)
_FETCHED = re.compile(r"failed to fetch (?P<file>\S+)")
_DAMAGE = re.compile(
    r"invalid checksum|failed to unpack|unexpected end of file|end of file before|error decoding response body"
    r"|invalid zip|not a zip|could not find EOCD|invalid gzip|unsupported zip|expected value at line|EOF while parsing",
    re.IGNORECASE,
)


def error(problem: Exception, *, doing: str) -> EnvkitError:
    """The EnvkitError for something that rattler raised while `doing` it."""
    text = redact.url(str(problem).strip())
    for translate in (_channel, _hash, _storage, _network, _damage):
        translated = translate(text)
        if translated is not None:
            return translated
    kind = type(problem).__name__
    if kind == "SolverError":
        return UnsolvableError(text.removeprefix("Cannot solve the request because of: ").strip() or doing)
    if kind in ("InvalidMatchSpecError", "InvalidChannelError", "InvalidUrlError"):
        return InputError(f"{doing}: {text}")
    return BuildError(f"{doing}: {text}", hint="run the command again with -v; if it stays, this is a bug of envkit")


def _channel(text: str) -> EnvkitError | None:
    match = _NO_CHANNEL.search(text)
    if match is None:
        return None
    status = _STATUS.search(text)
    answer = f"answered {status['status']} for {status['url']}" if status else "has no such folder"
    if status and status["status"] not in ("404", "403", "401"):
        return None
    login = bool(status and status["status"] in ("401", "403"))
    return NetworkError(
        f"channel {match['channel']} {answer}",
        hint="this channel needs a login (netrc, keyring or a variable in its URL)"
        if login
        else "check the channel's name; a folder needs an index (`envkit channel make`)",
    )


def _hash(text: str) -> EnvkitError | None:
    match = _HASH.search(text)
    if match is None:
        return None
    return wrong_hash(match["file"], expected=match["expected"], found=match["got"])


def wrong_hash(file: str, *, expected: str, found: str) -> DamagedPackageError:
    """The error for a package whose bytes are not those of the lock."""
    return DamagedPackageError(
        f"{file}: the channel serves other bytes than the lock names",
        details=(f"expected {expected}", f"found    {found}"),
        hint="lock again if the channel replaced the package; otherwise do not trust it",
    )


def _storage(text: str) -> EnvkitError | None:
    if "No space left on device" in text or "os error 28" in text:
        return StorageError("the disk is full", hint="free some space and run the command again")
    if "Read-only file system" in text or "Permission denied" in text:
        line = next((part for part in text.splitlines() if "denied" in part or "Read-only" in part), text)
        return StorageError(f"cannot write: {text.splitlines()[0]}: {line.removeprefix('Caused by: ')}")
    return None


def _network(text: str) -> EnvkitError | None:
    status, unreached = _STATUS.search(text), _UNREACHED.search(text)
    if status is not None:
        hint = (
            "the server is in trouble: try again later" if status["status"][0] == "5" else "lock again: it may be gone"
        )
        return NetworkError(f"{status['url']} answered {status['status']}", hint=hint)
    if unreached is not None:
        reason = text.splitlines()[-1].removeprefix("Caused by: ")
        return NetworkError(f"{unreached['url']} cannot be reached: {reason}", hint="check the network and the channel")
    return None


def _damage(text: str) -> EnvkitError | None:
    match = _FETCHED.search(text)
    if _DAMAGE.search(text) is None:
        return None
    what = match["file"] if match else "the channel's index"
    reason = text.splitlines()[-1].removeprefix("Caused by: ")
    return DamagedPackageError(
        f"{what} is truncated or damaged: {reason}",
        hint="run the command again; if it stays, the channel's copy is bad",
    )
