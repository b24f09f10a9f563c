"""A wheel as a conda package: files, entry points, and dependencies translated from its metadata.

Pure wheels become `noarch: python`; the others are tied to one Python minor version and one platform.
Sources: PEP 427, PEP 566, PEP 508; conda's noarch `info/link.json`.
"""

import configparser
import csv
import email.parser
import io
import stat
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from envkit import names
from envkit.channel.package import PLACEHOLDER, File, Index, write
from envkit.errors import DamagedPackageError, InputError


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """The interpreter that wheels are packaged for, and its PEP 508 environment for markers."""

    minor: str
    subdir: str
    markers: Mapping[str, str]


def package(wheel: Path, target: Target, folder: Path) -> Path:
    """Write one wheel as a conda package and return the file's path."""
    from packaging.utils import InvalidWheelFilename, parse_wheel_filename

    try:
        name, version, _, tags = parse_wheel_filename(wheel.name)
        archive = zipfile.ZipFile(wheel)
    except (InvalidWheelFilename, zipfile.BadZipFile, OSError) as error:
        raise DamagedPackageError(f"{wheel.name}: not a wheel: {error}") from error
    pure = all(tag.abi == "none" and tag.platform == "any" for tag in tags)
    with archive:
        files = dict(_files(archive, pure=pure, minor=target.minor))
        info_folder = _dist_info(archive)
        metadata = email.parser.BytesParser().parsebytes(archive.read(f"{info_folder}/METADATA"))
        points = _entry_points(archive, info_folder)
    local = str(version.local or "").replace(".", "_")
    index = Index(
        name=names.conda_name(name),
        version=version.public,
        build=_build_string(local, pure=pure, minor=target.minor),
        build_number=0,
        subdir="noarch" if pure else target.subdir,
        noarch="python" if pure else None,
        license=metadata.get("License-Expression"),
        depends=_depends(metadata.get_all("Requires-Dist") or [], metadata.get("Requires-Python"), target, pure=pure),
    )
    if not pure:
        files.update(_scripts(points, target.minor))
    link = {"noarch": {"type": "python", "entry_points": list(points)}, "package_metadata_version": 1}
    return write(folder, index, files, info={"link.json": msgspec.json.encode(link)} if pure else {})


def _build_string(local: str, *, pure: bool, minor: str) -> str:
    """`py_0` or `py311_0`, after the wheel's local version (`cpu`, `cu118`) where it has one."""
    base = "py_0" if pure else f"py{minor.replace('.', '')}_0"
    flavour = local.replace("cu", "cuda") if local[:2] == "cu" and local[2:].isdigit() else local
    return f"{flavour}_{base}" if flavour else base


def _dist_info(archive: zipfile.ZipFile) -> str:
    found = sorted({name.split("/")[0] for name in archive.namelist() if name.split("/")[0].endswith(".dist-info")})
    if len(found) != 1:
        raise DamagedPackageError(f"{archive.filename}: {len(found)} .dist-info folders in a wheel")
    return found[0]


def _files(archive: zipfile.ZipFile, *, pure: bool, minor: str) -> Iterator[tuple[str, File]]:
    site = "site-packages" if pure else f"lib/python{minor}/site-packages"
    info_folder = _dist_info(archive)
    for entry in archive.infolist():
        if entry.is_dir():
            continue
        inner, data = entry.filename, archive.read(entry)
        if ".." in Path(inner).parts or inner.startswith("/"):
            raise DamagedPackageError(f"{archive.filename}: the path {inner!r} leaves the wheel")
        if inner == f"{info_folder}/RECORD":
            data = _record_without_scripts(data)
        place, kind = _place(inner, site, pure=pure, minor=minor)
        executable = kind == "scripts" or bool((entry.external_attr >> 16) & stat.S_IXUSR)
        if kind == "scripts" and data.startswith(b"#!python"):
            shebang = f"#!{PLACEHOLDER}/bin/python\n".encode()
            yield place, File(data=shebang + data.partition(b"\n")[2], executable=True, placeholder=True)
        else:
            yield place, File(data=data, executable=executable)
    yield f"{site}/{info_folder}/INSTALLER", File(data=b"conda\n")


