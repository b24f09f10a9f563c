"""Writing one `.conda` package: an `info` section with index and paths, and the files below it.

Format: conda's "Conda package specification" and CEP 34 (paths.json).
"""

import hashlib
import io
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path

import msgspec

PLACEHOLDER = "/opt/anaconda1anaconda2anaconda3"
"""The prefix that text files of the packages mention; the installer writes the real one in its place."""

_EPOCH_S = 1_577_854_800  # one fixed time for all files, so that equal content gives equal packages


class Index(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """info/index.json."""

    name: str
    version: str
    build: str
    build_number: int
    subdir: str
    depends: tuple[str, ...] = ()
    constrains: tuple[str, ...] = ()
    license: str | None = None
    noarch: str | None = None
    timestamp: int = _EPOCH_S * 1000

    @property
    def stem(self) -> str:
        """The file name without its extension."""
        return f"{self.name}-{self.version}-{self.build}"


class File(msgspec.Struct, frozen=True, kw_only=True):
    """One file of a package: content in memory, on disk, or a link to a sibling."""

    data: bytes | None = None
    path: Path | None = None
    link: str | None = None
    executable: bool = False
    placeholder: bool = False

    def read(self) -> bytes:
        """The content, in bytes."""
        return self.data if self.data is not None else Path(str(self.path)).read_bytes()


def write(folder: Path, index: Index, files: Mapping[str, File], *, info: Mapping[str, bytes]) -> Path:
    """Write `folder/SUBDIR/NAME-VERSION-BUILD.conda`; a package of that name is replaced as a whole."""
    target = folder / index.subdir
    target.mkdir(parents=True, exist_ok=True)
    whole = target / f"{index.stem}.conda"
    with tempfile.TemporaryDirectory(dir=folder, prefix=".unfinished-") as unfinished:
        _write_archive(Path(unfinished), index, files, info)
        (Path(unfinished) / whole.name).replace(whole)
    return whole


def _write_archive(folder: Path, index: Index, files: Mapping[str, File], info: Mapping[str, bytes]) -> None:
    import conda_package_streaming.create as create

    paths: list[dict[str, object]] = []
    with create.conda_builder(index.stem, folder, compression_level=1, compression_threads=-1) as archive:
        for name in sorted(files):
            paths.append(_add_file(archive, name, files[name]))
        sections = {
            "index.json": msgspec.json.encode(index),
            "paths.json": msgspec.json.encode({"paths": paths, "paths_version": 1}),
            "files": "".join(f"{name}\n" for name in sorted(files)).encode(),
            **info,
        }
        for name, data in sorted(sections.items()):
            _add_bytes(archive, f"info/{name}", data, executable=False)


def _add_file(archive: tarfile.TarFile, name: str, file: File) -> dict[str, object]:
    """Add a file and return its entry of paths.json."""
    if file.link is not None:
        member = tarfile.TarInfo(name)
        member.type, member.linkname, member.mtime = tarfile.SYMTYPE, file.link, _EPOCH_S
        archive.addfile(member)
        return {"_path": name, "path_type": "softlink", "size_in_bytes": 0}
    data = file.read()
    _add_bytes(archive, name, data, executable=file.executable)
    entry: dict[str, object] = {
        "_path": name,
        "path_type": "hardlink",
        "sha256": hashlib.sha256(data).hexdigest(),
        "size_in_bytes": len(data),
    }
    return entry | ({"prefix_placeholder": PLACEHOLDER, "file_mode": "text"} if file.placeholder else {})


def _add_bytes(archive: tarfile.TarFile, name: str, data: bytes, *, executable: bool) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mtime, member.mode = len(data), _EPOCH_S, 0o755 if executable else 0o644
    archive.addfile(member, io.BytesIO(data))
