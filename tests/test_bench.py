"""The benchmark: its plan, raw points beside their limit, consumers, the user's own data, and what is kept of a run
that is interrupted.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import psutil
import pytest

from envkit import bench, report, speed, stats
from envkit.cli import bench_flow, plot
from envkit.errors import InputError

IMAGE = next((Path(bench.__file__).parent / "payload" / "fixtures").glob("*.jpg"))
CASES = Path(__file__).parent / "data" / "datasets_that_people_write.py"
SLOW = CASES.parent / "slow_to_import.py"
ENVKIT = str(Path(sys.executable).parent / "envkit")


def _report(envkit, tmp_path, *words, status=0) -> report.Report:
    envkit("bench", "-n", "t1", "-q", "-o", tmp_path / "b.json", *words, status=status)
    return report.read(tmp_path / "b.json")


def test_waiting_samples_get_more_workers_than_cores():
    assert bench.plan(2).workers == {"latency": (0, 1, 2, 4, 8), "jpeg": (0, 1, 2)}
    assert bench.counts(6, waiting=False) == (0, 1, 2, 4, 6)
    assert max(bench.counts(64, waiting=True)) == 64


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"workloads": ("nonsense",)}, "no such workload: nonsense"),
        ({"dataset": "a.py:f", "images": Path()}, "give one of"),
        ({"workers": "two"}, "no list of worker counts"),
        ({"model": "alexnet"}, "no such model"),
        ({"loader": "no-such.py:f"}, "no such file"),
    ],
)
def test_what_cannot_be_measured_is_refused(options, said):
    nothing = dict.fromkeys(("dataset", "loader", "images", "workers", "batch_size", "model"))
    with pytest.raises(InputError, match=said):
        bench_flow.plan(**(nothing | {"workloads": (), "repeats": 1, "seconds": 0.1, "step_ms": 0.0} | options))


def test_the_interval_of_repeats_holds_their_mean_and_is_none_for_one():
    low, high = stats.interval([90.0, 100.0, 110.0])
    assert low < 100 < high
    assert stats.interval([100.0]) is None


def test_every_workload_is_measured_or_its_absence_is_told(torch_project, envkit, tmp_path):
    told = _report(envkit, tmp_path, "--repeats", "2", "--seconds", "0.1", "--workers", "0,1")
    absent = {"hdf5", "lmdb"}
    assert {point.workload for point in told.points} == set(bench.WORKLOADS) - absent
    assert set(told.unmeasured) == absent
    assert "No module named 'h5py'" in told.unmeasured["hdf5"]
    assert len(told.reference) == 2
    assert told.interrupted is False
    for point in told.points:
        assert point.samples_per_s > 0
        assert len(point.waits_s) == point.batches
        assert sum(point.waits_s) <= point.total_s
        assert point.start_method == ("fork" if point.workers else None)
        assert point.usage.batches >= point.batches
        assert (point.restart_s is None) == (point.workload == "iterable")
    curves = {curve.workload: curve for curve in speed.curves(told)}
    assert [rate.limit.by for rate in curves["latency"].rates] == ["one process", "workers over latency"]
    assert all(0.5 < rate.share < 1.3 for rate in curves["latency"].rates)
    assert any("copy-on-write" in note for note in curves["copy-on-write"].notes)
    # How much slower files are from a cold cache is the machine's.
    others = [note for name, curve in curves.items() if name != "copy-on-write" for note in curve.notes]
    assert [note for note in others if "in no cache" not in note] == []
    assert any("|" in line and "0 " in line for line in plot.lines(curves["latency"]))


def test_a_consumer_is_hidden_from_by_the_fewest_workers_that_do(torch_project, envkit, tmp_path):
    told = _report(
        envkit, tmp_path, "--workload", "latency", "--step-ms", "100", "--repeats", "1", "--workers", "0,1,2"
    )
    assert told.consumer == "100 ms for a batch"
    (curve,) = speed.curves(told)
    assert curve.rates[0].wait_share > 0.3 > 0.1 > curve.rates[2].wait_share
    said = speed.hiding(curve)
    assert "hides loading" in said
    assert "the bottleneck is then the consumer" in said
    starved = _report(envkit, tmp_path, "--workload", "latency", "--step-ms", "1", "--repeats", "1", "--workers", "0,2")
    said = speed.hiding(speed.curves(starved)[0])
    assert "no worker count that was tried hides loading" in said
    assert "more workers help" in said


@pytest.mark.parametrize("model", ["cnn", "vit", f"{CASES}:a_model", f"{CASES}:a_function_of_a_batch"])
def test_models_are_trained_between_batches(model, torch_project, envkit, tmp_path):
    told = _report(envkit, tmp_path, "--workload", "memmap", "--model", model, "--repeats", "1", "--workers", "0")
    assert told.profiles["memmap"].step_s > 0
    assert told.consumer == model


def test_the_users_loader_is_measured_as_it_is(torch_project, envkit, tmp_path):
    told = _report(envkit, tmp_path, "--loader", f"{CASES}:slow_loader", "--repeats", "1", "--workers", "0,1")
    assert {(point.workload, point.batch_size) for point in told.points} == {(bench.OWN, 4)}
    drawn = _report(
        envkit, tmp_path, "--loader", f"{CASES}:batches_of_two_and_four", "--repeats", "1", "--workers", "0"
    )
    (point,) = drawn.points
    assert point.samples_per_s * point.total_s / point.batches == pytest.approx(3, abs=0.2)


def test_images_of_a_folder_are_measured(torch_project, envkit, tmp_path):
    folder = tmp_path / "train" / "cats"
    folder.mkdir(parents=True)
    for number in range(4):
        shutil.copy(IMAGE, folder / f"{number}.jpg")
    (folder / "notes.txt").write_text("no image")
    told = _report(envkit, tmp_path, "--images", tmp_path / "train", "--repeats", "1", "--workers", "0,1")
    assert len(told.points) == 2
    assert told.profiles[bench.OWN].length == 4
    assert told.profiles[bench.OWN].cold_s > 0
    assert str(tmp_path) not in (tmp_path / "b.json").read_text()
    (tmp_path / "empty").mkdir()
    told = _report(envkit, tmp_path, "--images", tmp_path / "empty", "--repeats", "1", status=1)
    assert "no image files" in told.unmeasured[bench.OWN]


def test_what_hangs_or_dies_costs_its_own_points_only(torch_project, envkit, tmp_path):
    told = _report(envkit, tmp_path, "--dataset", f"{CASES}:killed_workers", "--repeats", "1", "--workers", "0,1")
    assert [point.workers for point in told.points] == [0]
    assert re.search("Killed|exited unexpectedly", told.unmeasured["own data, num_workers=1"])


def test_the_start_of_workers_is_kept_apart_from_their_steady_rate(torch_project, envkit, tmp_path):
    """Workers that import slowly cost each epoch their start, unless they stay; no batch of the steady state does."""
    told = _report(
        envkit, tmp_path, "--dataset", f"{SLOW}:spawned", "--workers", "1", "--repeats", "1", "--seconds", "0.5"
    )
    (point,) = told.points
    assert point.start_method == "spawn"
    assert point.first_batch_s > 1
    assert point.fresh_restart_s > 1
    assert point.fresh_restart_s > point.restart_s
    assert sum(point.waits_s) < len(point.waits_s)


def _left(before: set[Path]) -> set[Path]:
    """What has come into /dev/shm since."""
    return set(Path("/dev/shm").iterdir()) - before


def _children_of(text: str) -> list[psutil.Process]:
    found = psutil.process_iter(["cmdline"])
    return [one for one in found if text in " ".join(one.info["cmdline"] or ())]


def test_ctrl_c_keeps_what_was_measured_and_leaves_nothing(torch_project, tmp_path):
    shm = set(Path("/dev/shm").iterdir())
    python = Path(os.environ["ENVKIT_ENVS_PATH"]) / "t1" / "bin" / "python"
    words = ["bench", "--python", str(python), "--workload", "latency", "--workers", "0,2", "--repeats", "50"]
    # Tests that run in the background of a script inherit that Ctrl-C is ignored.
    start = "import os, signal, sys; signal.signal(2, signal.default_int_handler); os.execv(sys.argv[1], sys.argv[1:])"
    command = [sys.executable, "-c", start, ENVKIT, *words, "-v", "-o", str(tmp_path / "b.json")]
    child = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, env=os.environ)
    seen = 0
    for line in child.stderr:
        seen += "num_workers=2" in line
        if seen == 2:
            child.send_signal(signal.SIGINT)
            break
    child.stderr.read()
    assert child.wait(timeout=60) == 130
    seen_then = _left(shm)
    told = report.read(tmp_path / "b.json")
    assert told.interrupted is True
    assert {point.workers for point in told.points} == {0, 2}
    deadline = time.monotonic() + 10
    # Tests that run beside this one have workers too, and files there for a moment.
    while (_children_of(str(python)) or _left(shm)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert _children_of(str(python)) == []
    assert not (_left(shm) & seen_then)


def test_a_profile_of_threads_says_so():
    profile = json.loads('{"sample_s": [0.01], "mean_s": 0.01, "worker_s": 0.01, "sample_cpu_s": 0.04, "collate_s": 0}')
    from envkit.tuning import Profile

    told = msgspec.convert(profile | {"batch_bytes": 1, "tensors": 1}, Profile)
    assert any("4.0 cores" in note for note in speed._notes((), told))


def test_storage_is_named_where_a_cold_cache_makes_samples_slow():
    costs = {"sample_s": (0.002,), "mean_s": 0.002, "worker_s": 0.002, "sample_cpu_s": 0.002, "collate_s": 0.0}
    from envkit.tuning import Profile

    warm = Profile(**costs, batch_bytes=1, tensors=1, cold_s=0.0022)
    assert speed._notes((), warm) == ()
    (note,) = speed._notes((), msgspec.structs.replace(warm, cold_s=0.020))
    assert "10.0 times as long" in note
    assert "wait for storage" in note
