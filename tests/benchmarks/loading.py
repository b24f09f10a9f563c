"""The part of `make bench` about loading: the tuner against the grid of all settings and against loadtune, how often
equal speeds are called different and slower ones are found, and what measuring and watching cost.

Uses what `make demo` made. Each part may be named: `python tests/benchmarks/loading.py power watch`.
"""

import itertools
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from envkit import bench, owndata, stats, trials, tune
from envkit.cli import tune_flow
from envkit.inside import Target
from envkit.progress import silent
from envkit.trials import Failure, Round, Subject
from envkit.tuning import Setting, setting

ROOT = Path(__file__).parent.parent.parent
PREFIX = ROOT / ".demo" / "envs" / "demo"
PYTHON = PREFIX / "bin" / "python"
TARGET = Target(python=PYTHON, environ=dict(os.environ))
HERE = Path(__file__).parent
BATCH, SECONDS, TURNS = 8, 1.0, 5
ABSENT = ("hdf5", "lmdb")
"""Workloads whose library the demo's environment has not."""


def rates(subject: Subject, wanted: Sequence[tuple[Setting, dict[str, Any]]]) -> list[float]:
    """Samples per second of trials, in order; 0 for one that fails."""
    asked = tuple({**{name: getattr(one, name) for name in one.__struct_fields__}, **more} for one, more in wanted)

    def race() -> "trials.Race[list[float]]":
        told = yield Round(wanted=asked)
        return [0.0 if isinstance(one, Failure) else one["samples_per_s"] or 0.0 for one in told]

    return trials.run(TARGET, subject, race(), silent)


def row(*parts: str) -> None:
    """A row of a table, at once."""
    print("| " + " | ".join(parts) + " |", flush=True)


def grid() -> list[Setting]:
    """num_workers 0..8 x prefetch_factor 1, 2, 4 x persistent_workers; without workers the others mean nothing."""
    deeper = itertools.product(range(1, 9), (1, 2, 4), (False, True))
    alone = [setting(0, BATCH)]
    return alone + [
        Setting(num_workers=n, prefetch_factor=p, persistent_workers=kept, batch_size=BATCH) for n, p, kept in deeper
    ]


def tuner() -> None:
    """The tuner's choice against the best of the grid, measured again in turns; and its time against the grid's."""
    row(
        "workload",
        "tuner's choice",
        "best of the grid",
        "choice / best",
        "time / grid",
        "loadtune",
        "choice / its",
        "time",
    )
    row(*["---"] * 8)
    shares, times = [], []
    for workload in (name for name in bench.WORKLOADS if name not in ABSENT):
        share, spent = _one_workload(workload)
        shares.append(share)
        times.append(spent)
    row(
        f"median of {len(shares)}",
        "",
        "",
        f"{statistics.median(shares):.2f}, worst {min(shares):.2f} (goal >= 0.97, worst >= 0.92)",
        f"{statistics.median(times):.2f} (goal <= 0.15)",
        "",
        "",
        "",
    )


def _one_workload(workload: str) -> tuple[float, float]:
    with tempfile.TemporaryDirectory(prefix="envkit-tuner-") as folder:
        subject = Subject(folder=folder, workload=workload, timeout_s=60)
        begun = time.perf_counter()
        told = tune.tune(TARGET, tune.Wish(workload=workload, batch_size=BATCH), tune_flow.machine())
        tuned = time.perf_counter() - begun
        begun = time.perf_counter()
        every = grid()
        found = rates(subject, [(one, {"seconds": SECONDS}) for one in every])
        whole = time.perf_counter() - begun
        best = every[found.index(max(found))]
        other, took = _loadtune(workload, folder)
        several = [told.arguments, best] + ([other] if other is not None else [])
        turns = rates(
            subject, [(one, {"seconds": SECONDS, "offset": 1009 * turn}) for turn in range(TURNS) for one in several]
        )
    by = [turns[number :: len(several)] for number in range(len(several))]
    share = statistics.median(by[0]) / statistics.median(by[1])
    theirs = ("-", "-", "-")
    if other is not None:
        change = stats.compare(by[2], by[0])
        theirs = (_shown(other), f"{change.ratio:.2f} {change.answer}", f"{tuned / took:.2f}")
    row(workload, _shown(told.arguments), _shown(best), f"{share:.2f}", f"{tuned / whole:.2f}", *theirs)
    return share, tuned / whole


