"""envkit diff."""

from pathlib import Path
from typing import get_args

import click

from envkit.cli import options, render
from envkit.diff import FailOn


@click.command()
@click.argument("before", type=click.Path(path_type=Path), metavar="A.JSON")
@click.argument("after", type=click.Path(path_type=Path), metavar="B.JSON")
@click.option("--format", "form", type=click.Choice(("text", "json", "markdown")), default="text", show_default=True)
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write it here instead of stdout.")
@click.option(
    "--fail-on", type=click.Choice(get_args(FailOn)), default="any", show_default=True, help="What exit 1 stands for."
)
@options.as_json
def command(before: Path, after: Path, form: str, output: Path | None, fail_on: FailOn, as_json: bool) -> None:
    """What differs between two reports, what it breaks, and what most likely caused it.

    Differences are grouped by consequence: breaks, results, speed, packages, host. Exit 1 when there is one; a
    host that differs is told but is no difference in that sense. `results` counts breaks too; `speed` counts what
    became slower.

    \b
    Examples:
      envkit diff hostA.json hostB.json
      envkit diff main.json branch.json --format markdown --fail-on breaks
    """
    from envkit import codec, diff, report
    from envkit.cli import diff_text

    compared = diff.diff(report.read(before), report.read(after))
    if as_json or form == "json":
        text = codec.encode(compared).decode()
    else:
        text = diff_text.render(compared, *_labels(before, after), markdown=form == "markdown")
    if output is not None:
        codec.write(output, text.encode())
    else:
        render.say(text.rstrip("\n"))
    raise SystemExit(1 if compared.fails(fail_on) else 0)


def _labels(before: Path, after: Path) -> tuple[str, str]:
    """The files' names, with as many of their folders as it takes to tell them apart."""
    one, two = before.absolute().parts, after.absolute().parts
    for count in range(1, max(len(one), len(two)) + 1):
        if one[-count:] != two[-count:]:
            return "/".join(one[-count:]), "/".join(two[-count:])
    return before.name, after.name
