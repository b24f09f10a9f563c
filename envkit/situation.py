"""What the doctor looks at: packages, channels and facts, read from a file, a lock, a prefix and this machine.

A fact that is not known is absent; no rule fires on it.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Literal

import msgspec

from envkit import compatibility, names
from envkit import prefix as prefixes
from envkit.compatibility import CUDA_PACKAGES
from envkit.driver import Driver
from envkit.host import Host
from envkit.lock import Lock
from envkit.record import VirtualPackage
from envkit.rules.pip_rules import without_index
from envkit.rules.subject import Subject, pinned

Fact = bool | int | float | str

_TORCH = ("pytorch", "pytorch-gpu", "pytorch-cpu", "libtorch")
_CUDA_LIBRARY = re.compile(r"lib(cudart|cudnn|cublas|nccl|cusparse)\w*\.so")
_OPENMP = re.compile(r"lib(iomp5|omp)[-\w.]*\.(so|dylib)|libiomp5md\.dll")
_WATCHED_MODULES = ("torch", "torchvision", "torchaudio", "numpy", "PIL", "pandas", "scipy", "lightning")


class Package(msgspec.Struct, frozen=True, kw_only=True):
    """A package that is asked for, locked or installed; `version` is None where no single one is known."""

    name: str
    manager: Literal["conda", "pip"] = "conda"
    version: str | None = None
    build: str | None = None
    channel: str | None = None
    line: int = 0


class Situation(msgspec.Struct, frozen=True, kw_only=True):
    """All that is known. `facts` holds what was told and what `derive` found."""

    packages: tuple[Package, ...] = ()
    channels: tuple[str, ...] = ()
    facts: Mapping[str, Fact] = {}

    def of(self, name: str, manager: str | None = None) -> tuple[Package, ...]:
        """The packages of a name, of one manager where one is given."""
        return tuple(one for one in self.packages if one.name == name and manager in (None, one.manager))


def of_environment(subject: Subject) -> Situation:
    """What an environment.yml asks for."""
    asked = subject.environment
    packages = [
        Package(
            name=one.parsed.name,
            version=pinned(one.parsed.version),
            build=one.parsed.build,
            channel=_channel(one.parsed.channel) if one.parsed.channel else None,
            line=one.item.line,
        )
        for one in subject.specs
    ]
    packages += [
        Package(
            name=names.canonical(one.parsed.name),
            manager="pip",
            version=pinned(one.parsed.spec or None),
            line=one.item.line,
        )
        for one in subject.lines
        if one.parsed.name
    ]
    facts: dict[str, Fact] = {
        "from_file": True,
        "installed": False,
        "wants_cuda": compatibility.cuda_of(asked.spec_texts) != compatibility.CPU,
        "local_pin_without_index": bool(without_index(subject)),
    }
    facts |= _set_by_itself(asked.variables)
    # Without channels conda takes its defaults.
    channels = tuple(_channel(one) for one in subject.channels) or (() if asked.channels else ("defaults",))
    return Situation(packages=tuple(packages), channels=channels, facts=facts)


def of_lock(lock: Lock, platform: str) -> Situation:
    """What a lock holds for a platform."""
    conda = [
        Package(name=one.name, version=one.version, build=one.build, channel=_channel(one.channel))
        for one in lock.conda(platform)
    ]
    pip = [Package(name=names.canonical(one.name), manager="pip", version=one.version) for one in lock.pip(platform)]
    facts: dict[str, Fact] = {"complete": True, "installed": False}
    if any(one.name == "__cuda" for one in lock.virtual_packages(platform)):
        facts["wants_cuda"] = True
    channels = tuple(dict.fromkeys(_channel(one.url) for one in lock.metadata.channels))
    return Situation(packages=(*conda, *pip), channels=channels, facts=facts)


def of_prefix(place: Path) -> Situation:
    """What an installed environment holds; raises BrokenEnvironmentError where it cannot be read."""
    prefixes.check(place)
    records = prefixes.records(place)
    conda = [
        Package(name=one.name, version=one.version, build=one.build, channel=_channel(one.channel or one.url))
        for one in records
    ]
    pip = [
        Package(name=one.name, manager="pip", version=one.version)
        for one in prefixes.pip_records(place, prefixes.owned_files(place, records))
    ]
    held = {one.name for one in records}
    facts: dict[str, Fact] = {"complete": True, "installed": True, "openmp_runtimes": _openmp(place)}
    done = prefixes.completion(place)
    if done is not None and compatibility.cuda_of(done.specs) != compatibility.CPU:
        facts["wants_cuda"] = True
    if held & {"libstdcxx", "libstdcxx-ng"}:
        facts["libstdcxx_link_broken"] = not (place / "lib" / "libstdc++.so.6").exists()
    facts |= _torch_inside(place) | _set_by_itself(prefixes.variables(place))
    # In the order of preference no more, so only who is there is said.
    channels = tuple(sorted({one.channel for one in conda if one.channel}))
    return Situation(packages=(*conda, *pip), channels=channels, facts=facts)


def of_machine(
    host: Host,
    driver: Driver,
    virtual: Iterable[VirtualPackage],
    environ: Mapping[str, str],
    *,
    python: str | None,
    place: Path | None = None,
) -> dict[str, Fact]:
    """The facts of this machine and this process's variables; `place` is the prefix that they are looked at for."""
    told: dict[str, Fact | None] = {
        "driver_state": driver.state,
        "driver_version": driver.version,
        "capability": ".".join(map(str, driver.oldest)) if driver.oldest else None,
        "gpu": ", ".join(dict.fromkeys(gpu.name for gpu in driver.visible_gpus)) or None,
        "jetson": driver.platform == "jetson",
        "glibc": next((one.version for one in virtual if one.name == "__glibc"), None),
        "shm_bytes": host.shm_bytes,
        "cores_logical": host.cores_logical,
        "cores_usable": host.cores_usable,
        "open_files_soft": host.open_files_soft,
        "kmp_duplicate": _is_on(environ.get("KMP_DUPLICATE_LIB_OK")),
        "pythonpath": bool(environ.get("PYTHONPATH")),
        "cuda_hidden": _hides(environ.get("CUDA_VISIBLE_DEVICES")),
    }
    in_front = [path for path in _library_path(environ) if place is None or not path.is_relative_to(place)]
    cuda = [path for path in in_front if _holds(path, _CUDA_LIBRARY)]
    told |= {"library_path_cuda": bool(cuda), "library_path": ":".join(map(str, cuda))}
    told["library_path_libstdcxx"] = any((path / "libstdc++.so.6").exists() for path in in_front)
    modules = _user_modules(python, environ)
    told |= {"user_site": bool(modules), "user_site_modules": ", ".join(modules)}
    return {name: value for name, value in told.items() if value is not None}