def _shown(one: Setting) -> str:
    kept = "" if one.persistent_workers or not one.num_workers else ", not kept"
    return f"{one.num_workers} workers" + (f", prefetch {one.prefetch_factor}{kept}" if one.num_workers else "")


LOADTUNE = """
import sys
sys.path.insert(0, {payload!r})
import torch, workloads
from loadtune import Workload
made = workloads.make({workload!r}, {folder!r})

def step(model, optimizer, batch, device):
    optimizer.zero_grad()
    loss = model(torch.ones(1, 1)).sum()
    loss.backward()
    optimizer.step()
    return loss

def get_workload():
    return Workload(name={workload!r}, make_dataset=lambda: made.dataset(made.length), train_step=step,
        make_model=lambda: torch.nn.Linear(1, 1),
        make_optimizer=lambda model: torch.optim.SGD(model.parameters(), lr=0.1),
        default_batch_size={batch}, collate_fn=getattr(made, "collate", None))
"""


def _loadtune(workload: str, folder: str) -> tuple[Setting | None, float]:
    """What loadtune says at its defaults, and how long it takes; None where it is not to be had, or refuses."""
    place = _installed("loadtune", "jinja2", "markupsafe", "matplotlib", "psutil", *MATPLOTLIB)
    if place is None:
        return None, 0.0
    file = Path(folder, "loadtune_workload.py")
    payload = str(ROOT / "envkit" / "payload")
    file.write_text(LOADTUNE.format(payload=payload, workload=workload, folder=folder, batch=BATCH))
    words = [str(PYTHON), "-m", "loadtune.cli", "tune", str(file), "--save-raw", f"{folder}/raw.json"]
    begun = time.perf_counter()
    told = subprocess.run(
        words, env=os.environ | {"PYTHONPATH": str(place)}, cwd=folder, capture_output=True, text=True, timeout=900
    )
    took = time.perf_counter() - begun
    best = re.search(r"best overall: workers=(\d+)(?:, prefetch=(\d+))?", told.stdout)
    if told.returncode or best is None:
        print(f"loadtune has no answer for {workload}: {(told.stderr or told.stdout).strip()[-200:]}", file=sys.stderr)
        return None, took
    workers = int(best[1])
    return setting(workers, BATCH, int(best[2] or 2)), took


MATPLOTLIB = (
    "contourpy",
    "cycler",
    "fonttools",
    "kiwisolver",
    "packaging",
    "pyparsing",
    "python-dateutil",
    "six",
    "pillow",
)


def _installed(*names: str) -> Path | None:
    """Packages in a folder of their own; None, said loudly, where the index is out of reach."""
    place = ROOT / ".cache" / "bench" / names[0]
    if not place.is_dir():
        command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(place), *names]
        if subprocess.run(command, capture_output=True).returncode:
            print(f"NO {names[0]} HERE: it cannot be installed, so nothing is compared with it", file=sys.stderr)
            return None
    return place


STEADY = (("latency", 2), ("jpeg", 2), ("cpu", 2), ("text", 0))


def alarms() -> None:
    """The same configuration compared with itself: 200 pairs of runs, each of the default repeats in turns."""
    changes = []
    with tempfile.TemporaryDirectory(prefix="envkit-alarms-") as folder:
        subject = Subject(folder=folder, timeout_s=60)
        wanted = [(setting(n, BATCH), {"seconds": 0.3, "workload": name}) for name, n in STEADY]
        for _ in range(50):
            before, after = _run(subject, wanted), _run(subject, wanted)
            changes += [stats.compare(one, other) for one, other in zip(before, after, strict=True)]
    wrong = sum(one.answer in ("better", "worse") for one in changes)
    same = sum(one.answer == "same" for one in changes)
    row(
        f"false alarms: a configuration compared with itself, {len(changes)} pairs",
        "`better` or `worse`",
        "<= 5 %",
        f"{wrong / len(changes):.1%} ({same / len(changes):.0%} `same`)",
    )


