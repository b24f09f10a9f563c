"""envkit doctor."""

from pathlib import Path
from typing import Any, cast

import click

from envkit.cli import options, render


@click.command()
@click.argument("source", required=False, type=click.Path(path_type=Path), metavar="[ENVIRONMENT.YML|LOCK|PREFIX]")
@options.name_or_prefix
@click.option("--platform", metavar="P", help="Look at it for this platform; this machine's otherwise.")
@click.option(
    "--fail-on",
    type=click.Choice(["error", "warning", "info"]),
    default="warning",
    show_default=True,
    help="From which severity on the exit status is 1.",
)
@options.as_json
def command(
    source: Path | None, name: str | None, prefix: Path | None, platform: str | None, fail_on: str, as_json: bool
) -> None:
    """Find known trouble before it bites: in a file, a lock, an environment, and in this machine.

    Without a file or an environment it looks at this machine alone. For a file, `envkit check` says more about
    the file itself. Exit 0: clean; 1: findings at or above --fail-on; 2: what was given cannot be read.

    \b
    Examples:
      envkit doctor
      envkit doctor environment.yml
      envkit doctor -n pytorch-cuda118 --fail-on error
    """
    from envkit import doctor
    from envkit.cli import doctor_flow
    from envkit.finding import Severity

    where, situation = doctor_flow.situation(source, name, prefix, platform)
    found = doctor.examine(situation)
    if as_json:
        render.record({"subject": where, "findings": found})
    else:
        _show(where, found)
    raise SystemExit(1 if doctor.reaches(found, cast(Severity, fail_on)) else 0)


def _show(where: str, found: Any) -> None:
    for one in found:
        render.say(one.told(f"{where}:{one.line}" if one.line else where))
    render.say(f"{where}: {len(found)} finding(s)" if found else f"{where}: no known trouble")
