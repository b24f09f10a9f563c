"""conda-lock.yml as a record: what was locked for each platform. conda-lock's unified format, version 1."""

import hashlib
import posixpath
import re
from pathlib import Path

import msgspec

from envkit import codec, record
from envkit.errors import InputError, PlatformError
from envkit.record import CondaRecord, VirtualPackage

FORMAT = 1
CUSTOM_KEY = "envkit-virtual-packages"
"""Where envkit keeps, in the lock's `custom_metadata`, the virtual packages that it was solved with."""


class Hash(msgspec.Struct, frozen=True):
    """Hashes of one package file."""

    md5: str | None = None
    sha256: str | None = None


class Source(msgspec.Struct, frozen=True):
    """A pip entry that comes from an address instead of an index."""

    type: str
    url: str


class Package(msgspec.Struct, frozen=True, kw_only=True):
    """One locked package of one platform."""

    name: str
    version: str
    manager: str
    platform: str
    url: str
    hash: Hash
    dependencies: dict[str, str] = {}
    category: str = "main"
    optional: bool = False
    source: Source | None = None
    build: str | None = None


class ChannelEntry(msgspec.Struct, frozen=True):
    """A channel as conda-lock writes it."""

    url: str
    used_env_vars: tuple[str, ...] = ()


class Metadata(msgspec.Struct, frozen=True, kw_only=True):
    """The head of the lock."""

    content_hash: dict[str, str]
    channels: tuple[ChannelEntry, ...]
    platforms: tuple[str, ...]
    sources: tuple[str, ...] = ()
    custom_metadata: dict[str, str] | None = None


class Lock(msgspec.Struct, frozen=True, kw_only=True):
    """A whole lock file."""

    version: int
    metadata: Metadata
    package: tuple[Package, ...]

    def conda(self, platform: str) -> tuple[CondaRecord, ...]:
        """The conda records of a platform, with `${VARIABLES}` in their addresses replaced."""
        return tuple(_record(one) for one in self.package if one.manager == "conda" and one.platform == platform)

    def pip(self, platform: str) -> tuple[Package, ...]:
        """The pip entries of a platform."""
        return tuple(one for one in self.package if one.manager == "pip" and one.platform == platform)

    def virtual_packages(self, platform: str) -> tuple[VirtualPackage, ...]:
        """The virtual packages that the platform was solved with; empty for a lock of another tool."""
        entry = (self.metadata.custom_metadata or {}).get(f"{CUSTOM_KEY}-{platform}", "")
        return tuple(record.parse_virtual(part) for part in entry.split())

    def digest(self, platform: str) -> str:
        """sha256 of what would be installed on a platform, whatever else the file says."""
        lines = [
            f"{one.manager} {one.name} {one.version} {one.url} {one.hash.sha256 or one.hash.md5}"
            for one in self.package
            if one.platform == platform
        ]
        return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()


def read(path: Path) -> Lock:
    """Read a lock; raises InputError for another format, with all that does not fit."""
    import yaml

    text = codec.read_text(path)
    try:
        document = codec.load_yaml(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f":{mark.line + 1}:{mark.column + 1}" if mark is not None else ""
        raise InputError(f"{path}{line}: not YAML: {getattr(error, 'problem', error)}") from error
    if not isinstance(document, dict) or "metadata" not in document or "package" not in document:
        raise InputError(
            f"{path}: not a conda-lock file",
            hint="envkit reads conda-lock.yml as `envkit lock` or conda-lock write it"
            + (" (this is a pixi or rattler lock)" if isinstance(document, dict) and "packages" in document else ""),
        )
    if document.get("version") != FORMAT:
        raise InputError(
            f"{path}: lock format {document.get('version')!r}, but envkit reads format {FORMAT}",
            hint="lock again with conda-lock 4 or `envkit lock`",
        )
    return codec.convert(document, Lock, str(path))


def for_platform(lock: Lock, platform: str, where: str) -> Lock:
    """`lock` if it holds the platform, else PlatformError with the ones that it does hold."""
    if platform not in {one.platform for one in lock.package}:
        raise PlatformError(
            f"{where} is locked for {', '.join(lock.metadata.platforms) or 'no platform'}, not for {platform}",
            hint=f"envkit lock environment.yml --platform {platform}",
        )
    return lock


def _record(package: Package) -> CondaRecord:
    url = expand(package.url)
    made = record.from_url(url, name=package.name, version=package.version)
    return msgspec.structs.replace(
        made,
        md5=package.hash.md5 or None,
        sha256=package.hash.sha256,
        depends=tuple(f"{name} {version}".strip() for name, version in sorted(package.dependencies.items())),
    )


def expand(url: str) -> str:
    """An address with its `${VARIABLES}` replaced, as conda-lock does; an unset one is an error that names it."""
    expanded = posixpath.expandvars(url)
    left = re.search(r"\$\{?(\w+)\}?", expanded)
    if left is not None:
        raise InputError(
            f"the lock's address {url} needs the environment variable {left[1]}", hint=f"export {left[1]}=..."
        )
    return expanded
