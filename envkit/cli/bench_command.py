"""envkit bench."""

import statistics
from pathlib import Path

import click

from envkit.cli import options, render
from envkit.report import Point


@click.command()
@options.name_or_prefix
@options.python
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write the report here.")
@options.as_json
@options.talk
def command(
    name: str | None,
    prefix: Path | None,
    python: Path | None,
    output: Path | None,
    as_json: bool,
    quiet: bool,
    verbose: bool,
) -> None:
    """Measure the DataLoader of an environment over its worker counts.

    Workloads: `latency`, samples that wait 10 ms, and `jpeg`, image files decoded, resized and normalised. Repeats
    are interleaved; the report keeps every wait.

    \b
    Example:
      envkit bench -n t1
    """
    from envkit import host, probe, report
    from envkit.bench import plan

    target = options.inside_target(name, prefix, python)
    with render.Talk(quiet=quiet, verbose=verbose) as talk:
        told = probe.probe(target, probes=None, bench=plan(host.usable_cores()), tell=talk)
    if output is not None:
        report.write(output, told)
    if as_json:
        render.record(told)
        return
    _show(told.points)
    for workload, why in told.unmeasured.items():
        render.say(f"{workload} was not measured: {why}")
    for death in told.deaths:
        render.say(f"{death.at}: {death.detail}")


def _show(points: tuple[Point, ...]) -> None:
    keys = sorted({(point.workload, point.workers) for point in points})
    rows = [_row(key, [point for point in points if (point.workload, point.workers) == key]) for key in keys]
    headers = ("workload", "num_workers", "samples/s: median", "least", "most", "first batch s", "epoch restart s")
    render.table(headers, rows)


def _row(key: tuple[str, int], repeats: list[Point]) -> tuple[str, ...]:
    rates = [point.samples_per_s for point in repeats if point.samples_per_s is not None]
    first = statistics.median(point.first_batch_s for point in repeats)
    restart = statistics.median(point.restart_s for point in repeats)
    shown = (f"{statistics.median(rates):.0f}", f"{min(rates):.0f}", f"{max(rates):.0f}") if rates else ("-", "-", "-")
    return key[0], str(key[1]), *shown, f"{first:.3f}", f"{restart:.3f}"
