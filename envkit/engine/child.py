"""The process that installs: a question on stdin, lines of JSON on stdout."""

import asyncio
import concurrent.futures
import hashlib
import json
import os
import sys
import threading
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

import msgspec
import platformdirs

from envkit import condarc, redact
from envkit.engine import translate
from envkit.engine.install import Failure, Installed, Line, Question
from envkit.engine.solve import _to_rattler, client
from envkit.errors import EnvkitError, NetworkError
from envkit.progress import Step
from envkit.record import CondaRecord

# Of a package's own index.json: what a lock does not carry and conda wants to know later.
_COMPLETED = (
    "arch",
    "build_number",
    "constrains",
    "depends",
    "features",
    "license",
    "license_family",
    "noarch",
    "platform",
    "python_site_packages_path",
    "timestamp",
    "track_features",
)


def main() -> None:
    """Answer one question and leave at once, whatever threads are still busy."""
    # rattler and its children may print: stdout is for the answer alone.
    answer = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)

    def say(line: Line) -> None:
        answer.write(msgspec.json.encode(line).decode() + "\n")

    question = msgspec.json.decode(sys.stdin.buffer.readline(), type=Question)
    threading.Thread(target=_leave_with_parent, daemon=True).start()
    try:
        say(Line(installed=_install(question, say)))
    except EnvkitError as error:
        say(Line(failure=Failure(kind=error.kind, message=error.message, hint=error.hint, details=error.details)))
    answer.flush()
    os._exit(0)


def _leave_with_parent() -> None:
    """A parent that was killed must not leave an installer behind that goes on writing."""
    sys.stdin.buffer.read()
    os._exit(1)


def _install(question: Question, say: Any) -> Installed:
    missing = _not_cached(question.records)
    _check_local_packages(missing)
    if question.offline or condarc.load().offline:
        _refuse_fetching(missing)
    folder = Path(question.folder)
    try:
        asyncio.run(_link(question, Reporter(say, len(question.records))))
    except Exception as problem:
        raise translate.error(problem, doing="installing") from problem
    return Installed(link_scripts=_complete_records(folder), clobbered=_clobbered(folder))


async def _link(question: Question, reporter: "Reporter") -> None:
    from rattler import MatchSpec, Subdir, install

    await install(
        [_to_rattler(record) for record in question.records],
        question.folder,
        alternative_target_prefix=question.prefix,
        platform=Subdir(question.platform),
        client=client(),
        execute_link_scripts=False,
        show_progress=False,
        # The wrapper hands the list on as it is, so it must hold the inner objects.
        requested_specs=[MatchSpec(spec, strict=False)._match_spec for spec in question.specs],
        reporter=reporter,
    )


def _not_cached(records: tuple[CondaRecord, ...]) -> tuple[CondaRecord, ...]:
    """The records that rattler's cache does not hold under their own hash."""
    from rattler import PackageCache

    cached = asyncio.run(PackageCache(_cache()).index())
    return tuple(one for one in records if not cached.contains_record(_to_rattler(one)))


def _refuse_fetching(missing: tuple[CondaRecord, ...]) -> None:
    """Without a network, everything that is not a file here must be in the cache."""
    remote = tuple(one.fn for one in missing if not one.url.startswith("file:"))
    if remote:
        raise NetworkError(
            f"{len(remote)} package(s) are not in the cache", details=remote, hint="build without --offline"
        )


def _cache() -> Path:
    """rattler's package cache, where it looks itself."""
    given = os.environ.get("RATTLER_CACHE_DIR")
    return (Path(given) if given else platformdirs.user_cache_path("rattler", appauthor=False) / "cache") / "pkgs"


def _check_local_packages(records: tuple[CondaRecord, ...]) -> None:
    """rattler takes a package from a `file:` address on trust: check those bytes against the lock here."""
    local = [record for record in records if record.url.startswith("file:")]
    with concurrent.futures.ThreadPoolExecutor() as pool:
        list(pool.map(_check_local_package, local))


