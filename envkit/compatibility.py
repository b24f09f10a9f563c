"""The facts about torch, Python, CUDA, drivers, GPUs and channels as records, and the questions asked of them."""

import functools
import re
from collections.abc import Iterable, Sequence

import msgspec

from envkit import codec, places
from envkit.errors import InputError
from envkit.record import VirtualPackage, parse_virtual, show_virtual

CPU = "cpu"
CUDA_PACKAGES = ("cuda-version", "pytorch-cuda", "cudatoolkit")
"""Packages whose version is the CUDA version."""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One template and what it serves. `torch` is a PEP 440 specifier set; `capabilities` are architectures."""

    file: str
    cuda: str
    channel: str
    python: tuple[str, ...]
    torch: str
    platforms: tuple[str, ...]
    capabilities: tuple[str, ...] = ()
    ptx: bool = False
    glibc: str | None = None
    source: str
    status: str


class Floor(msgspec.Struct, frozen=True, kw_only=True):
    """The oldest driver of a CUDA family."""

    linux: str
    windows: str


class Pair(msgspec.Struct, frozen=True, kw_only=True):
    """A torch release with its torchvision and torchaudio."""

    torch: str
    torchvision: str
    torchaudio: str
    status: str


class Pin(msgspec.Struct, frozen=True, kw_only=True):
    """A spec that some torch versions need beside them."""

    torch: str
    spec: str
    status: str


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """All of compatibility.yml."""

    templates: tuple[Row, ...]
    drivers: dict[str, Floor]
    gpus: dict[str, tuple[str, ...]]
    pairs: tuple[Pair, ...]
    pins: tuple[Pin, ...]
    variants: dict[str, tuple[str, ...]]
    virtual_packages: dict[str, tuple[str, ...]]


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What a template is to fit; None where nothing is asked or known.

    `driver` is a driver's version, `driver_cuda` the CUDA that it says it runs; either is enough.
    """

    cuda: str | None = None
    python: str | None = None
    torch: str | None = None
    driver: str | None = None
    driver_cuda: str | None = None
    capability: tuple[int, int] | None = None
    platform: str | None = None
    glibc: str | None = None


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """A template, and what speaks against it; nothing does where it fits."""

    row: Row
    against: tuple[str, ...]

    @property
    def fits(self) -> bool:
        """Nothing speaks against it."""
        return not self.against


@functools.cache
def facts() -> Facts:
    """The facts that are shipped with envkit."""
    return codec.read_yaml(places.templates() / "compatibility.yml", Facts)


def answers(wanted: Wanted) -> tuple[Answer, ...]:
    """Every template with what speaks against it: the fitting ones first, in the order of preference."""
    told = [Answer(row=row, against=tuple(_against(row, wanted))) for row in facts().templates]
    return tuple(sorted(told, key=lambda answer: not answer.fits))


def best(wanted: Wanted) -> Answer:
    """The first template that fits, or InputError with why the nearest does not."""
    told = answers(wanted)
    if told[0].fits:
        return told[0]
    nearest = min(told, key=lambda answer: len(answer.against))
    raise InputError("no template fits", details=nearest.against, hint=f"the nearest is {nearest.row.file}")


def _against(row: Row, wanted: Wanted) -> Iterable[str]:
    if wanted.cuda is not None and wanted.cuda != row.cuda:
        yield f"it is for {'the CPU' if row.cuda == CPU else f'CUDA {row.cuda}'}"
    if wanted.platform is not None and wanted.platform not in row.platforms:
        yield f"no builds for {wanted.platform}: it has {', '.join(row.platforms)}"
    if wanted.python is not None and _minor(wanted.python) not in row.python:
        yield f"Python {wanted.python}: it has {', '.join(row.python)}"
    if wanted.torch is not None and not _allows(row.torch, wanted.torch):
        yield f"torch {wanted.torch}: it has {row.torch}"
    if row.cuda != CPU:
        yield from _against_gpu(row, wanted)


