"""What `watch` was asked for, a line of life while it looks, and its verdict for people."""

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from envkit import codec, watch
from envkit.cli import options, render
from envkit.errors import InputError
from envkit.watch import Job, Watched
from envkit.watching import Sample

_REFRESH_S = 1.0


def run(
    words: tuple[str, ...],
    *,
    name: str | None,
    prefix: Path | None,
    pid: int | None,
    duration: str | None,
    hang_after: str,
    output: Path | None,
    as_json: bool,
    quiet: bool,
    verbose: bool,
) -> int:
    """Watch, show, and tell the exit status."""
    plan = watch.Plan(
        duration_s=options.seconds("--duration", duration) if duration is not None else None,
        hang_s=options.seconds("--hang-after", hang_after),
    )
    if (pid is None) == (not words):
        raise InputError("what shall be watched?", hint="give --pid PID, or a command after --")
    with _job(words, pid, _environ(name, prefix), as_json) as job, _life(quiet) as show:
        told = watch.watch(job, plan, show=show)
    if output is not None:
        codec.write(output, codec.encode(told))
    if as_json:
        render.record(told)
    else:
        _show(told)
    return _status(told)


def _environ(name: str | None, prefix: Path | None) -> Mapping[str, str]:
    if name is None and prefix is None:
        return os.environ
    from envkit import activation

    return activation.environ(options.prefix_from(name, prefix), os.environ)


def _job(words: tuple[str, ...], pid: int | None, environ: Mapping[str, str], as_json: bool) -> Job:
    return watch.attach(pid) if pid is not None else watch.start(words, environ, stdout_is_ours=as_json)


@contextlib.contextmanager
def _life(quiet: bool) -> Iterator[Callable[[Sample], None]]:
    """One live screen on a terminal; elsewhere nothing until the end."""
    if quiet or not sys.stderr.isatty():
        yield lambda sample: None
        return
    from rich.live import Live

    with Live(console=render.console(stderr=True), auto_refresh=False, transient=True) as live:
        shown = [0.0]

        def show(sample: Sample) -> None:
            if time.monotonic() - shown[0] >= _REFRESH_S:
                shown[0] = time.monotonic()
                live.update(_screen(sample), refresh=True)

        yield show


def _screen(sample: Sample) -> str:
    lines = [f"{sample.at_s:.0f} s   main {sample.main_cores:.2f} cores, {sample.main_doing}"]
    lines += [f"worker {one.pid}: {one.cores:.2f} cores, {one.doing}" for one in sample.workers]
    if sample.cores:
        lines.append("cores " + " ".join(f"{share:.0%}" for share in sample.cores))
    for number, gpu in enumerate(sample.gpus):
        used = (gpu.memory_used_bytes or 0) / 1e9
        lines.append(f"GPU {number}: {gpu.utilisation_percent or 0} %, {used:.1f} GB")
    if sample.slow is not None:
        slow = sample.slow
        shm = f", /dev/shm {render.size(slow.shm_bytes)}" if slow.shm_bytes is not None else ""
        lines.append(f"memory {render.size(slow.pss_bytes)} (PSS){shm}, {slow.open_files} open files")
    return "\n".join(lines)


def _show(told: Watched) -> None:
    for verdict in told.verdicts:
        render.say(f"{verdict.name}: {verdict.sentence}")
        for line in verdict.evidence:
            render.say(f"  {line}")
        if verdict.next:
            render.say(f"  next: {verdict.next}")
    for stack in (one for one in told.stacks if one.thread == "MainThread"):
        render.say(f"process {stack.pid}, {stack.thread}:")
        for frame in stack.frames:
            render.say(f"    {frame}")
    for note in told.notes:
        render.say(f"note: {note}")
    seen = told.summary
    render.say(f"looked {seen.samples} times in {seen.seconds:.1f} s; watching took {told.cost_cores:.1%} of a core")


def _status(told: Watched) -> int:
    """The command's exit status, as a shell tells it: 128 and the signal's number; 130 after Ctrl-C; 1 for a hang."""
    if told.status is not None and told.status != 0 and not told.interrupted:
        return told.status if told.status > 0 else 128 - told.status
    if told.interrupted:
        return 130
    return 1 if any(one.name == "hang" for one in told.verdicts) else 0
