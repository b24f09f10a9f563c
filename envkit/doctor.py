"""Known trouble, before it bites: the rules of data/rules.yml against a situation."""

import functools
import re
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import msgspec

from envkit import codec, places
from envkit.finding import SEVERITIES, Finding, Severity
from envkit.situation import Fact, Package, Situation, derive


class When(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Conditions, all of which must be true; data/rules.yml says what each means."""

    packages: dict[str, str] = {}
    builds: dict[str, str] = {}
    managers: dict[str, str] = msgspec.field(name="from", default_factory=dict)
    absent: tuple[str, ...] = ()
    channels: tuple[str, ...] = ()
    facts: dict[str, Fact] = {}


class Example(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A small situation: conda packages as `VERSION BUILD`, pip ones as `VERSION`."""

    packages: dict[str, str] = {}
    pip: dict[str, str] = {}
    channels: tuple[str, ...] = ()
    facts: dict[str, Fact] = {}

    def situation(self) -> Situation:
        """The situation that is meant, with what follows from it."""
        conda = [_example(name, text, manager="conda") for name, text in self.packages.items()]
        pip = [_example(name, text, manager="pip") for name, text in self.pip.items()]
        facts = {"platform": "linux-64", **self.facts}
        return derive(Situation(packages=(*conda, *pip), channels=self.channels, facts=facts))


class Rule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One kind of trouble. `{name}` in the texts is a fact, or the version of a package."""

    id: str
    severity: Severity
    when: When
    about: tuple[str, ...] = ()
    message: str
    next: str
    source: str
    fires: Example
    quiet: Example


class Rules(msgspec.Struct, frozen=True):
    """All of data/rules.yml."""

    rules: tuple[Rule, ...]


class Trouble(Finding, frozen=True, kw_only=True):
    """A finding with where the trouble is known from."""

    source: str = ""


@functools.cache
def rules() -> tuple[Rule, ...]:
    """The rules that are shipped with envkit."""
    return codec.read_yaml(places.data("rules.yml"), Rules).rules


def examine(given: Situation) -> tuple[Trouble, ...]:
    """All that is known to go wrong in a situation (as `derive` gives it), the gravest first."""
    found = [_trouble(rule, given) for rule in rules() if applies(rule, given)]
    return tuple(sorted(found, key=lambda one: (one.rank, one.line)))


def reaches(found: tuple[Trouble, ...], severity: Severity) -> bool:
    """Whether a finding is at or above a severity."""
    return any(one.rank <= SEVERITIES.index(severity) for one in found)


def applies(rule: Rule, given: Situation) -> bool:
    """Whether all of a rule's conditions are true; what is not known makes none true."""
    when = rule.when
    return (
        all(_version_fits(given, name, wanted, when.managers.get(name)) for name, wanted in when.packages.items())
        and all(
            any(re.search(pattern, one.build or "") for one in given.of(name)) for name, pattern in when.builds.items()
        )
        and all(_managed(given, name, manager) for name, manager in when.managers.items())
        and not any(given.of(name) for name in when.absent)
        and set(when.channels) <= set(given.channels)
        and all(_fact_fits(given.facts.get(name), wanted) for name, wanted in when.facts.items())
    )


def _version_fits(given: Situation, name: str, wanted: str, manager: str | None) -> bool:
    from packaging.specifiers import SpecifierSet
    from packaging.version import InvalidVersion, Version

    for one in given.of(name, manager if manager != "both" else None):
        if not wanted:
            return True
        try:
            if one.version is not None and SpecifierSet(wanted).contains(Version(one.version), prereleases=True):
                return True
        except InvalidVersion:
            # Conda has versions that PEP 440 does not know, such as 9e: no rule is about them.
            continue
    return False


def _managed(given: Situation, name: str, manager: str) -> bool:
    managers = ("conda", "pip") if manager == "both" else (manager,)
    return all(given.of(name, one) for one in managers)


def _fact_fits(fact: Fact | None, wanted: Fact) -> bool:
    if fact is None:
        return False
    if not isinstance(wanted, str):
        return fact == wanted
    if wanted.startswith("~"):
        return re.search(wanted[1:], str(fact)) is not None
    if wanted.startswith(("<", ">")):
        from packaging.specifiers import SpecifierSet

        return SpecifierSet(wanted).contains(str(fact), prereleases=True)
    return fact == wanted


def _trouble(rule: Rule, given: Situation) -> Trouble:
    subjects = [one for name in (*rule.when.packages, *rule.when.builds, *rule.about) for one in given.of(name)]
    versions = {one.name: one.version for one in reversed(given.packages) if one.version}
    known: Mapping[str, Any] = defaultdict(lambda: "?", {**versions, **given.facts})
    return Trouble(
        code=rule.id,
        severity=rule.severity,
        message=rule.message.format_map(known),
        line=next((one.line for one in subjects if one.line), 0),
        item=" ".join(part for part in (subjects[0].name, subjects[0].version) if part) if subjects else "",
        next=rule.next.format_map(known),
        source=rule.source,
    )


def _example(name: str, text: str, *, manager: Any) -> Package:
    version, _, build = text.partition(" ")
    return Package(name=name, manager=manager, version=version or None, build=build or None)
