"""envkit verify."""

from pathlib import Path
from typing import Any

import click

from envkit.cli import options, render


@click.command()
@click.argument("source", type=click.Path(path_type=Path), metavar="ENVIRONMENT.YML")
@click.option("--lock", "lock_path", type=click.Path(path_type=Path), help="The lock; conda-lock.yml beside the file.")
@click.option("--against", type=click.Path(path_type=Path), help="Reference; environment.report.json beside the file.")
@options.name_or_prefix
@click.option("--no-build", is_flag=True, help="Do not build an environment that is not there.")
@click.option("--report", "report_path", type=click.Path(path_type=Path), help="Write this machine's report here.")
@options.as_json
@options.talk
def command(**given: Any) -> None:
    """Is the environment here the one that was locked, and does it behave as its reference?

    Looks at the lock, this machine, every package, every file, what pip put over conda, and the behaviour of the
    data path. Exit 0: all the same; 1: findings; 2 and up: it could not be verified.

    \b
    Examples:
      envkit verify environment.yml
      envkit verify environment.yml --against their.report.json --report mine.json
    """
    from envkit.cli import verify_flow

    with render.Talk(quiet=given.pop("quiet"), verbose=given.pop("verbose")) as talk:
        verdict = verify_flow.verify(verify_flow.Wish(**given), talk)
    if given["as_json"]:
        render.record(verdict)
    else:
        _show(verdict)
    raise SystemExit(0 if verdict.good else 1)


def _show(verdict: Any) -> None:
    if verdict.findings:
        rows = [(one.code, one.item, one.expected, one.found, one.next) for one in verdict.findings]
        render.table(("finding", "what", "expected", "found", "next"), rows)
    looked = f"{verdict.packages} packages, {verdict.files} files ({render.size(verdict.bytes)})"
    behaviour = "no reference report" if verdict.behaviour_cells is None else f"{verdict.behaviour_cells} probe cells"
    outcome = "the same" if verdict.good else f"{len(verdict.findings)} finding(s)"
    render.say(f"{outcome}: looked at {looked}, {behaviour}")
