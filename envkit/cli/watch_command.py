"""envkit watch."""

from pathlib import Path
from typing import Any

import click

from envkit.cli import options


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@options.name_or_prefix
@click.option("--pid", type=click.IntRange(min=1), help="A process that runs already.")
@click.option("--duration", metavar="30s", help="How long to watch. Default: to the end, or until Ctrl-C.")
@click.option("--hang-after", default="20s", show_default=True, help="So long without any sign of life is a hang.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write the record here.")
@options.as_json
@options.talk
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[-- CMD...]")
def command(words: tuple[str, ...], **more: Any) -> None:
    """Watch a training job, find its DataLoader workers, and say what holds it back.

    Looks from outside five times a second: GPUs through NVML, cores, what the main process and each worker are at,
    memory (PSS) and its growth, disk and network reads, /dev/shm, open files, pressure. At the end a verdict with its
    evidence: starved by loading and why, balanced, compute-bound, GPU-bound, memory growth, /dev/shm or files nearly
    used up, killed by the memory limit, a hang (with stacks where py-spy is installed and permitted).

    With -n or -p the command runs in that environment. The exit status is the command's; 0 with --pid.

    \b
    Examples:
      envkit watch -n t1 -- python train.py
      envkit watch --pid 4711 --duration 30s --json
    """
    from envkit.cli import watch_flow

    raise SystemExit(watch_flow.run(words, **more))