def _check_local_package(record: CondaRecord) -> None:
    path = Path(urllib.request.url2pathname(urllib.parse.urlsplit(record.url).path))
    expected = record.sha256 or record.md5
    if expected is None:
        return
    try:
        with path.open("rb") as file:
            found = _digest(file, "sha256" if record.sha256 else "md5")
    except OSError as error:
        raise NetworkError(
            f"{record.fn}: cannot be read from {record.channel}: {error.strerror}",
            hint="is the channel's folder still there? lock again if its packages changed",
        ) from error
    if found != expected:
        raise translate.wrong_hash(record.fn, expected=expected, found=found)


def _digest(file: Any, algorithm: str) -> str:
    digest = hashlib.new(algorithm)
    while block := file.read(1 << 20):
        digest.update(block)
    return digest.hexdigest()


class Reporter:
    """Turns rattler's callbacks into steps: bytes fetched and packages linked."""

    def __init__(self, say: Any, total: int) -> None:
        self._say, self._total, self._linked = say, total, 0
        self._names: dict[int, str] = {}
        self._reported: dict[int, int] = {}

    def on_populate_cache_start(self, operation: int, package_name: str) -> int:
        """A package is looked up in the cache."""
        self._names[operation] = package_name
        return operation

    def on_download_start(self, cache_entry: int) -> int:
        """A package that was not in the cache is fetched."""
        self._say(Line(step=Step(stage="download", item=self._names.get(cache_entry, ""))))
        return cache_entry

    def on_download_progress(self, download_idx: int, progress: int, total: int | None) -> None:
        """Bytes came in; a step for every 4 MB is enough."""
        if progress - self._reported.get(download_idx, 0) >= 4 << 20:
            self._reported[download_idx] = progress
            name = self._names.get(download_idx, "")
            self._say(Line(step=Step(stage="download", item=name, done=progress, total=total, unit="bytes")))

    def on_link_start(self, operation: int, package_name: str) -> int:
        """A package is linked into the prefix."""
        self._names[-1 - operation] = package_name
        return operation

    def on_link_complete(self, index: int) -> None:
        """A package stands in the prefix."""
        self._linked += 1
        name = self._names.get(-1 - index, "")
        self._say(Line(step=Step(stage="link", item=name, done=self._linked, total=self._total, unit="packages")))

    def __getattr__(self, name: str) -> Any:
        # The protocol has some more callbacks that say nothing to a person.
        if name.startswith("on_"):
            return lambda *arguments: 0
        raise AttributeError(name)


def _complete_records(folder: Path) -> tuple[str, ...]:
    """Give each record what the package's own index says, as conda has it, and name the link scripts found."""
    scripts: list[str] = []
    for path in sorted((folder / "conda-meta").glob("*.json")):
        record = msgspec.json.decode(path.read_bytes())
        scripts += [name for name in record["files"] if Path(name).name.endswith(("-post-link.sh", "-post-link.bat"))]
        index = Path(record.get("extracted_package_dir") or "") / "info" / "index.json"
        if index.is_file():
            own = json.loads(index.read_text(encoding="utf-8"))
            record.update({key: own[key] for key in _COMPLETED if own.get(key) is not None})
        # A login that fetched the package is not to stand in the environment.
        record.update({key: redact.url(record[key]) for key in ("url", "channel") if record.get(key)})
        path.write_bytes(msgspec.json.format(msgspec.json.encode(record), indent=2))
    return tuple(scripts)


def _clobbered(folder: Path) -> tuple[str, ...]:
    """Files that two packages both bring: rattler keeps the losers aside."""
    aside = folder / "__clobbers__"
    return tuple(str(path.relative_to(aside)) for path in sorted(aside.rglob("*")) if path.is_file())


if __name__ == "__main__":
    main()