def _against_gpu(row: Row, wanted: Wanted) -> Iterable[str]:
    family = row.cuda.split(".")[0]
    least = driver_floor(family, wanted.platform or "")
    if wanted.driver is not None and is_older(wanted.driver, least):
        yield f"driver {wanted.driver} is too old: CUDA {family} needs {least} or newer"
    if wanted.driver is None and wanted.driver_cuda is not None and int(wanted.driver_cuda.split(".")[0]) < int(family):
        yield f"the driver runs CUDA up to {wanted.driver_cuda}: CUDA {family} needs {least} or newer"
    if wanted.capability is not None and not runs_on(row, wanted.capability):
        shown = ".".join(map(str, wanted.capability))
        yield f"GPU of compute capability {shown}: the builds hold code for {', '.join(row.capabilities)}"
    if wanted.glibc is not None and row.glibc is not None and _key(wanted.glibc) < _key(row.glibc):
        yield f"glibc {wanted.glibc} is too old: it needs {row.glibc}"


def driver_floor(cuda: str, platform: str) -> str:
    """The oldest driver that runs builds of a CUDA family on a platform."""
    floor = facts().drivers[cuda.split(".")[0]]
    return floor.windows if platform.startswith("win") else floor.linux


def is_older(driver: str, floor: str) -> bool:
    """Whether a driver is older than a floor; a driver told by its branch alone, as `580`, is any of that branch."""
    told = _key(driver)
    return told < _key(floor)[: len(told)]


def runs_on(row: Row, capability: tuple[int, int]) -> bool:
    """Whether a GPU runs the builds: code of its major architecture and no newer minor one, or PTX of an older one."""
    held = [tuple(int(part) for part in one.split(".")) for one in row.capabilities]
    same = any(major == capability[0] and minor <= capability[1] for major, minor in held)
    return same or (row.ptx and any((major, minor) <= capability for major, minor in held[-1:]))


def capability_of(gpu: str) -> tuple[int, int]:
    """The compute capability of a GPU by its name; raises InputError for one that is not known."""
    name = " ".join(gpu.upper().replace("NVIDIA", "").replace("GEFORCE", "").split())
    found: list[tuple[int, str]] = []
    for capability, names in facts().gpus.items():
        found += [(len(one), capability) for one in names if re.search(rf"\b{re.escape(one.upper())}\b", name)]
    if not found:
        raise InputError(
            f"--gpu {gpu!r}: not a GPU that is known here", hint="for example 'RTX 4090', 'A100', 'GTX 1080'"
        )
    major, minor = max(found)[1].split(".")
    return int(major), int(minor)


def row_for(cuda: str, *, python: str | None, torch: str | None) -> Row:
    """The template for this CUDA, Python and torch; raises InputError with the nearest that can be had."""
    rows = facts().templates
    of_cuda = [row for row in rows if row.cuda == cuda]
    if not of_cuda:
        offered = ", ".join(sorted((row.cuda for row in rows), key=lambda one: _key(one) if one != CPU else ()))
        raise InputError(
            f"no template for CUDA {cuda}", hint=f"the nearest is --cuda {_nearest(cuda, rows)}; there are: {offered}"
        )
    wanted = Wanted(python=python, torch=torch)
    row, against = of_cuda[0], tuple(_against(of_cuda[0], wanted))
    if not against:
        return row
    others = [answer.row for answer in answers(wanted) if answer.fits and (answer.row.cuda == CPU) == (cuda == CPU)]
    other = f"; CUDA {others[0].cuda} has it: --cuda {others[0].cuda}" if others else ""
    raise InputError(
        f"the template for CUDA {cuda} cannot give this",
        details=against,
        hint=f"the nearest here: {_nearest_here(row, python, torch)}{other} (source: {row.source})",
    )


