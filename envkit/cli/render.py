"""Showing steps while they happen and tables when they are done. stdout is for answers, stderr for the talk."""

import sys
import time
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

import click

from envkit.progress import Step

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID

_QUIET_S = 2.0
_WORDS = {
    "solve": "solving for",
    "install": "installing",
    "download": "downloading",
    "link": "linking",
    "pip": "pip entry",
    "check": "checking",
    "probe": "probing",
    "benchmark": "measuring",
    "package": "packaging",
    "fetch": "fetching",
    "index": "indexing",
    "remove": "removing",
    "wait": "waiting:",
    "died": "a step died:",
}


class Talk:
    """Tells steps on stderr: one live line on a terminal, plain lines elsewhere."""

    def __init__(self, *, quiet: bool, verbose: bool) -> None:
        self._quiet, self._verbose = quiet, verbose
        self._live: Progress | None = None
        self._task: TaskID | None = None
        self._last, self._said = "", 0.0

    def __enter__(self) -> "Talk":
        if not self._quiet and not self._verbose and sys.stderr.isatty():
            from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

            columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(bar_width=24), TimeElapsedColumn())
            self._live = Progress(*columns, console=console(stderr=True), transient=True)
            self._live.start()
            self._task = self._live.add_task("", total=None)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def __call__(self, step: Step) -> None:
        text = f"{_WORDS.get(step.stage, step.stage)} {step.item}".strip()
        if self._quiet:
            return
        if self._live is not None and self._task is not None:
            self._live.update(self._task, description=text, completed=step.done or 0, total=step.total)
        elif self._verbose or self._worth_a_line(step):
            counted = f" ({step.done}/{step.total} {step.unit})" if step.done is not None and step.total else ""
            click.echo(text + counted, err=True)

    def _worth_a_line(self, step: Step) -> bool:
        """Each new stage, each item of the slow stages, and a sign of life every two seconds."""
        now = time.monotonic()
        slow = step.stage in ("solve", "download", "probe", "benchmark", "pip", "fetch", "wait", "died")
        first = step.stage != self._last or (slow and step.unit != "bytes")
        if first or now - self._said > _QUIET_S:
            self._last, self._said = step.stage, now
            return True
        return False

    def note(self, text: str) -> None:
        """A line for people, whatever the progress does."""
        if not self._quiet:
            if self._live is not None:
                self._live.console.print(text, markup=False, highlight=False)
            else:
                click.echo(text, err=True)


def console(*, stderr: bool = False) -> "Console":
    """A console that honours NO_COLOR and prints whole lines where there is no terminal."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    return Console(stderr=stderr, highlight=False, width=None if stream.isatty() else 160, soft_wrap=False)


def table(headers: Sequence[str], rows: Iterable[Sequence[Any]], title: str = "") -> None:
    """A table on stdout."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    shown = Table(title=title or None, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for header in headers:
        shown.add_column(header, overflow="fold")
    for row in rows:
        shown.add_row(*(Text(str(part)) for part in row))
    console().print(shown)


def say(text: str) -> None:
    """A line of the answer, on stdout."""
    click.echo(text)


def record(value: Any) -> None:
    """A record as JSON on stdout."""
    from envkit import codec

    click.echo(codec.encode(value).decode(), nl=False)


def size(count: int) -> str:
    """Bytes for people."""
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.1f} MB"
