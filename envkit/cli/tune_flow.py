"""What `tune` was asked for, on which machine, and its answer for people."""

import os
import re
from pathlib import Path
from typing import Any

import msgspec

from envkit import bench, host
from envkit.cli import options, render
from envkit.errors import InputError
from envkit.tune import Tuned, Wish
from envkit.tuning import Machine, Tried


def wish(
    *,
    dataset: str | None,
    loader: str | None,
    workload: str | None,
    batch_size: int | None,
    step_ms: float,
    model: str | None,
    budget: str,
    timeout: float,
    **_: Any,
) -> Wish:
    """The options as a wish; raises InputError unless exactly one thing is to be tuned."""
    given = [one for one in (dataset, loader, workload) if one is not None]
    if len(given) != 1:
        raise InputError("what shall be tuned?", hint="give one of --dataset, --loader and --workload")
    if workload is not None and workload not in bench.WORKLOADS:
        raise InputError(f"no such workload: {workload}", hint=f"there are {', '.join(bench.WORKLOADS)}")
    text = dataset or loader
    return Wish(
        source=options.data_source(text) if text is not None else None,
        workload=workload,
        batch_size=batch_size,
        consumer=options.consumer(step_ms, model),
        budget_s=_seconds(budget),
        timeout_s=timeout,
    )


def _seconds(text: str) -> float:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(s|m|min)?", text.strip())
    if found is None or not float(found[1]):
        raise InputError(f"--budget {text!r} is no time", hint="write 60s or 2m")
    return float(found[1]) * (60 if (found[2] or "s").startswith("m") else 1)


def machine() -> Machine:
    """What one process of a training job may use here: cores are shared by the ranks on this machine."""
    told = host.describe(Path.cwd())
    ranks = os.environ.get("LOCAL_WORLD_SIZE", "1")
    shared = int(ranks) if ranks.isdigit() and int(ranks) else 1
    return Machine(
        cores=max(1, host.usable_cores() // shared),
        memory_bytes=host.memory_available() // shared,
        shm_bytes=told.shm_free_bytes // shared if told.shm_free_bytes is not None else None,
        open_files=told.open_files_soft,
    )


def plain(told: Tuned) -> dict[str, Any]:
    """The record for --json, with the share of the limit and the arguments as Python."""
    record: dict[str, Any] = msgspec.to_builtins(told)
    record["throughput"]["share"] = told.throughput.share
    record["python"] = told.arguments.python
    return record


def show(told: Tuned) -> None:
    """What was tried, the arguments to paste, and how they compare with the present ones."""
    headers = ("num_workers", "prefetch", "samples/s: median", "least", "most", "predicted", "MiB in workers", "")
    render.table(headers, [_row(one) for one in told.tried])
    rates = told.throughput
    if told.keep:
        render.say(f"keep what you have: {told.arguments.python}")
    else:
        render.say(told.arguments.python)
    render.say(
        f"{rates.measured:.0f} samples/s ({rates.least:.0f} to {rates.most:.0f}; predicted {rates.predicted:.0f}), "
        f"{rates.share:.2f} of the limit of {rates.limit.samples_per_s:.0f} ({rates.limit.by})"
    )
    if told.gain is not None:
        change = told.gain
        interval = f"{change.ratio:.2f} ({change.low:.2f} to {change.high:.2f}, 95 %)"
        render.say(f"against num_workers={told.present.num_workers}: {interval}: {change.answer}")
    for note in told.notes:
        render.say(f"note: {note}")


def _row(one: Tried) -> tuple[str, ...]:
    rates = one.samples_per_s
    shown = (f"{one.rate:.0f}", f"{min(rates):.0f}", f"{max(rates):.0f}") if rates else ("-", "-", "-")
    held = f"{one.workers_bytes >> 20}" if one.workers_bytes else "-"
    prefetch = str(one.setting.prefetch_factor or "-")
    failed = "; ".join(dict.fromkeys(one.failures))
    return str(one.setting.num_workers), prefetch, *shown, f"{one.predicted or 0:.0f}", held, failed
