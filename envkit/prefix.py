"""An environment on disk: its conda records, what pip put beside them, and whether it was finished."""

import email.parser
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from envkit import codec, names, redact
from envkit.errors import BrokenEnvironmentError

COMPLETION = "envkit"
"""Name of the completion record in conda-meta. No `.json`: conda would take it for a package."""

FORMAT = "1.0"


class PathEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One file of a record. Sizes are of the package's file, before the prefix was written into it."""

    path: str = msgspec.field(name="_path")
    path_type: str = "hardlink"
    sha256: str | None = None
    sha256_in_prefix: str | None = None
    size_in_bytes: int | None = None
    prefix_placeholder: str | None = None


class Paths(msgspec.Struct, frozen=True, kw_only=True):
    """The `paths_data` of a record."""

    paths: tuple[PathEntry, ...] = ()


class PrefixRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A record of conda-meta, without its files."""

    name: str
    version: str
    build: str
    build_number: int = 0
    subdir: str = ""
    channel: str = ""
    url: str = ""
    md5: str | None = None
    sha256: str | None = None
    noarch: str | None = None
    file: str = ""


class Files(msgspec.Struct, frozen=True, kw_only=True):
    """The files of a record of conda-meta."""

    name: str
    paths_data: Paths = Paths()
    files: tuple[str, ...] = ()


class PipRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A distribution that no conda record owns. `source` is `index`, or the address it was installed from."""

    name: str
    version: str
    installer: str
    source: str
    editable: bool = False


class Completion(msgspec.Struct, frozen=True, kw_only=True):
    """The record that is written last: without it a prefix is not whole."""

    format: str = msgspec.field(name="envkit-prefix", default=FORMAT)
    platform: str
    lock_digest: str
    specs: tuple[str, ...] = ()
    link_scripts: tuple[str, ...] = ()


def is_environment(prefix: Path) -> bool:
    """Whether conda would take this folder for an environment."""
    return (prefix / "conda-meta" / "history").is_file()


def check(prefix: Path) -> None:
    """Refuse a folder that is no environment."""
    if is_environment(prefix):
        return
    if not prefix.exists():
        raise BrokenEnvironmentError(f"{prefix}: there is no environment here", hint="envkit build makes one")
    raise BrokenEnvironmentError(
        f"{prefix}: not an environment: it has no conda-meta/history", hint="give the folder that holds conda-meta"
    )


def completion(prefix: Path) -> Completion | None:
    """The completion record; None for a prefix that envkit did not make or did not finish."""
    path = prefix / "conda-meta" / COMPLETION
    if not path.is_file():
        return None
    return codec.convert(codec.read_json(path), Completion, str(path))


def records(prefix: Path) -> tuple[PrefixRecord, ...]:
    """All conda records by name; raises BrokenEnvironmentError that names every unreadable one."""
    found, broken = [], []
    for path in sorted((prefix / "conda-meta").glob("*.json")):
        try:
            found.append(
                msgspec.structs.replace(msgspec.json.decode(path.read_bytes(), type=PrefixRecord), file=path.name)
            )
        except (msgspec.DecodeError, UnicodeDecodeError, OSError) as error:
            broken.append(f"{path.name}: {error}")
    if broken:
        raise BrokenEnvironmentError(
            f"{prefix}: {len(broken)} record(s) in conda-meta cannot be read",
            details=tuple(broken),
            hint="the environment is damaged: envkit build --force makes it again",
        )
    return tuple(found)


def files(prefix: Path, record: PrefixRecord) -> Files:
    """The files of one record."""
    return msgspec.json.decode((prefix / "conda-meta" / record.file).read_bytes(), type=Files)


def python(prefix: Path) -> Path:
    """The interpreter of a prefix; raises BrokenEnvironmentError when there is none."""
    for candidate in (prefix / "bin" / "python", prefix / "python.exe"):
        if candidate.exists():
            return candidate
    raise BrokenEnvironmentError(f"{prefix}: the environment has no Python", hint="add `python` to its specs")


def site_packages(prefix: Path) -> tuple[Path, ...]:
    """The folders that hold the prefix's distributions."""
    return tuple(sorted([*prefix.glob("lib/python3*/site-packages"), *prefix.glob("Lib/site-packages")]))


def pip_records(prefix: Path, owned: frozenset[str], homes: Sequence[str] = ()) -> tuple[PipRecord, ...]:
    """Distributions in site-packages that no conda record owns; `owned` are the files of the conda records."""
    found = []
    for folder in site_packages(prefix):
        for info in sorted([*folder.glob("*.dist-info"), *folder.glob("*.egg-info")]):
            inside = (info / "METADATA").relative_to(prefix).as_posix()
            egg = (info / "PKG-INFO").relative_to(prefix).as_posix()
            if inside not in owned and egg not in owned and info.is_dir():
                found.append(_pip_record(info, homes))
    return tuple(found)


def _pip_record(info: Path, homes: Sequence[str]) -> PipRecord:
    stem = info.name.rpartition(".")[0]
    name, _, version = stem.partition("-")
    metadata = next((info / one for one in ("METADATA", "PKG-INFO") if (info / one).is_file()), None)
    if metadata is not None:
        head = email.parser.BytesHeaderParser().parsebytes(metadata.read_bytes())
        name, version = head.get("Name", name), head.get("Version", version)
    source, editable = _source(info)
    return PipRecord(
        name=names.canonical(name),
        version=version,
        installer=_first_line(info / "INSTALLER") or "unknown",
        source=redact.text(source, homes),
        editable=editable,
    )


def _source(info: Path) -> tuple[str, bool]:
    """Where a distribution came from, by PEP 610's direct_url.json."""
    path = info / "direct_url.json"
    if not path.is_file():
        return "index", False
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        return "unreadable direct_url.json", False
    commit = told.get("vcs_info", {}).get("commit_id", "")
    address = str(told.get("url", "unknown")) + (f"@{commit}" if commit else "")
    return address, bool(told.get("dir_info", {}).get("editable"))


def _first_line(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace").strip().partition("\n")[0] if path.is_file() else ""


def owned_files(prefix: Path, found: Sequence[PrefixRecord]) -> frozenset[str]:
    """The paths, relative to the prefix, of all files that conda records own."""
    return frozenset(entry for record in found for entry in _paths(files(prefix, record)))


def _paths(record: Files) -> Iterator[str]:
    yield from record.files
    yield from (entry.path for entry in record.paths_data.paths)


def variables(prefix: Path) -> Mapping[str, str]:
    """The variables of an environment.yml's `variables:`, where conda keeps them: conda-meta/state."""
    path = prefix / "conda-meta" / "state"
    if not path.is_file():
        return {}
    state = codec.read_json(path)
    held = state.get("env_vars", {}) if isinstance(state, dict) else {}
    return {str(key): str(value) for key, value in held.items()}