def derive(given: Situation) -> Situation:
    """The situation with what follows from its packages, channels and facts; told facts win over derived ones."""
    facts = dict(given.facts)
    for step in (_cuda, _pairs, _machine, _channels):
        facts = {**step(given, facts), **facts}
    return msgspec.structs.replace(given, facts=facts)


def _cuda(given: Situation, facts: Mapping[str, Fact]) -> dict[str, Fact]:
    """What torch is built for, and whether CUDA is meant."""
    held = {one.name for one in given.packages}
    conda = [one for name in _TORCH for one in given.of(name, "conda")]
    pip = given.of("torch", "pip")
    # cpuonly takes back what pytorch-gpu alone asks for; beside a CUDA package it is a contradiction.
    wants = bool(held & set(CUDA_PACKAGES)) or ("pytorch-gpu" in held and "cpuonly" not in held)
    found: dict[str, Fact] = {
        "wants_cuda": wants,
        "torch_twice": bool(conda and pip),
        "torch_from_pip": bool(pip and not conda),
    }
    toolkit = next((version for name in CUDA_PACKAGES for one in given.of(name) if (version := one.version)), None)
    torch = next(iter(conda or pip), None)
    if torch is not None:
        found |= _torch(torch, held, toolkit, str(facts.get("platform", "")))
    elif toolkit:
        found["torch_cuda"] = toolkit
    # Only a build pin or pytorch-gpu keeps the solver from a CPU build.
    meant = facts.get("wants_cuda", wants)
    found["cuda_not_forced"] = bool(facts.get("from_file") and conda and meant and "torch_flavour" not in found)
    return found


