"""envkit probe."""

import os
import sys
from pathlib import Path
from typing import Any

import click

from envkit.cli import options, render


@click.command()
@options.name_or_prefix
@options.python
@click.option("--only", metavar="PROBE,...", help="Only these probes, by id or family: collate,rng.numpy.")
@click.option("--tier", metavar="TIER,...", help="fast, workers, destructive. Default: fast,workers.")
@click.option("--list", "listed", is_flag=True, help="List the probes and their tiers, and leave.")
@click.option("--timeout", type=click.FloatRange(min=1), default=30.0, show_default=True, help="Seconds for one step.")
@click.option("--dataset", metavar="FILE.py:F|MODULE:F", help="Look at the Dataset that this function returns.")
@click.option("--loader", metavar="FILE.py:F|MODULE:F", help="Look at the DataLoader that this function returns.")
@click.option("--no-bench", is_flag=True, help="Probe, but do not measure.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write the report here.")
@options.as_json
@options.talk
def command(
    name: str | None, prefix: Path | None, python: Path | None, listed: bool, output: Path | None, **more: Any
) -> None:
    """Report what an environment is, how its data path behaves, and how fast it loads.

    Works on any interpreter, of an envkit environment or not. A torch that is missing, broken or crashing is an
    outcome in the report; each probe runs in a process of its own, so that one that hangs or dies costs its own
    outcome. No secret is stored: logins, token-like variables and home paths are taken out.

    With --dataset or --loader, your own data is looked at instead, with its collate function, in 0 and 2 workers:
    each finding is a sentence with what to do. Exit 1 when one is an error. With --only, --tier, --dataset or --loader
    nothing is measured.

    \b
    Examples:
      envkit probe -n t1 -o hostA.json
      envkit probe --python /usr/bin/python3 --only collate,rng
      envkit probe -n t1 --dataset train.py:make_dataset
    """
    from envkit import probe, report
    from envkit.cli import probe_flow

    if listed:
        probe_flow.show_list(probe.known(Path(sys.executable), os.environ), as_json=more["as_json"])
        return
    asked = probe_flow.asked(**more)
    target = options.inside_target(name, prefix, python)
    with render.Talk(quiet=more["quiet"], verbose=more["verbose"]) as talk:
        told = probe.probe(target, probes=asked.probes, bench=asked.bench, data=asked.data, tell=talk)
    if output is not None:
        report.write(output, told)
    probe_flow.show(told, output, as_json=more["as_json"])
    raise SystemExit(1 if told.data is not None and told.data.bad else 0)
