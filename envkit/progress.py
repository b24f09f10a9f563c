"""What the core says while it works: steps that a command line may show, and nothing about how."""

from collections.abc import Callable

import msgspec


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that began, advanced or ended. `done` and `total` share `unit` (bytes, packages, ...)."""

    stage: str
    item: str = ""
    done: int | None = None
    total: int | None = None
    unit: str = ""


Tell = Callable[[Step], None]


def silent(step: Step) -> None:
    """Tell nobody."""