def _torch(torch: Package, held: set[str], toolkit: str | None, platform: str) -> dict[str, Fact]:
    """The version, build and CUDA of one torch."""
    build = torch.build or (torch.version or "").partition("+")[2]
    found: dict[str, Fact] = {"torch_build": build or "the plain wheel"}
    if torch.version:
        found["torch_version"] = torch.version
    flavour, cuda = _flavour(build)
    if torch.manager == "pip" and not flavour and torch.version and platform == "linux-64":
        flavour, cuda = "cuda", _wheel_cuda(torch.version)
    for name, meant in (("pytorch-gpu", "cuda"), ("pytorch-cpu", "cpu")):
        flavour = flavour or (meant if name in held else "")
    if flavour:
        found["torch_flavour"] = flavour
    if flavour != "cpu" and (cuda or toolkit):
        found["torch_cuda"] = cuda or str(toolkit)
    return found


def _flavour(build: str) -> tuple[str, str | None]:
    """`cuda` or `cpu` and the CUDA version, from a build string, a build pin or a wheel's local version."""
    if "cpu" in build:
        return "cpu", None
    number = compatibility.cuda_in(build)
    return ("cuda", number) if number or re.search(r"cuda|gpu", build) else ("", None)


def _wheel_cuda(version: str) -> str | None:
    """The CUDA family of the package index's plain Linux wheel of a torch release (the facts' pip table)."""
    from packaging.version import InvalidVersion, Version

    try:
        release = Version(version).release[:2]
    except InvalidVersion:
        return None
    return "13.0" if release >= (2, 11) else "12" if release >= (2, 1) else "11"


def _pairs(given: Situation, facts: Mapping[str, Fact]) -> dict[str, Fact]:
    """Whether torchvision and torchaudio belong to this torch, by the release table."""
    found: dict[str, Fact] = {}
    cuda, builds = facts.get("torch_cuda"), [one.build or "" for one in given.of("torchvision", "conda")]
    vision = next((number for build in builds if (number := _flavour(build)[1])), None)
    if facts.get("torch_flavour") == "cuda" and cuda and vision:
        found["vision_cuda_fits"] = vision == cuda
    minor = _minor(str(facts.get("torch_version", "")))
    pair = compatibility.pair_for(minor) if minor else None
    if pair is None:
        return found
    for fact, name, wanted in (
        ("vision_fits", "torchvision", pair.torchvision),
        ("audio_fits", "torchaudio", pair.torchaudio),
    ):
        version = next((one.version for one in given.of(name) if one.version), None)
        if version is not None:
            found[fact] = _minor(version) == _minor(wanted)
    return found


def _machine(given: Situation, facts: Mapping[str, Fact]) -> dict[str, Fact]:
    """torch's CUDA against this machine's driver and GPU."""
    found: dict[str, Fact] = {}
    cuda, driver, capability = facts.get("torch_cuda"), facts.get("driver_version"), facts.get("capability")
    known = str(cuda).split(".")[0] in compatibility.facts().drivers
    # The package cuda-compat brings a newer user-mode driver along: then the floor does not hold.
    if known and driver is not None and not given.of("cuda-compat"):
        floor = compatibility.driver_floor(str(cuda), str(facts.get("platform", "")))
        found["driver_too_old"] = compatibility.is_older(str(driver), floor)
    if capability is not None and facts.get("torch_flavour") == "cuda" and not facts.get("torch_from_pip"):
        of_pytorch = str(facts.get("torch_build", "")).startswith("py3")
        rows = [row for row in compatibility.facts().templates if row.cuda == cuda]
        rows = [row for row in rows if (row.channel == "pytorch") == of_pytorch] or rows
        major, minor = (int(part) for part in str(capability).split("."))
        if rows:
            found["gpu_in_build"] = any(compatibility.runs_on(row, (major, minor)) for row in rows)
    logical, usable = facts.get("cores_logical"), facts.get("cores_usable")
    if isinstance(logical, int) and isinstance(usable, int):
        found["quota_below_cores"] = usable < logical
    return found


def _channels(given: Situation, facts: Mapping[str, Fact]) -> dict[str, Fact]:
    """What the channels and their order mean for torch."""
    order = {name: place for place, name in reversed(list(enumerate(given.channels)))}
    torch = next((one for one in given.packages if one.manager == "conda" and one.name in _TORCH), None)
    first = min((name for name in ("pytorch", "conda-forge") if name in order), key=order.__getitem__, default=None)
    # A spec may name its channel itself: pytorch::pytorch-cuda.
    named = {*order, *(one.channel for one in given.packages)}
    found: dict[str, Fact] = {
        "frozen_channel": (torch.channel if torch and torch.channel else first) == "pytorch",
        "pytorch_listed": "pytorch" in named,
        "nvidia_listed": "nvidia" in named,
        "conda_forge_listed": "conda-forge" in named,
        "installed": False,
    }
    if not facts.get("installed") and {"pytorch", "conda-forge"} <= set(order):
        found["conda_forge_before_pytorch"] = order["conda-forge"] < order["pytorch"]
    return found


