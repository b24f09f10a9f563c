"""A finding about a file: a stable code, how grave it is, where, what, and the next step."""

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from envkit.errors import InputError

Severity = Literal["error", "warning", "info"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "info")
"""The gravest first."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One finding. `line` is 1-based, 0 where it is about the whole file; `item` is the text that it is about."""

    code: str
    severity: Severity
    message: str
    line: int = 0
    item: str = ""
    next: str = ""

    @property
    def rank(self) -> int:
        """Its place in SEVERITIES."""
        return SEVERITIES.index(self.severity)

    def told(self, place: str) -> str:
        """A whole line for people; `place` is the file with its line, or whatever it is about."""
        step = f" [{self.next}]" if self.next else ""
        return f"{place}: {self.severity}: {self.message}{step} ({self.code})"

    def shown(self, where: str) -> str:
        """`file:line: message` for people."""
        return f"{where}:{max(self.line, 1)}: {self.message}"


class UnreadableFile(InputError):
    """A file that cannot be read for what it should be; it carries all the findings that say why.

    `partial` is what could be read of it all the same, None for nothing.
    """

    def __init__(self, where: str, findings: Sequence[Finding], partial: Any = None) -> None:
        errors = [one for one in findings if one.severity == "error"]
        first = errors[0]
        if len(errors) == 1:
            super().__init__(first.shown(where), hint=first.next)
        else:
            hint = next((one.next for one in errors if one.next), "correct these lines")
            details = tuple(one.shown(where) for one in errors)
            super().__init__(f"{where}: {len(errors)} problem(s)", details=details, hint=hint)
        self.findings = tuple(findings)
        self.partial = partial
