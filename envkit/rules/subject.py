"""What the rules look at: an environment.yml with every spec and pip line taken apart."""

from collections.abc import Iterator

import msgspec

from envkit import names, redact
from envkit.environment import Environment, Item
from envkit.finding import Finding, Severity
from envkit.pip_line import PipLine
from envkit.record import CondaSpec


class Spec(msgspec.Struct, frozen=True):
    """A conda item and what it means."""

    item: Item
    parsed: CondaSpec


class Line(msgspec.Struct, frozen=True):
    """A pip item and what it means."""

    item: Item
    parsed: PipLine

    @property
    def conda_name(self) -> str:
        """The conda package that carries this project."""
        return names.conda_name(self.parsed.name) if self.parsed.name else ""


class Subject(msgspec.Struct, frozen=True, kw_only=True):
    """The file, taken apart, and the platforms that it is looked at for.

    `platforms_asked`: they were asked for, in the file or beside it, and are not just this machine's.
    """

    environment: Environment
    specs: tuple[Spec, ...]
    lines: tuple[Line, ...]
    platforms: tuple[str, ...]
    platforms_asked: bool = False

    def spec(self, name: str) -> Spec | None:
        """The first conda spec of a package."""
        return next((one for one in self.specs if one.parsed.name == name), None)

    def version(self, name: str) -> str | None:
        """The version that a package is pinned to, as far as one is: `1.12.1` for `==1.12.1` and `1.12.1.*`."""
        spec = self.spec(name)
        return pinned(spec.parsed.version) if spec is not None else None

    @property
    def channels(self) -> tuple[str, ...]:
        """The channels without the marker `nodefaults`."""
        return tuple(one for one in self.environment.channels if one != "nodefaults")


def pinned(version: str | None) -> str | None:
    """The one version that a specifier of conda or pip means: `1.2` for `==1.2` and `1.2.*`; None for ranges."""
    if version is None or any(sign in version for sign in "<>!~,|"):
        return None
    return version.lstrip("=").strip().removesuffix("*").removesuffix(".") or None


Findings = Iterator[Finding]


def finding(
    code: str, severity: Severity, message: str, item: Item | None = None, *, text: str = "", following: str = ""
) -> Finding:
    """A finding about an item, or about the whole file; without the logins that the file may hold."""
    return Finding(
        code=code,
        severity=severity,
        message=redact.url(message),
        line=item.line if item else 0,
        item=redact.url(text or (item.text if item else "")),
        next=following,
    )
