"""What this machine is in conda's terms: its platform and its virtual packages."""

from collections.abc import Iterable

from envkit.record import CondaRecord, VirtualPackage


def platform() -> str:
    """The platform folder that this machine takes packages from, such as `linux-64`."""
    from rattler import Subdir

    return str(Subdir.current())


def host_packages() -> tuple[VirtualPackage, ...]:
    """The virtual packages of this machine, CONDA_OVERRIDE_* variables respected."""
    from rattler import VirtualPackage as Detected
    from rattler import VirtualPackageOverrides

    found = [package.into_generic() for package in Detected.detect(VirtualPackageOverrides.from_env())]
    return tuple(
        sorted(
            VirtualPackage(name=package.name.normalized, version=str(package.version), build=str(package.build_string))
            for package in found
        )
    )


def unmet(records: Iterable[CondaRecord], machine: Iterable[VirtualPackage]) -> tuple[str, ...]:
    """What records need of the machine and it does not have, each as `spec | what it has`."""
    from rattler import MatchSpec, PackageRecord
    from rattler.package import BuildString

    have = {
        one.name: PackageRecord(
            name=one.name, version=one.version, build=BuildString(one.build), build_number=0, subdir="noarch",
            arch=None, platform=None, noarch=None,
        )
        for one in machine
    }  # fmt: skip
    found = set()
    for spec in {spec for record in records for spec in record.depends if spec.startswith("__")}:
        name = spec.partition(" ")[0]
        if name not in have:
            found.add(f"{spec} | none")
        elif not MatchSpec(spec, strict=False).matches(have[name]):
            found.add(f"{spec} | {name} {have[name].version}")
    return tuple(sorted(found))
