"""What `tune` was asked for, on which machine, and its answer for people."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from envkit import batchsize, bench, host, tune
from envkit.batchsize import BatchTuned
from envkit.cli import options, render
from envkit.errors import InputError
from envkit.inside import Target
from envkit.progress import Tell
from envkit.tune import Tuned, Wish
from envkit.tuning import Machine, Tried

Show = Callable[..., int]
"""Shows an answer, `as_json` or for people, and tells the exit code."""


def arguments(target: Target, talk: Tell, **more: Any) -> Show:
    """Find the arguments of a DataLoader."""
    told = tune.tune(target, wish(**more), machine(), tell=talk)

    def show(*, as_json: bool) -> int:
        if as_json:
            render.record(plain(told))
        else:
            _show(told)
        return 130 if told.interrupted else 0

    return show


def batch_size(target: Target, talk: Tell, **more: Any) -> Show:
    """Find the batch size of a model."""
    asked = wish(**more)
    if more["model"] is None:
        raise InputError(
            "--tune-batch needs --model", hint="a batch size is a model's: give cnn, vit or file.py:function"
        )
    wanted = batchsize.Wish(
        consumer=asked.consumer,
        source=asked.source,
        workload=asked.workload,
        first=asked.batch_size or 1,
        budget_s=asked.budget_s,
        timeout_s=asked.timeout_s,
    )
    told = batchsize.find(target, wanted, machine(), tell=talk)

    def show(*, as_json: bool) -> int:
        if as_json:
            render.record(told)
        else:
            _show_sizes(told)
        return 0

    return show


def _show_sizes(told: BatchTuned) -> None:
    rows = [
        (
            str(one.batch_size),
            f"{one.rate:.0f}" if one.fits else "-",
            f"{one.memory_bytes >> 20}" if one.fits else "-",
            "" if one.fits else next(attempt.reason for attempt in one.attempts if not attempt.fits),
        )
        for one in told.tried
    ]
    render.table(("batch_size", "samples/s of the model", "MiB at the peak", ""), rows)
    best = max(told.tried, key=lambda one: one.rate)
    chosen = next(one for one in told.tried if one.batch_size == told.batch_size)
    render.say(
        f"batch_size={told.batch_size}: {chosen.rate:.0f} samples/s, {chosen.rate / best.rate:.0%} of the best "
        f"({best.batch_size}); the largest that fits in {told.memory_limit_bytes >> 20} MiB is {told.largest}"
    )
    for note in told.notes:
        render.say(f"note: {note}")


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
        budget_s=options.seconds("--budget", budget),
        timeout_s=timeout,
    )


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


def _show(told: Tuned) -> None:
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
