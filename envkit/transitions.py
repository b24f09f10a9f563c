"""Known changes of behaviour between versions, as data: when they hold, where they show, what they mean."""

from collections.abc import Mapping
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import cache

import msgspec
from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

from envkit import codec, places
from envkit.cells import Kind
from envkit.errors import InputError

Facts = Mapping[str, str]


class Transition(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One change: a report is inside it from version `since` of a package up to, not including, `until`."""

    id: str
    package: str
    since: str
    until: str | None = None
    requires: Mapping[str, str] = msgspec.field(name="with", default_factory=dict)
    only: Mapping[str, str] = msgspec.field(default_factory=dict)
    cells: tuple[str, ...]
    kind: Kind
    before: str
    after: str
    sentence: str
    source: str
    always: bool = True

    @property
    def where(self) -> str:
        """The versions: `torch 2.1 to before 2.11`."""
        others = [f"{name} {wanted}" for name, wanted in self.requires.items()]
        others += [f"{name} {value}" for name, value in self.only.items()]
        versions = f"{self.package} {self.since}" + (f" to before {self.until}" if self.until else " and newer")
        return ", with ".join([versions, *others])

    def rows(self) -> tuple[tuple[str, str], ...]:
        """The rest of the entry for people."""
        return (
            ("class", self.kind),
            ("before", self.before),
            ("after", self.after),
            ("probes", ", ".join(self.cells)),
            ("source", self.source),
        )

    def covers(self, cell: str) -> bool:
        """Whether it may show in this cell."""
        return any(matches(pattern, cell) for pattern in self.cells)

    def holds(self, versions: Facts, keys: Facts) -> bool | None:
        """Whether a report with these versions and keys is inside; None where a version is not known."""
        version = release(versions.get(self.package))
        if version is None:
            return None
        if version < Version(self.since) or (self.until is not None and version >= Version(self.until)):
            return False
        others = {name: release(versions.get(name)) for name in self.requires}
        if any(other is None for other in others.values()):
            return None
        fits = all(SpecifierSet(wanted).contains(str(others[name])) for name, wanted in self.requires.items())
        return fits and all(keys.get(name) == value for name, value in self.only.items())


def matches(pattern: str, cell: str) -> bool:
    """Whether the name of a cell fits a pattern with `*`."""
    return fnmatchcase(cell, pattern)


def release(text: str | None) -> Version | None:
    """The release that a version belongs to: 1.13.0 for `1.13.0a0+git7c98e70`; None for a text that is no version."""
    try:
        return Version(Version(text or "").base_version)
    except InvalidVersion:
        return None


@cache
def everything() -> tuple[Transition, ...]:
    """All entries, in the order of the file."""
    return codec.read_yaml(places.transitions(), tuple[Transition, ...])


def named(id: str) -> Transition:
    """The entry of this id; raises InputError with the ids that are like it."""
    found = next((one for one in everything() if one.id == id), None)
    if found is None:
        near = get_close_matches(id, [one.id for one in everything()], 3)
        raise InputError(
            f"no known change is called {id!r}",
            hint=f"did you mean {', '.join(near)}?" if near else "`envkit explain` lists them",
        )
    return found


class Expected:
    """The entries that two reports are on different sides of."""

    def __init__(self, before: tuple[Facts, Facts], after: tuple[Facts, Facts]) -> None:
        self.entries = tuple(one for one in everything() if {one.holds(*before), one.holds(*after)} == {True, False})

    def of(self, cell: str) -> tuple[Transition, ...]:
        """Those that explain a difference in this cell."""
        return tuple(one for one in self.entries if one.covers(cell))