def _run(subject: Subject, wanted: Sequence[tuple[Setting, dict[str, Any]]]) -> list[list[float]]:
    """One benchmark: the rates of each configuration, its repeats in turns with the others."""
    told = rates(subject, list(wanted) * bench.REPEATS)
    return [told[number :: len(wanted)] for number in range(len(wanted))]


def power() -> None:
    """A loader made 15 % slower: samples that wait, and samples that compute, at two workers."""
    found = []
    with tempfile.TemporaryDirectory(prefix="envkit-power-") as folder:
        for kind in ("waiting", "computing"):
            normal, slower = (_own(folder, f"{kind}{more}") for more in ("", "_slower"))
            wanted = [(setting(2, BATCH), {"seconds": 0.3})]
            for _ in range(20):
                found.append(stats.compare(*(_run(one, wanted)[0] for one in (normal, slower))))
    caught = sum(one.answer == "worse" for one in found)
    ratio = statistics.median(one.ratio for one in found)
    row(
        f"power: a loader made 15 % slower, {len(found)} pairs of runs",
        "`worse`",
        ">= 90 %",
        f"{caught / len(found):.0%} (median ratio {ratio:.2f})",
    )


def _own(folder: str, factory: str) -> Subject:
    source = owndata.source(f"{HERE / 'slower.py'}:{factory}", HERE, [])
    return Subject(folder=folder, source=source, timeout_s=60)


def cost() -> None:
    """Steady throughput as the benchmark sees it against a bare loop over the same loader, in turns."""
    shares = []
    with tempfile.TemporaryDirectory(prefix="envkit-cost-") as folder:
        for workload, workers in (("latency", 4), ("jpeg", 2), ("cpu", 0), ("text", 0)):
            subject = Subject(folder=folder, workload=workload, timeout_s=60)
            ours, bare = [], []
            for _ in range(15):
                ours += rates(subject, [(setting(workers, BATCH), {"seconds": SECONDS})])
                bare.append(_bare(workload, workers, folder))
            shares.append(statistics.median(ours) / statistics.median(bare))
    shown = ", ".join(f"{share:.3f}" for share in shares)
    row("measuring: throughput seen by the benchmark (latency, jpeg, cpu, text)", "a bare loop", "0.98 to 1.02", shown)


def _bare(workload: str, workers: int, folder: str) -> float:
    words = [str(PYTHON), str(HERE / "bare_loop.py"), str(ROOT / "envkit" / "payload"), workload, str(workers), folder]
    return float(subprocess.run(words, check=True, capture_output=True, text=True).stdout)


def watch() -> None:
    """What watching takes of a core, on a training with two workers and on one with none."""
    shares = []
    for kind in ("starved-computing", "compute-bound", "alone"):
        words = [
            "watch",
            "-p",
            str(PREFIX),
            "--json",
            "--",
            "python",
            str(ROOT / "tests" / "data" / "train.py"),
            kind,
            "20",
        ]
        told = subprocess.run([str(Path(sys.executable).parent / "envkit"), *words], capture_output=True, check=True)
        shares.append(json.loads(told.stdout)["cost_cores"])
    shown = ", ".join(f"{share:.1%}" for share in shares)
    row("`envkit watch` at 5 Hz (starved, compute-bound, without workers)", "one core", "<= 2 %", shown)


def create() -> None:
    """The benchmark that `envkit create` runs, at its default, as a share of a minute."""
    begun = time.perf_counter()
    bench.bench(TARGET, bench.plan(len(os.sched_getaffinity(0))), 1 << 33, silent)
    spent = time.perf_counter() - begun
    row("the benchmark inside `envkit create`", "60 s", "<= 1.00x", f"{spent / 60:.2f}x ({spent:.0f} s)")


PARTS: dict[str, Callable[[], None]] = {
    "create": create,
    "watch": watch,
    "cost": cost,
    "power": power,
    "alarms": alarms,
}


def main(names: Sequence[str]) -> None:
    """Print the tables."""
    chosen = [PARTS[name] for name in names or PARTS if name in PARTS]
    if chosen:
        row("what", "against", "goal", "measured")
        row(*["---"] * 4)
    for part in chosen:
        part()
    if not names or "tuner" in names:
        print(flush=True)
        tuner()


if __name__ == "__main__":
    main(sys.argv[1:])
