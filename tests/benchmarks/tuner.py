"""`make bench-tuner`: the tuner's choice against the whole grid of settings, on each bundled workload.

The grid is num_workers 0..8 x prefetch_factor 1, 2, 4 x persistent_workers. Its best setting and the tuner's are then
measured in turns, so that the best of many noisy numbers is not what the choice is held against. Uses what `make demo`
made.
"""

import itertools
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

from envkit import bench, trials, tune
from envkit.cli import tune_flow
from envkit.inside import Target
from envkit.progress import silent
from envkit.trials import Round, Subject
from envkit.tuning import Setting

PYTHON = Path(__file__).parent.parent.parent / ".demo" / "envs" / "demo" / "bin" / "python"
TARGET = Target(python=PYTHON, environ=dict(os.environ))
BATCH, SECONDS, TURNS = 8, 1.0, 5


def grid() -> list[Setting]:
    """Every setting: without workers prefetching and persistence mean nothing."""
    deeper = itertools.product(range(1, 9), (1, 2, 4), (False, True))
    alone = Setting(num_workers=0, prefetch_factor=None, persistent_workers=False, batch_size=BATCH)
    return [alone] + [
        Setting(num_workers=n, prefetch_factor=p, persistent_workers=kept, batch_size=BATCH) for n, p, kept in deeper
    ]


def rates(workload: str, settings: list[Setting], folder: str) -> list[float]:
    """Samples per second of each setting, in order; 0 for one that fails."""
    wanted = [{**{n: getattr(one, n) for n in one.__struct_fields__}, "seconds": SECONDS} for one in settings]

    def race() -> trials.Race[list[float]]:
        told = yield Round(wanted=tuple(wanted))
        return [0.0 if isinstance(one, trials.Failure) else one["samples_per_s"] or 0.0 for one in told]

    return trials.run(TARGET, Subject(folder=folder, workload=workload, timeout_s=60), race(), silent)


def main(workloads: list[str]) -> None:
    """Print a row for each workload, and the median and the worst."""
    print("| workload | tuner's choice | best of the grid | choice / best | time / grid |\n|---|---|---|---|---|")
    shares, times = [], []
    for workload in workloads:
        share, spent = one(workload)
        shares.append(share)
        times.append(spent)
    print(
        f"| median (worst) | | | {statistics.median(shares):.2f} ({min(shares):.2f}) | {statistics.median(times):.2f} |"
    )


def one(workload: str) -> tuple[float, float]:
    """The share of the best that the choice reaches, and the tuner's time as a share of the grid's."""
    with tempfile.TemporaryDirectory(prefix="envkit-tuner-") as folder:
        begun = time.perf_counter()
        told = tune.tune(TARGET, tune.Wish(workload=workload, batch_size=BATCH), tune_flow.machine())
        tuned = time.perf_counter() - begun
        begun = time.perf_counter()
        every = grid()
        found = rates(workload, every, folder)
        whole = time.perf_counter() - begun
        best = every[found.index(max(found))]
        turns = rates(workload, [told.arguments, best] * TURNS, folder)
    chosen, other = statistics.median(turns[::2]), statistics.median(turns[1::2])
    share = chosen / other
    print(f"| {workload} | {_shown(told.arguments)} | {_shown(best)} | {share:.2f} | {tuned / whole:.2f} |", flush=True)
    return share, tuned / whole


def _shown(one: Setting) -> str:
    return f"{one.num_workers} workers" + (f", prefetch {one.prefetch_factor}" if one.num_workers else "")


if __name__ == "__main__":
    main(sys.argv[1:] or list(bench.WORKLOADS))
