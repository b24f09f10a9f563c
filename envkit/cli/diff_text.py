"""A comparison as text for a terminal or as Markdown for a pull request."""

import io
from collections.abc import Sequence

from envkit.behaviour import grouped
from envkit.cells import Difference
from envkit.diff import Comparison, Fact
from envkit.pace import Speed

_MOST_MESSAGES = 10
_MOST_SUSPECTS = 4
_SPEED = ("workload", "workers", "ratio (95 %)", "")


def render(compared: Comparison, before: str, after: str, *, markdown: bool) -> str:
    """The whole comparison, the graver groups first; what is equal is one line."""
    sections = [
        _section("breaks", "works on one side only", ("probe", before, after, "why"), _cells(compared.breaks)),
        _section("results", "other values or types", ("probe", before, after, "why"), _cells(compared.results)),
        _section(
            "speed",
            _speed_title(compared),
            ("workload", "workers", before, after, "ratio (95 %)", ""),
            _speed(compared),
        ),
        _section("packages", "", ("name", before, after, ""), [_fact(one) for one in compared.packages]),
        _section("messages", "texts and warnings", ("probe", before, after, "why"), _messages(compared)),
        _section(
            "hardware", "the same up to it, or explained by it", ("probe", before, after, "why"), _hardware(compared)
        ),
        _section(
            "expected", "the versions predict it, the probes do not show it", ("change", "what"), _unseen(compared)
        ),
        _section("host", "", ("fact", before, after, "what it does"), [_fact(one) for one in compared.host]),
    ]
    form = _markdown if markdown else _text
    parts = [form(*section) for section in sections if section[2]]
    return "\n".join([_head(compared, before, after), *parts, _equal(compared)]) + "\n"


def _section(
    name: str, what: str, headers: Sequence[str], rows: list[Sequence[str]]
) -> tuple[str, Sequence[str], list]:  # type: ignore[type-arg]
    return f"{name}: {what}".rstrip(": "), headers, rows


def _head(compared: Comparison, before: str, after: str) -> str:
    counts = {
        "break": len(compared.breaks),
        "changed result": len(compared.results),
        "changed speed": sum(one.change.answer in ("better", "worse") for one in compared.pace.speeds),
        "package difference": len(compared.packages),
    }
    told = ", ".join(f"{count} {name}{'' if count == 1 else 's'}" for name, count in counts.items() if count)
    unexplained = sum(one.kind == "unexplained" for one in compared.results)
    loud = f"; {unexplained} UNEXPLAINED: same versions, different behaviour" if unexplained else ""
    return f"{before} -> {after}: {told or _nothing(compared)}{loud}"


def _nothing(compared: Comparison) -> str:
    return "same up to hardware" if compared.hardware else "no difference"


def _cells(found: Sequence[Difference]) -> list[Sequence[str]]:
    return [(one.id, one.before, one.after, _why(one)) for one in grouped(found)]


def _why(one: Difference) -> str:
    """The known change with its source, or the suspects, or why there are none."""
    suspects = ", ".join(one.suspects)
    if one.sentence:
        return f"{suspects}: {one.sentence} [{one.transition}; {one.source}]"
    return f"{one.reason} ({suspects})" if one.reason and suspects else suspects or one.reason


def _hardware(compared: Comparison) -> list[Sequence[str]]:
    """One row for each reason: which digits moved says less than what moved them."""
    reasons: dict[str, list[Difference]] = {}
    for one in compared.hardware:
        reasons.setdefault(one.reason, []).append(one)
    return [_hardware_row(several) for several in reasons.values()]


def _hardware_row(several: Sequence[Difference]) -> Sequence[str]:
    first = several[0]
    more = f" and {len(several) - 1} more" if len(several) > 1 else ""
    return first.id + more, first.before, first.after, _why(first)


def _unseen(compared: Comparison) -> list[Sequence[str]]:
    return [(one.id, f"{one.sentence} [{one.source}]") for one in compared.unseen]


def _messages(compared: Comparison) -> list[Sequence[str]]:
    rows = _cells(compared.messages)
    more = len(rows) - _MOST_MESSAGES
    return [*rows[:_MOST_MESSAGES], ("...", f"{more} more (--format json has all)", "", "")] if more > 0 else rows


def _speed_title(compared: Comparison) -> str:
    """The unit, and what could explain a difference: the machines first."""
    pace = compared.pace
    if pace.unlike:
        told = f"samples/s on UNLIKE MACHINES ({'; '.join(pace.unlike)})"
    else:
        told = "samples/s" + (f"; may be for {'; '.join(pace.suspects[:_MOST_SUSPECTS])}" if pace.suspects else "")
    if pace.machine is None or pace.machine.answer == "same":
        return told
    machine = pace.machine
    interval = f"{machine.ratio:.2f} ({machine.low:.2f} to {machine.high:.2f})"
    return f"{told}; fixed work that was run in between: {interval}, {machine.answer}"


def _speed(compared: Comparison) -> list[Sequence[str]]:
    return [_speed_row(one) for one in compared.pace.speeds if one.change.answer in ("better", "worse")]


def _speed_row(one: Speed) -> Sequence[str]:
    interval = f"{one.change.ratio:.2f} ({one.change.low:.2f} to {one.change.high:.2f})"
    return one.workload, str(one.workers), f"{one.before:.0f}", f"{one.after:.0f}", interval, one.change.answer


def _fact(one: Fact) -> tuple[str, ...]:
    return one.name, one.before or "unknown", one.after or "unknown", one.what


def _equal(compared: Comparison) -> str:
    answers = [one.change.answer for one in compared.pace.speeds]
    told = [f"equal: {compared.equal_cells} probe cells, {answers.count('same')} of {len(answers)} speeds"]
    if "unclear" in answers:
        told.append(f"unclear: {answers.count('unclear')} speeds (their 95 % intervals hold both `same` and a change)")
    if compared.pace.unmatched:
        told.append("not compared, for they were measured in another way: " + "; ".join(compared.pace.unmatched))
    if compared.only_before or compared.only_after:
        told.append(f"not compared: {compared.only_before + compared.only_after} cells that only one report has")
    if compared.unknown:
        told.append("unknown: " + "; ".join(compared.unknown))
    return "\n".join(told)


def _text(title: str, headers: Sequence[str], rows: list[Sequence[str]]) -> str:
    import os
    import sys

    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    shown = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    for header in headers:
        shown.add_column(header, overflow="fold")
    for row in rows:
        shown.add_row(*(Text(part) for part in row))
    out = io.StringIO()
    colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    Console(file=out, width=None if sys.stdout.isatty() else 160, force_terminal=colour, no_color=not colour).print(
        shown
    )
    return out.getvalue().rstrip() + "\n"


def _markdown(title: str, headers: Sequence[str], rows: list[Sequence[str]]) -> str:
    def line(parts: Sequence[str]) -> str:
        return "| " + " | ".join(part.replace("|", "\\|").replace("\n", " ") for part in parts) + " |"

    return "\n".join([f"### {title}", "", line(headers), line(["---"] * len(headers)), *map(line, rows), ""])