def _nearest_here(row: Row, python: str | None, torch: str | None) -> str:
    """The Python and torch of a template that are nearest to what was asked."""
    told = []
    if python is not None and _minor(python) not in row.python:
        nearest = min(row.python, key=lambda one: abs(_key(one)[1] - _key(_minor(python))[1]))
        told.append(f"--python {nearest}")
    if torch is not None and not _allows(row.torch, torch):
        known = [pair.torch for pair in facts().pairs if _allows(row.torch, pair.torch)]
        told.append(f"--torch {known[-1] if known and _key(torch) > _key(known[-1]) else (known or ['?'])[0]}")
    return " ".join(told)


def pins_for(torch: str | None) -> tuple[str, ...]:
    """The specs that this torch version needs beside it."""
    from packaging.specifiers import SpecifierSet

    if torch is None:
        return ()
    return tuple(pin.spec for pin in facts().pins if SpecifierSet(pin.torch).contains(torch))


def pair_for(torch: str) -> Pair | None:
    """The torchvision and torchaudio of a torch; for `2.3` those of its last patch release that is known."""
    fitting = [pair for pair in facts().pairs if pair.torch == torch or pair.torch.startswith(f"{torch}.")]
    return fitting[-1] if fitting else None


def target_packages(platform: str, cuda: str) -> tuple[VirtualPackage, ...]:
    """The virtual packages to solve with: those of a plain machine of this platform, and the target's CUDA."""
    table = facts().virtual_packages
    if platform not in table:
        raise InputError(f"no such platform: {platform}", hint=f"there are: {', '.join(sorted(table))}")
    packages = [parse_virtual(text) for text in table[platform]]
    if cuda != CPU and not platform.startswith("osx"):
        packages.append(VirtualPackage(name="__cuda", version=cuda))
    return tuple(sorted(packages))


def cuda_of(specs: Iterable[str]) -> str:
    """The CUDA version that specs ask for, or `cpu`.

    Read from `pytorch-cuda`, `cuda-version`, `cudatoolkit`, else from a build pin such as `*cuda118*`. A build
    that must be CUDA but names no version gives the newest CUDA that a template has.
    """
    wants_cuda = False
    for spec in specs:
        name = re.split(r"[\s=<>!~\[]", spec.rpartition("::")[2].strip())[0]
        if name in CUDA_PACKAGES:
            version = re.search(r"\d+\.\d+", spec)
            if version is not None:
                return version[0]
        if name in ("pytorch", "torchvision", "torchaudio", "pytorch-gpu") and re.search(r"cuda|cu\d|-gpu", spec):
            wants_cuda = True
            pinned = cuda_in(spec)
            if pinned is not None:
                return pinned
    newest = max((row.cuda for row in facts().templates if row.cuda != CPU), key=_key)
    return newest if wants_cuda else CPU


def cuda_in(build: str) -> str | None:
    """The CUDA version in a build string, a build pin or a wheel's local version: `cuda11.8`, `cuda129`, `cu124`."""
    found = re.search(r"cu(?:da)?_?(\d{1,2})\.?(\d)(?!\d)", build)
    return f"{found[1]}.{found[2]}" if found else None


def release(version: str) -> tuple[int, ...]:
    """Major and minor of a version, as numbers."""
    return _key(version)[:2]


def show(packages: Iterable[VirtualPackage]) -> str:
    """Virtual packages as one line of text."""
    return " ".join(show_virtual(package) for package in sorted(packages))


def _allows(specifier: str, torch: str) -> bool:
    """Whether a specifier set lets a torch in; `2.3` asks for any 2.3.x."""
    from packaging.specifiers import SpecifierSet
    from packaging.version import Version

    candidates = [torch] if torch.count(".") > 1 else [f"{torch}.{patch}" for patch in (0, 1, 2)]
    return any(SpecifierSet(specifier).contains(Version(one)) for one in candidates)


def _minor(python: str) -> str:
    return ".".join(python.split(".")[:2])


def _key(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version))


def _nearest(cuda: str, rows: Sequence[Row]) -> str:
    """The highest CUDA not above the one asked for: older builds run on newer drivers."""
    offered = sorted((row.cuda for row in rows if row.cuda != CPU), key=_key)
    below = [one for one in offered if _key(one) <= _key(cuda)]
    return below[-1] if below else offered[0]
