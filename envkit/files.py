"""Are the files of an environment still those of its packages? Streaming, in parallel, in little memory."""

import concurrent.futures
import hashlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from envkit import prefix as prefixes
from envkit.prefix import PathEntry, PrefixRecord
from envkit.progress import Step, Tell, silent

_BLOCK = 1 << 18
_CHUNK = 256


class Changed(msgspec.Struct, frozen=True, kw_only=True):
    """A file that is not what its record says. Hashes are sha256."""

    package: str
    path: str
    state: Literal["missing", "modified", "unreadable"]
    expected: str = ""
    found: str = ""


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    """What was read, in files and bytes, and what was wrong."""

    files: int
    bytes: int
    changed: tuple[Changed, ...]


class _Work(msgspec.Struct, frozen=True):
    package: str
    entry: PathEntry


def check(prefix: Path, records: Sequence[PrefixRecord], *, workers: int, tell: Tell = silent) -> Checked:
    """Compare every file of every record, by sha256; compiled `.pyc` files are left aside."""
    work = [one for record in records for one in _entries(prefix, record)]
    chunks = [work[start : start + _CHUNK] for start in range(0, len(work), _CHUNK)]
    changed: list[Changed] = []
    read = done = 0
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        for wrong, size, count in pool.map(lambda chunk: _check_chunk(prefix, chunk), chunks):
            changed += wrong
            read, done = read + size, done + count
            tell(Step(stage="check", item="files", done=done, total=len(work), unit="files"))
    return Checked(files=done, bytes=read, changed=tuple(changed))


def _entries(prefix: Path, record: PrefixRecord) -> Iterator[_Work]:
    for entry in prefixes.files(prefix, record).paths_data.paths:
        if not entry.path.endswith(".pyc") and entry.path_type != "directory":
            yield _Work(record.name, entry)


def _check_chunk(prefix: Path, chunk: Sequence[_Work]) -> tuple[list[Changed], int, int]:
    wrong, size = [], 0
    root = os.fspath(prefix)
    buffer = bytearray(_BLOCK)
    for one in chunk:
        problem, read = _check_file(f"{root}/{one.entry.path}", one, buffer)
        size += read
        if problem is not None:
            wrong.append(problem)
    return wrong, size, len(chunk)


def _check_file(path: str, one: _Work, buffer: bytearray) -> tuple[Changed | None, int]:
    entry = one.entry
    expected = entry.sha256_in_prefix or entry.sha256
    try:
        if entry.path_type == "softlink":
            os.lstat(path)
            return None, 0
        found, size = _sha256(path, buffer)
    except FileNotFoundError:
        return Changed(package=one.package, path=entry.path, state="missing", expected=expected or ""), 0
    except OSError as error:
        return Changed(package=one.package, path=entry.path, state="unreadable", found=error.strerror or ""), 0
    if expected is not None and found != expected:
        changed = Changed(package=one.package, path=entry.path, state="modified", expected=expected, found=found)
        return changed, size
    return None, size


def _sha256(path: str, buffer: bytearray) -> tuple[str, int]:
    """The hash and the size, by blocks of one buffer: a library of 2 GB takes no more memory than a script."""
    digest, size, view = hashlib.sha256(), 0, memoryview(buffer)
    handle = os.open(path, os.O_RDONLY)
    try:
        while count := os.readv(handle, [buffer]):
            digest.update(view[:count])
            size += count
    finally:
        os.close(handle)
    return digest.hexdigest(), size
