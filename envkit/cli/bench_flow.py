"""What `bench` was asked for, and its answer for people: a table, a plot per workload, and what hides loading."""

import os
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from envkit import bench, host, report, speed
from envkit.bench import Plan
from envkit.cli import options, plot, render
from envkit.errors import InputError
from envkit.report import Report
from envkit.speed import Curve, Rate


def plan(
    *,
    workloads: tuple[str, ...],
    dataset: str | None,
    loader: str | None,
    images: Path | None,
    workers: str | None,
    repeats: int,
    seconds: float,
    batch_size: int | None,
    step_ms: float,
    model: str | None,
    **_: Any,
) -> Plan:
    """The options as a plan; raises InputError for what cannot be measured together, or is not there."""
    own = [one for one in (dataset, loader, images) if one is not None]
    if len(own) > 1 or (own and workloads):
        raise InputError("give one of --dataset, --loader, --images and --workload")
    unknown = [one for one in workloads if one not in bench.WORKLOADS]
    if unknown:
        raise InputError(f"no such workload: {', '.join(unknown)}", hint=f"there are {', '.join(bench.WORKLOADS)}")
    names = (bench.OWN,) if own else workloads or bench.WORKLOADS
    planned = bench.plan(host.usable_cores(), names)
    if own:
        planned = Plan(workers={bench.OWN: bench.counts(host.usable_cores(), waiting=True)})
    text = dataset or loader
    return Plan(
        workers=dict.fromkeys(names, _counts(workers)) if workers is not None else planned.workers,
        repeats=repeats,
        seconds=seconds,
        batch_size=batch_size,
        source=options.data_source(text) if text is not None else None,
        images=os.path.realpath(images) if images is not None else None,
        consumer=options.consumer(step_ms, model),
    )


def _counts(text: str) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdigit() for part in parts):
        raise InputError(f"--workers {text!r}: no list of worker counts", hint="write 0,2,4")
    return tuple(sorted({int(part) for part in parts}))


def show(told: Report, output: Path | None, *, as_json: bool) -> None:
    """The report as a file, as JSON, or for people."""
    if output is not None:
        report.write(output, told)
    if as_json:
        render.record(told)
        return
    curves = speed.curves(told)
    for curve in curves:
        for line in plot.lines(curve):
            render.say(line)
        render.say("")
    if curves:
        render.table(_HEADERS, [_row(curve, rate) for curve in curves for rate in curve.rates])
        render.say(_LEGEND)
    for line in (*_conclusions(told, curves), *_problems(told)):
        render.say(line)


_HEADERS = (
    "workload",
    "num_workers",
    "samples/s",
    "low",
    "high",
    "of limit",
    "waits",
    "start s",
    "first s",
    "restart s",
    "new s",
    "CPU main",
    "workers",
    "MiB",
)
_LEGEND = (
    "low, high: 95 % interval; start: of the workers; first: to the first batch; restart: from epoch to epoch with "
    "persistent workers; new: without; CPU: cores in use; MiB: of all workers (PSS)"
)


def _row(curve: Curve, rate: Rate) -> tuple[str, ...]:
    used = rate.cores
    return (
        curve.workload,
        str(rate.workers),
        f"{rate.samples_per_s:.0f}",
        _whole(rate.low),
        _whole(rate.high),
        f"{rate.share:.2f}" if rate.share is not None else "-",
        f"{rate.wait_share:.0%}" if curve.step_s else "-",
        _seconds(rate.start_s),
        _seconds(rate.first_batch_s),
        _seconds(rate.restart_s),
        _seconds(rate.fresh_restart_s),
        f"{used[0]:.2f}" if used else "-",
        f"{used[1]:.2f}" if used and rate.workers else "-",
        _whole(rate.workers_bytes and rate.workers_bytes / 1048576),
    )


def _whole(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f}"


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _conclusions(told: Report, curves: Sequence[Curve]) -> list[str]:
    lines = []
    if told.consumer is not None:
        lines += [f"{curve.workload}: {speed.hiding(curve)}" for curve in curves]
    lines += [f"{curve.workload}: {note}" for curve in curves for note in curve.notes]
    if len(told.reference) > 1:
        noise = statistics.stdev(told.reference) / statistics.fmean(told.reference)
        lines.append(f"the machine itself varied by {noise:.1%} from repeat to repeat")
    return lines


def _problems(told: Report) -> list[str]:
    lines = [f"{what} was not measured: {why}" for what, why in told.unmeasured.items()]
    lines += [f"{death.at}: {death.detail}" for death in told.deaths]
    return [*lines, "interrupted: this is what there was until then"] if told.interrupted else lines


def status(told: Report) -> int:
    """The exit code: 130 after an interruption, 1 where there is nothing to show."""
    if told.interrupted:
        return 130
    return 0 if told.points else 1
