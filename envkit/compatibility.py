"""The facts about torch, Python, CUDA and channels as records, and the questions that are asked of them."""

import functools
import re
from collections.abc import Iterable

import msgspec

from envkit import codec, places
from envkit.errors import InputError
from envkit.record import VirtualPackage, parse_virtual, show_virtual

CPU = "cpu"


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One template and what it serves; `torch` holds PEP 440 specifier sets."""

    file: str
    cuda: str
    python: tuple[str, ...]
    torch: tuple[str, ...]
    platforms: tuple[str, ...]
    source: str
    status: str


class Pin(msgspec.Struct, frozen=True, kw_only=True):
    """A spec that some torch versions need beside them."""

    torch: str
    spec: str
    status: str


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """All of compatibility.yml."""

    templates: tuple[Row, ...]
    pins: tuple[Pin, ...]
    virtual_packages: dict[str, tuple[str, ...]]


@functools.cache
def facts() -> Facts:
    """The facts that are shipped with envkit."""
    import yaml

    path = places.templates() / "compatibility.yml"
    return codec.convert(yaml.safe_load(codec.read_text(path)), Facts, str(path))


def row_for(cuda: str, *, python: str | None, torch: str | None) -> Row:
    """The template for this CUDA, Python and torch; raises InputError with the nearest that can be had."""
    rows = facts().templates
    of_cuda = [row for row in rows if row.cuda == cuda]
    if not of_cuda:
        offered = ", ".join(row.cuda for row in rows)
        raise InputError(
            f"no template for CUDA {cuda}", hint=f"the nearest is --cuda {_nearest(cuda, rows)}; there are: {offered}"
        )
    for row in of_cuda:
        if (python is None or _minor(python) in row.python) and (torch is None or _allows(row, torch)):
            return row
    row = of_cuda[0]
    problems = []
    if python is not None and _minor(python) not in row.python:
        problems.append(f"Python {python}: it has {', '.join(row.python)}")
    if torch is not None and not _allows(row, torch):
        problems.append(f"torch {torch}: it has {' or '.join(row.torch)}")
    raise InputError(
        f"the template for CUDA {cuda} cannot give this", details=tuple(problems), hint=f"source: {row.source}"
    )


def pins_for(torch: str | None) -> tuple[str, ...]:
    """The specs that this torch version needs beside it."""
    from packaging.specifiers import SpecifierSet

    if torch is None:
        return ()
    return tuple(pin.spec for pin in facts().pins if SpecifierSet(pin.torch).contains(torch))


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
        if name in ("pytorch-cuda", "cuda-version", "cudatoolkit"):
            version = re.search(r"\d+\.\d+", spec)
            if version is not None:
                return version[0]
        if name in ("pytorch", "torchvision", "torchaudio", "pytorch-gpu") and re.search(r"cuda|cu\d|-gpu", spec):
            wants_cuda = True
            pinned = re.search(r"cu(?:da)?_?(\d{1,2})\.?(\d)(?!\d)", spec)
            if pinned is not None:
                return f"{pinned[1]}.{pinned[2]}"
    newest = max((row.cuda for row in facts().templates if row.cuda != CPU), key=_key)
    return newest if wants_cuda else CPU


def show(packages: Iterable[VirtualPackage]) -> str:
    """Virtual packages as one line of text."""
    return " ".join(show_virtual(package) for package in sorted(packages))


def _allows(row: Row, torch: str) -> bool:
    from packaging.specifiers import SpecifierSet
    from packaging.version import Version

    # `2.3` asks for any 2.3.x: try the ends of that range.
    candidates = [torch] if torch.count(".") > 1 else [f"{torch}.{patch}" for patch in (0, 1, 2)]
    return any(SpecifierSet(part).contains(Version(one)) for part in row.torch for one in candidates)


def _minor(python: str) -> str:
    return ".".join(python.split(".")[:2])


def _key(cuda: str) -> tuple[int, ...]:
    return tuple(int(part) for part in cuda.split("."))


def _nearest(cuda: str, rows: Iterable[Row]) -> str:
    """The highest CUDA not above the one asked for: older builds run on newer drivers."""
    offered = sorted((row.cuda for row in rows if row.cuda != CPU), key=_key)
    below = [one for one in offered if _key(one) <= _key(cuda)]
    return below[-1] if below else offered[0]


def newest_for_driver(driver_cuda: str) -> str:
    """The newest CUDA of a template that a driver runs: within a major version drivers run newer minor ones too.

    Source: NVIDIA's minor version compatibility; the templates' driver floors are those of the major version.
    """
    offered = sorted((row.cuda for row in facts().templates if row.cuda != CPU), key=_key)
    fitting = [one for one in offered if _key(one)[0] <= _key(driver_cuda)[0]]
    return fitting[-1] if fitting else CPU
