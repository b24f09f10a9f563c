"""`make bench`: each figure as a ratio against something measured in the same run, interleaved, by medians.

Uses what `make demo` made: its channel, its environment and its reports.
"""

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
DEMO = ROOT / ".demo"
BIN = Path(sys.executable).parent
ENVKIT = str(BIN / "envkit")
PREFIX = DEMO / "envs" / "demo"

INSTALL = """
import asyncio, json, sys
from pathlib import Path
from rattler import install
from envkit import lock
from envkit.engine.solve import _to_rattler
records = [_to_rattler(one) for one in lock.read(Path(sys.argv[1])).conda("linux-64")]
asyncio.run(install(records, sys.argv[2], show_progress=False))
"""

CHECK = """
import json, resource, sys, time
from pathlib import Path
from envkit import files, host, prefix
place = Path(sys.argv[1])
begun = time.perf_counter()
told = files.check(place, prefix.records(place), workers=host.usable_cores())
took = time.perf_counter() - begun
print(json.dumps([told.bytes / took, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]))
"""


def timed(command: list[str], **options: object) -> float:
    """Seconds that a command takes; it must succeed."""
    begun = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **options)  # type: ignore[call-overload]
    return time.perf_counter() - begun


def ratio(ours: Callable[[], float], theirs: Callable[[], float], repeats: int) -> tuple[float, float]:
    """The medians of both, measured in turns."""
    pairs = [(ours(), theirs()) for _ in range(repeats)]
    return statistics.median(pair[0] for pair in pairs), statistics.median(pair[1] for pair in pairs)


def row(what: str, against: str, ours: float, theirs: float, goal: str, shown: str = "") -> None:
    """One line of the table."""
    figure = shown or f"{ours / theirs:.2f}x ({ours:.3f} s / {theirs:.3f} s)"
    print(f"| {what} | {against} | {goal} | {figure} |", flush=True)


def start() -> None:
    """Start-up against the least that a Click program needs."""
    bare = [sys.executable, "-c", "import click"]
    for words in ("--version", "--help"):
        ours, theirs = ratio(lambda words=words: timed([ENVKIT, words]), lambda: timed(bare), 21)
        row(f"`envkit {words}`", "interpreter start with `import click`", ours, theirs, "<= 2x")


def lock(scratch: Path) -> None:
    """A lock against conda-lock driving the same front."""
    source = scratch / "environment.yml"
    shutil.copy(DEMO / "demo" / "environment.yml", source)
    direct = [str(BIN / "conda-lock"), "lock", "--conda", str(BIN / "envkit-conda"), "-p", "linux-64"]
    direct += ["-f", str(source), "--lockfile", str(scratch / "theirs.yml")]
    ours, theirs = ratio(lambda: timed([ENVKIT, "lock", str(source)]), lambda: timed(direct, cwd=scratch), 7)
    row("lock of the demo environment", "conda-lock with the same front", ours, theirs, "<= 1.2x")


def build(scratch: Path) -> None:
    """A build against rattler's install alone, with an empty cache and with a full one."""
    held = str(DEMO / "demo" / "conda-lock.yml")

    def ours(cache: Path, cold: bool) -> float:
        return _into(scratch / "ours", cache, cold, [ENVKIT, "build", held, "-p", str(scratch / "ours"), "-q"])

    def theirs(cache: Path, cold: bool) -> float:
        place = scratch / "theirs"
        return _into(place, cache, cold, [sys.executable, "-c", INSTALL, held, str(place)])

    for name, cold, repeats in (("cold", True, 3), ("warm", False, 7)):
        cache = scratch / "cache"
        a, b = ratio(lambda c=cold, at=cache: ours(at, c), lambda c=cold, at=cache: theirs(at, c), repeats)
        row(f"build, {name} cache", "py-rattler's install alone", a, b, "<= 1.3x")


def _into(place: Path, cache: Path, cold: bool, command: list[str]) -> float:
    shutil.rmtree(place, ignore_errors=True)
    if cold:
        shutil.rmtree(cache, ignore_errors=True)
    os.sync()  # what the last run wrote is not to slow this one
    return timed(command, env=os.environ | {"RATTLER_CACHE_DIR": str(cache), "HOME": str(cache.parent)})


def verify(scratch: Path) -> None:
    """The file check against sha256sum over the same files, one process per core."""
    records = [json.loads(path.read_text()) for path in (PREFIX / "conda-meta").glob("*.json")]
    entries = [one["_path"] for record in records for one in record["paths_data"]["paths"]]
    names = scratch / "names"
    whole = [name for name in entries if not (PREFIX / name).is_symlink() and not name.endswith(".pyc")]
    names.write_bytes(b"".join(os.fsencode(name) + b"\0" for name in whole))
    size = sum((PREFIX / name).stat().st_size for name in whole)
    cores = str(len(os.sched_getaffinity(0)))
    command = ["xargs", "-0", "-a", str(names), "-n", "500", "-P", cores, "sha256sum"]
    memory: list[float] = []

    def ours() -> float:
        told = subprocess.run([sys.executable, "-c", CHECK, str(PREFIX)], check=True, capture_output=True)
        rate, peak = json.loads(told.stdout)
        memory.append(peak)
        return float(rate)

    a, b = ratio(ours, lambda: size / timed(command, cwd=PREFIX), 5)
    shown = f"{a / b:.2f}x ({a / 1e6:.0f} MB/s / {b / 1e6:.0f} MB/s), {max(memory):.0f} MB of memory"
    row("verify's file check", f"`sha256sum`, {cores} processes", a, b, ">= 0.8x, under 200 MB", shown)


def probe() -> None:
    """Each tier of the probes against importing torch."""
    python = str(PREFIX / "bin" / "python")
    goals = {"fast": "<= +10 s", "workers": "<= +45 s", "destructive": "opt-in"}
    for tier, goal in goals.items():
        ours, theirs = ratio(
            lambda tier=tier: timed([ENVKIT, "probe", "-p", str(PREFIX), "--tier", tier, "-q"]),  # type: ignore[misc]
            lambda: timed([python, "-c", "import torch"]),
            3,
        )
        shown = f"{ours - theirs:+.1f} s ({ours:.1f} s / {theirs:.1f} s)"
        row(f"probes of the tier `{tier}`", "`import torch`", ours, theirs, goal, shown)


def diff() -> None:
    """A diff of two full reports against a bare interpreter."""
    reports = [str(DEMO / name / "environment.report.json") for name in ("demo", "demo")]
    ours, theirs = ratio(lambda: timed([ENVKIT, "diff", *reports]), lambda: timed([sys.executable, "-c", "pass"]), 21)
    shown = f"{ours - theirs:+.2f} s ({ours:.3f} s / {theirs:.3f} s)"
    row("`envkit diff` of two full reports", "a bare interpreter start", ours, theirs, "<= +0.3 s", shown)


def main() -> None:
    """Print the table."""
    if not (DEMO / "drifted" / "environment.report.json").exists():
        subprocess.run([ROOT / "tools" / "demo.sh"], check=True, stdout=subprocess.DEVNULL)
    print("| what | against | goal | measured |\n|---|---|---|---|")
    start()
    with tempfile.TemporaryDirectory(prefix="envkit-bench-", dir=DEMO) as folder:
        lock(Path(folder))
        build(Path(folder))
        verify(Path(folder))
    probe()
    diff()


if __name__ == "__main__":
    main()
