"""envkit tune."""

from pathlib import Path
from typing import Any

import click

from envkit.cli import options, render


@click.command()
@options.name_or_prefix
@options.python
@click.option("--dataset", metavar="FILE.py:F|MODULE:F", help="Tune for the Dataset that this function returns.")
@click.option("--loader", metavar="FILE.py:F|MODULE:F", help="Tune the DataLoader that this function returns.")
@click.option("--workload", metavar="NAME", help="Tune for a bundled workload instead: latency, jpeg, cpu, tiny, ...")
@click.option("--batch-size", type=click.IntRange(min=1), help="Default: the loader's own, else 32.")
@options.consumers
@click.option("--tune-batch", is_flag=True, help="Find the batch size of --model instead.")
@click.option("--budget", default="60s", show_default=True, help="How long to try, as 60s or 2m.")
@click.option("--timeout", type=click.FloatRange(min=1), default=30.0, show_default=True, help="Seconds for one trial.")
@options.as_json
@options.talk
def command(name: str | None, prefix: Path | None, python: Path | None, **more: Any) -> None:
    """Find the arguments of a DataLoader: as fast as it gets, with the fewest workers.

    Times single samples, picks from a model the settings worth a trial, and races them in short trials, each in
    processes of its own. Cores are those that affinity, quota and the ranks on this machine leave; memory, /dev/shm
    and open files are measured, and must fit. The setting in use (the loader's own, or no workers) is tried as well:
    what is not better beyond noise is not recommended.

    With --step-ms or --model the batches are consumed, and as many workers are enough as hide the loading. With
    --tune-batch the batch size of --model is doubled until memory is full, every size in a process of its own; the
    smallest that reaches 95 % of the best throughput is taken.

    \b
    Examples:
      envkit tune -n t1 --dataset train.py:make_dataset --step-ms 40
      envkit tune -n t1 --loader train.py:make_loader --json
      envkit tune -n t1 --dataset train.py:make_dataset --model train.py:make_model --tune-batch
    """
    from envkit.cli import tune_flow

    answer = tune_flow.batch_size if more["tune_batch"] else tune_flow.arguments
    target = options.inside_target(name, prefix, python)
    with render.Talk(quiet=more["quiet"], verbose=more["verbose"]) as talk:
        show = answer(target, talk, **more)
    raise SystemExit(show(as_json=more["as_json"]))
