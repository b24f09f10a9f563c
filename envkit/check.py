"""What is there to say about an environment.yml, before anything is solved? All findings at once."""

import re
from collections.abc import Sequence
from pathlib import Path

import msgspec

from envkit import engine, environment, pip_line
from envkit.environment import Environment
from envkit.errors import InputError
from envkit.finding import Finding, UnreadableFile
from envkit.rules import channel_rules, pip_rules, platform_rules, secret_rules, spec_rules, torch_rules
from envkit.rules.subject import Line, Spec, Subject, finding

_FAMILIES = (channel_rules, spec_rules, platform_rules, torch_rules, pip_rules, secret_rules)


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    """The findings, the gravest first; `environment` is None for a file that cannot be read."""

    findings: tuple[Finding, ...]
    environment: Environment | None = None
    subject: Subject | None = None

    @property
    def good(self) -> bool:
        """No finding is an error."""
        return not any(one.severity == "error" for one in self.findings)


def check(path: Path, *, platforms: Sequence[str] = ()) -> Checked:
    """Read and judge a file. Raises InputError only where there is no file to read."""
    try:
        asked = environment.read(path)
    except UnreadableFile as error:
        found = [*error.findings, *_errors_of(error.partial)]
        return Checked(findings=tuple(sorted(found, key=_rank)))
    except InputError as error:
        if not path.is_file():
            raise
        return Checked(findings=(_undecodable(error),))
    return judge(asked, platforms=platforms)


def judge(asked: Environment, *, platforms: Sequence[str] = ()) -> Checked:
    """Judge an environment that was read."""
    subject, bad = take_apart(asked, platforms=platforms)
    found = [*asked.findings, *bad]
    found += [one for family in _FAMILIES for rule in family.RULES for one in rule(subject)]
    return Checked(findings=tuple(sorted(found, key=_rank)), environment=asked, subject=subject)


def take_apart(asked: Environment, *, platforms: Sequence[str] = ()) -> tuple[Subject, list[Finding]]:
    """What the rules look at, and a finding for each spec that cannot be read."""
    specs, bad = _specs(asked)
    subject = Subject(
        environment=asked,
        specs=specs,
        lines=tuple(Line(item, pip_line.parse(item.text)) for item in asked.pip),
        platforms=tuple(platforms or asked.platforms or (engine.platform(),)),
        platforms_asked=bool(platforms or asked.platforms),
    )
    return subject, bad


def _errors_of(partial: Environment | None) -> list[Finding]:
    """The errors in what could be read of a file: all are told at once, but nothing is guessed about the rest."""
    if partial is None:
        return []
    return [one for one in judge(partial).findings if one.severity == "error" and one.line]


def _rank(one: Finding) -> tuple[int, int, str]:
    return one.rank, one.line, one.code


def _undecodable(error: InputError) -> Finding:
    """A file in another encoding: its line stands in the message."""
    number = error.message.partition(": ")[0].rpartition(":")[2]
    line = int(number) if number.isdigit() else 1
    return Finding(
        code="encoding", severity="error", line=line, message=error.message.partition(": ")[2], next=error.hint
    )


def _specs(asked: Environment) -> tuple[tuple[Spec, ...], list[Finding]]:
    """The conda specs taken apart, and a finding for each that cannot be."""
    good, bad = [], []
    for item in asked.specs:
        try:
            good.append(Spec(item, engine.read_spec(item.text)))
        except ValueError as problem:
            bad.append(finding("bad-spec", "error", f"{item.text}: {problem}", item, following=_meant(item.text)))
    return tuple(good), bad


def _meant(text: str) -> str:
    """What a spec that cannot be read probably means."""
    turned = re.sub(r"=([<>])", r"\1=", text)
    if turned != text:
        return f"did you mean {turned!r}?"
    if text.startswith("-") or "://" in text or "+" in text.partition("=")[0]:
        return "pip options and addresses belong under `- pip:`"
    if "[" in text:
        return "extras belong to pip; list the package under `- pip:`"
    if "$" in text:
        return "variables are not expanded in specs: write the version"
    return ""