def _place(inner: str, site: str, *, pure: bool, minor: str) -> tuple[str, str]:
    """Where a file of the wheel goes, and which of the wheel's `.data` folders it came from."""
    first, _, rest = inner.partition("/")
    if not first.endswith(".data"):
        return f"{site}/{inner}", "purelib"
    kind, _, path = rest.partition("/")
    if kind in ("purelib", "platlib"):
        return f"{site}/{path}", kind
    if kind == "scripts":
        return f"{'python-scripts' if pure else 'bin'}/{path}", kind
    if kind == "headers":
        return f"include/python{minor}/{path}", kind
    return path, kind


def _record_without_scripts(data: bytes) -> bytes:
    """RECORD as it stands in the environment: no hash for what the installer rewrites."""
    rows = [row for row in csv.reader(io.StringIO(data.decode())) if row and not row[0].endswith((".jws", ".p7s"))]
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()


def _entry_points(archive: zipfile.ZipFile, info_folder: str) -> tuple[str, ...]:
    """The console and GUI scripts as `name = module:function`."""
    name = f"{info_folder}/entry_points.txt"
    if name not in archive.namelist():
        return ()
    parser = configparser.RawConfigParser(delimiters=("=",), strict=False)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(archive.read(name).decode())
    sections = [parser[section] for section in ("console_scripts", "gui_scripts") if parser.has_section(section)]
    return tuple(f"{point} = {value.split('[')[0].strip()}" for section in sections for point, value in section.items())


def _scripts(points: tuple[str, ...], minor: str) -> Iterator[tuple[str, File]]:
    """Entry points of a compiled package as scripts: only noarch packages get theirs from the installer."""
    for point in points:
        name, _, target = point.partition(" = ")
        module, _, function = target.partition(":")
        body = (
            f"#!{PLACEHOLDER}/bin/python{minor}\nimport sys\n\nfrom {module} import {function.split('.')[0]}\n\n"
            f'if __name__ == "__main__":\n    sys.exit({function}())\n'
        )
        yield f"bin/{name}", File(data=body.encode(), executable=True, placeholder=True)


def _depends(requirements: list[str], python: str | None, target: Target, *, pure: bool) -> tuple[str, ...]:
    from packaging.requirements import InvalidRequirement, Requirement

    specs = [_python_spec(python, target.minor, pure=pure)]
    for line in requirements:
        try:
            requirement = Requirement(line)
        except InvalidRequirement as error:
            raise InputError(f"requirement {line!r} cannot be read: {error}") from error
        if requirement.marker is None or requirement.marker.evaluate({**target.markers, "extra": ""}):
            version = conda_version(str(requirement.specifier))
            specs.append(f"{names.conda_name(requirement.name)} {version}".strip())
    return tuple(dict.fromkeys(specs))


def _python_spec(requires: str | None, minor: str, *, pure: bool) -> str:
    if not pure:
        major, number = minor.split(".")
        return f"python >={minor},<{major}.{int(number) + 1}.0a0"
    return f"python {conda_version(requires or '')}".strip()


def conda_version(specifier: str) -> str:
    """A PEP 440 specifier set in conda's language: `~=1.4` -> `>=1.4,==1.*`, `==2.0+cpu` -> `==2.0`."""
    parts = []
    for part in sorted(filter(None, (piece.strip() for piece in specifier.split(",")))):
        operator = next(sign for sign in ("===", "~=", "==", "!=", "<=", ">=", "<", ">") if part.startswith(sign))
        version = part[len(operator) :].strip().split("+")[0]
        if operator == "~=":
            release = version.split(".")[:-1]
            parts += [f">={version}", f"=={'.'.join(release)}.*"]
        else:
            parts.append(("==" if operator == "===" else operator) + version)
    return ",".join(parts)
