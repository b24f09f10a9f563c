"""envkit diff."""

import re
from pathlib import Path
from typing import get_args

import click

from envkit.cli import options, render
from envkit.diff import FailOn
from envkit.errors import InputError


@click.command()
@click.argument("before", type=click.Path(path_type=Path), metavar="A.JSON")
@click.argument("after", type=click.Path(path_type=Path), metavar="B.JSON")
@click.option("--format", "form", type=click.Choice(("text", "json", "markdown")), default="text", show_default=True)
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write it here instead of stdout.")
@click.option(
    "--fail-on",
    metavar="any|breaks|results|speed[=10%]",
    default="any",
    show_default=True,
    help="What exit 1 stands for.",
)
@options.as_json
def command(before: Path, after: Path, form: str, output: Path | None, fail_on: str, as_json: bool) -> None:
    """What differs between two reports, what it breaks, and what most likely caused it.

    Differences are grouped by consequence: breaks, results, speed, packages, host. Exit 1 when there is one; a
    host that differs is told but is no difference in that sense. `results` counts breaks too; `speed` counts what
    became slower by more than 5 %, or by what is said, with an interval that excludes no change; between unlike
    machines it is refused.

    \b
    Examples:
      envkit diff hostA.json hostB.json
      envkit diff main.json branch.json --format markdown --fail-on breaks
      envkit diff main.json branch.json --fail-on speed=10%
    """
    from envkit import codec, diff, report
    from envkit.cli import diff_text

    on, margin = _gate(fail_on)
    compared = diff.diff(report.read(before), report.read(after), margin=margin)
    if on == "speed" and not compared.pace.speeds:
        raise InputError("--fail-on speed: the reports have no measurement in common", hint="envkit bench -o FILE")
    if on == "speed" and compared.pace.unlike:
        raise InputError(
            f"--fail-on speed: the machines are unlike: {'; '.join(compared.pace.unlike)}",
            hint="measure both on one machine, or leave --fail-on out to see the figures",
        )
    if as_json or form == "json":
        text = codec.encode(compared).decode()
    else:
        text = diff_text.render(compared, *_labels(before, after), markdown=form == "markdown")
    if output is not None:
        codec.write(output, text.encode())
    else:
        render.say(text.rstrip("\n"))
    raise SystemExit(1 if compared.fails(on) else 0)


def _gate(text: str) -> tuple[FailOn, float]:
    """What --fail-on names, and the margin of speed."""
    from envkit.pace import MARGIN

    name, equals, share = text.partition("=")
    found = re.fullmatch(r"(\d+(?:\.\d+)?)%", share)
    if name not in get_args(FailOn) or (equals and (name != "speed" or found is None or not 0 < float(found[1]) < 100)):
        raise InputError(f"--fail-on {text!r}: unknown", hint="any, breaks, results, speed or speed=10%")
    return name, float(found[1]) / 100 if found else MARGIN  # type: ignore[return-value]


def _labels(before: Path, after: Path) -> tuple[str, str]:
    """The files' names, with as many of their folders as it takes to tell them apart."""
    one, two = before.absolute().parts, after.absolute().parts
    for count in range(1, max(len(one), len(two)) + 1):
        if one[-count:] != two[-count:]:
            return "/".join(one[-count:]), "/".join(two[-count:])
    return before.name, after.name