def _channel(address: str) -> str:
    """A channel's name: `conda-forge`, `pytorch`; `defaults` for its parts and `pkgs/main`."""
    path = PurePosixPath(re.sub(r"^\w+://[^/]+", "", address.rstrip("/")))
    parts = [part for part in path.parts if part not in ("/", "label", "noarch", ".")]
    if "pkgs" in parts[-2:] or parts[-1:] == ["defaults"]:
        return "defaults"
    # `pytorch/linux-64` and `pytorch/label/x` are the channel pytorch.
    known = [part for part in parts if part in ("pytorch", "nvidia", "conda-forge", "pytorch-nightly")]
    return known[0] if known else parts[-1] if parts else address


def _openmp(place: Path) -> int:
    """OpenMP runtimes of LLVM and Intel: those of lib/ count as one, every wheel that carries its own as another."""
    own = any(_OPENMP.fullmatch(path.name) for path in _entries(place / "lib", place / "Library" / "bin"))
    found = set()
    for site in prefixes.site_packages(place):
        folders = [*site.glob("*.libs"), *site.glob("*/lib"), *site.glob("*/.libs"), *site.glob("*/.dylibs")]
        found |= {path.resolve() for path in _entries(*folders) if _OPENMP.fullmatch(path.name)}
    # A link into lib/ is no runtime of its own.
    return int(own) + sum(path.parent != (place / "lib").resolve() for path in found)


def _entries(*folders: Path) -> list[Path]:
    return [path for folder in folders if folder.is_dir() for path in folder.iterdir()]


def _torch_inside(place: Path) -> dict[str, Fact]:
    """What the installed torch itself says that it was built for, from torch/version.py."""
    for site in prefixes.site_packages(place):
        path = site / "torch" / "version.py"
        text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
        told = re.search(r"^cuda\b[^=\n]*=\s*(?:'([\d.]+)'|(None))", text, re.MULTILINE)
        if told and told[1]:
            return {"torch_flavour": "cuda", "torch_cuda": told[1]}
        if told:
            return {"torch_flavour": "cpu"}
    return {}


def _set_by_itself(variables: Mapping[str, str]) -> dict[str, Fact]:
    """What the environment's own `variables:` do wherever it is activated."""
    found: dict[str, Fact] = {}
    if _is_on(variables.get("KMP_DUPLICATE_LIB_OK")):
        found["kmp_duplicate"] = True
    if variables.get("LD_LIBRARY_PATH"):
        found["library_path_set"] = True
    return found


def _is_on(value: str | None) -> bool:
    return (value or "").lower() in ("true", "1", "yes", "t", "on")


def _hides(value: str | None) -> bool:
    """Whether CUDA_VISIBLE_DEVICES hides every GPU: its first entry is no index and no UUID."""
    if value is None:
        return False
    first = value.split(",")[0].strip()
    return not (first.isdigit() or first.startswith(("GPU-", "MIG-")))


def _library_path(environ: Mapping[str, str]) -> list[Path]:
    return [Path(part) for part in environ.get("LD_LIBRARY_PATH", "").split(":") if part]


def _holds(folder: Path, pattern: re.Pattern[str]) -> bool:
    try:
        return any(pattern.match(path.name) for path in _entries(folder))
    except OSError:
        return False


def _user_modules(python: str | None, environ: Mapping[str, str]) -> Sequence[str]:
    """Modules in the user's own site-packages of this Python that would be imported before the environment's."""
    if python is None or environ.get("PYTHONNOUSERSITE"):
        return ()
    base = Path(environ.get("PYTHONUSERBASE") or Path.home() / ".local")
    folders = [base / "lib" / f"python{_minor(python)}" / "site-packages"]
    if environ.get("APPDATA"):
        folders.append(Path(environ["APPDATA"]) / "Python" / f"Python{_minor(python).replace('.', '')}/site-packages")
    return [name for name in _WATCHED_MODULES if any((folder / name).is_dir() for folder in folders)]


def _minor(version: str) -> str:
    return ".".join(map(str, compatibility.release(version.partition("+")[0])))
