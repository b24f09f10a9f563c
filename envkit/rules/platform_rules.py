"""What ties a file to one platform: build strings, platform packages, selectors. Field reports A1, A17, B12."""

import re

from envkit.rules.subject import Findings, Subject, finding

MARKERS = {
    "linux-64": ("_libgcc_mutex", "ld_impl_linux-64", "_openmp_mutex", "libgcc-ng", "libstdcxx-ng"),
    "linux-aarch64": ("ld_impl_linux-aarch64",),
    "osx-64": ("libcxx", "appnope"),
    "osx-arm64": ("libcxx", "appnope"),
    "win-64": ("vc", "vs2015_runtime", "wincertstore", "ucrt", "vc14_runtime", "pywin32", "win_inet_pton"),
}
"""Packages that an export of a platform holds and others do not. Source: field report A1."""

_CUDA_ONLY = ("pytorch-cuda", "cudatoolkit", "cuda-version", "cuda-toolkit", "cudnn", "pytorch-gpu")


def exported_on(subject: Subject) -> str | None:
    """The platform that a file with build strings was exported on, by its marker packages."""
    held = {one.parsed.name for one in subject.specs}
    counted = {platform: len(held & set(markers)) for platform, markers in MARKERS.items()}
    best = max(counted, key=lambda platform: counted[platform])
    return best if counted[best] and _built(subject) else None


def platform_only(name: str) -> frozenset[str]:
    """The platforms that a package exists on, empty for one that is not tied to any."""
    tied = {platform for platform, markers in MARKERS.items() if name in markers}
    if name in _CUDA_ONLY:
        return frozenset({"linux-64", "linux-aarch64", "win-64"})
    found = re.search(r"_(linux-64|linux-aarch64|osx-64|osx-arm64|win-64)$", name)
    return frozenset(tied | ({found[1]} if found else set()))


def _built(subject: Subject) -> list[str]:
    return [one.item.text for one in subject.specs if one.parsed.build and "*" not in one.parsed.build]


def build_strings(subject: Subject) -> Findings:
    """Exact build strings exist on one platform only."""
    built = _built(subject)
    if not built:
        return
    platform = exported_on(subject)
    where = f"exported on {platform}" if platform else "exported on one platform"
    counted = f"{len(built)} of {len(subject.specs)} specs name an exact build, {where}"
    first = next(one.item for one in subject.specs if one.item.text in built)
    yield finding("build-strings-pin-platform", "warning", counted, first, following="envkit check --fix strips them")
    if len(built) >= 4 and len(built) == len(subject.specs):
        message = "this is a full export: the packages that others brought in are listed too"
        yield finding("full-export", "warning", message, first, following="list only what you asked for")
    others = [one for one in subject.platforms if platform is not None and one != platform]
    if others:
        message = f"exported on {platform}: it cannot be recreated on {', '.join(others)} ({len(built)} specs)"
        yield finding(
            "exported-on-another-platform", "error", message, first, following="envkit check --fix --platform P"
        )


def subdirs(subject: Subject) -> Findings:
    """A spec with a platform folder."""
    for one in subject.specs:
        if one.parsed.subdir and one.parsed.subdir != "noarch":
            yield finding("subdir-pins-platform", "warning", f"the spec names the folder {one.parsed.subdir}", one.item)


def platform_packages(subject: Subject) -> Findings:
    """Packages that some of the platforms do not have."""
    for one in subject.specs:
        fits = one.item.selector is None
        tied = platform_only(one.parsed.name)
        lacking = [platform for platform in subject.platforms if tied and platform not in tied]
        if lacking and (fits or len(subject.platforms) > 1) and not one.parsed.build:
            message = f"{one.parsed.name} has no build for {', '.join(lacking)}"
            yield finding("platform-specific-spec", "warning", message, one.item, following="give it a selector")


def selectors(subject: Subject) -> Findings:
    """Selectors are read by one tool each."""
    items = [*subject.environment.specs, *subject.environment.pip]
    readers = {
        "comment": ("comment-selector-ignored-by-conda", "only conda-lock and envkit read selectors in comments"),
        "sel": ("sel-selector-ignored-by-conda", "only micromamba and envkit read sel(...); conda-lock drops the line"),
    }
    for dialect, (code, message) in readers.items():
        found = [one for one in items if one.selector and one.selector.dialect == dialect]
        if found:
            told = ", ".join(f"[{one.selector.condition}]" for one in found if one.selector)
            yield finding(code, "warning", f"{message}: {told}", found[0])


RULES = (build_strings, subdirs, platform_packages, selectors)
