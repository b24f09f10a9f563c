"""A conda package record: what a channel's index says of one package, as far as locks and prefixes need it."""

import msgspec


class CondaRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One record of a channel index, with the address that it came from."""

    name: str
    version: str
    build: str
    build_number: int
    subdir: str
    url: str
    fn: str
    channel: str = ""
    md5: str | None = None
    sha256: str | None = None
    size: int | None = None
    depends: tuple[str, ...] = ()
    constrains: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """`name version build`."""
        return f"{self.name} {self.version} {self.build}"


class CondaSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A conda spec, taken apart: the version in canonical form (`1.2.*`, `==1.2`, `>=1,<2`), None for any."""

    name: str
    version: str | None = None
    build: str | None = None
    channel: str | None = None
    subdir: str | None = None


class VirtualPackage(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """Something of the machine that packages may depend on: `__cuda 11.8`, `__glibc 2.28`."""

    name: str
    version: str
    build: str = "0"


def parse_virtual(text: str) -> VirtualPackage:
    """`__cuda=11.8` or `__archspec=1=x86_64`."""
    name, version, *build = text.split("=")
    return VirtualPackage(name=name, version=version, build=build[0] if build else "0")


def show_virtual(package: VirtualPackage) -> str:
    """The inverse of `parse_virtual`."""
    return f"{package.name}={package.version}" + (f"={package.build}" if package.build not in ("", "0") else "")


def from_url(url: str, *, name: str, version: str) -> CondaRecord:
    """The record that a package's address gives: file name, build string, platform and channel.

    Build numbers are the build string's last part, as conda-build writes them.
    """
    channel, _, rest = url.rpartition("/")[0].rpartition("/")
    fn = url.rpartition("/")[2].partition("#")[0]
    stem = fn.removesuffix(".conda").removesuffix(".tar.bz2")
    build = stem.rpartition("-")[2]
    number = build.rpartition("_")[2]
    return CondaRecord(
        name=name,
        version=version,
        build=build,
        build_number=int(number) if number.isdigit() else 0,
        subdir=rest,
        url=url.partition("#")[0],
        fn=fn,
        channel=channel,
    )
