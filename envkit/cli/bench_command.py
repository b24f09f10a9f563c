"""envkit bench."""

from pathlib import Path
from typing import Any

import click

from envkit.cli import options, render


@click.command()
@options.name_or_prefix
@options.python
@click.option("--workload", "workloads", multiple=True, metavar="NAME", help="Only this one; may be repeated.")
@click.option("--dataset", metavar="FILE.py:F|MODULE:F", help="Measure the Dataset that this function returns.")
@click.option("--loader", metavar="FILE.py:F|MODULE:F", help="Measure the DataLoader that this function returns.")
@click.option(
    "--images", type=click.Path(path_type=Path, exists=True, file_okay=False), help="Measure the images in a folder."
)
@click.option("--workers", metavar="0,2,4", help="Worker counts. Default: 0, 1, 2, 4, ... up to the usable cores.")
@click.option("--repeats", type=click.IntRange(min=1), default=5, show_default=True)
@click.option("--seconds", type=click.FloatRange(min=0.05), default=0.3, show_default=True, help="For each point.")
@click.option("--batch-size", type=click.IntRange(min=1), help="Default: the loader's own, else 8.")
@options.consumers
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write the report here.")
@options.as_json
@options.talk
def command(name: str | None, prefix: Path | None, python: Path | None, **more: Any) -> None:
    """Measure the DataLoader of an environment over its worker counts, beside the limit.

    Bundled workloads: samples that wait (latency, uneven), compute (cpu, jpeg), are tiny or large, are padded (text),
    come as a stream (iterable) or from files (hdf5, lmdb, memmap), and a list that workers copy (copy-on-write). Every
    point is run in processes of its own, repeats are interleaved, and the report keeps every wait and what the
    processes used. The limit is what workers, cores or memory would allow with nothing in between.

    With --step-ms or --model something computes between batches, and the answer is the smallest num_workers that
    hides loading. Exit 1 where nothing could be measured.

    \b
    Examples:
      envkit bench -n t1
      envkit bench -n t1 --dataset train.py:make_dataset --step-ms 40
      envkit bench -n t1 --images ./train --workers 0,2,4,8
    """
    from envkit import probe
    from envkit.cli import bench_flow

    plan = bench_flow.plan(**more)
    target = options.inside_target(name, prefix, python)
    with render.Talk(quiet=more["quiet"], verbose=more["verbose"]) as talk:
        told = probe.probe(target, probes=None, bench=plan, tell=talk)
    bench_flow.show(told, more["output"], as_json=more["as_json"])
    raise SystemExit(bench_flow.status(told))
