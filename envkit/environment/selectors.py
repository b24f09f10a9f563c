"""Platform selectors in their two dialects.

`- spec  # [linux64]` is read by conda-lock alone, `- sel(linux): spec` by micromamba alone; conda reads neither.
Sources: conda-lock's src_parser/selectors.py, mamba-org/mamba#1788.
"""

from typing import Literal

import msgspec

PLATFORMS: dict[str, frozenset[str]] = {
    "linux-64": frozenset({"linux", "linux64", "unix"}),
    "linux-aarch64": frozenset({"linux", "aarch64", "unix"}),
    "linux-ppc64le": frozenset({"linux", "ppc64le", "unix"}),
    "osx-64": frozenset({"osx", "osx64", "unix"}),
    "osx-arm64": frozenset({"osx", "arm64", "unix"}),
    "win-64": frozenset({"win", "win64"}),
}
"""The selectors that hold on each platform."""


class Selector(msgspec.Struct, frozen=True):
    """A condition on the platform, and the dialect that it is written in."""

    condition: str
    dialect: Literal["comment", "sel"]


def applies(selector: Selector | None, platform: str) -> bool:
    """Whether an item with this selector is meant for a platform."""
    return selector is None or selector.condition in PLATFORMS.get(platform, frozenset())
