"""The tuner: the model's candidates, what must fit, the choice among equals; and real races of short trials."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from tests_support import control_group

from envkit import tuning
from envkit.cli import tune_flow
from envkit.errors import InputError
from envkit.tuning import Machine, Outcome, Profile, Tried, setting

CASES = Path(__file__).parent / "data" / "datasets_that_people_write.py"
TWO = Machine(cores=2, memory_bytes=16 << 30, shm_bytes=8 << 30, open_files=1024)


def _profile(wall: float, cpu: float, collate: float = 0.0, batch_bytes: int = 1 << 20, tensors: int = 2) -> Profile:
    return Profile(
        sample_s=(wall,) * 4,
        mean_s=wall,
        worker_s=wall,
        sample_cpu_s=cpu,
        collate_s=collate,
        batch_bytes=batch_bytes,
        tensors=tensors,
    )


def _counts(profile: Profile, machine: Machine = TWO, step_s: float = 0.0) -> list[int]:
    most = tuning.most_workers(profile, machine, None)[0]
    consumed = msgspec.structs.replace(profile, step_s=step_s)
    return [one.num_workers for one in tuning.candidates(consumed, machine, 8, most)]


def test_waiting_samples_get_many_workers_and_computing_ones_as_many_as_cores():
    waiting, computing = _profile(0.010, 0.0001), _profile(0.005, 0.005)
    cheap = msgspec.structs.replace(_profile(5e-6, 5e-6), moved_s=200e-6)
    assert max(_counts(waiting)) == 8
    assert max(_counts(computing)) == 2
    assert _counts(cheap) == [0]
    many = Machine(cores=128, memory_bytes=1 << 40, shm_bytes=1 << 38, open_files=1 << 20)
    assert 128 in _counts(computing, many)


def test_a_consumer_asks_for_no_more_workers_than_hide_the_loading():
    waiting = _profile(0.010, 0.0001)
    assert {1, 2} <= set(_counts(waiting, step_s=0.080))
    tried = [Tried(setting=setting(count, 8), samples_per_s=(min(count * 100.0, 400.0),) * 2) for count in (1, 2, 4, 8)]
    assert tuning.choose(tried, step_s=0.080).setting.num_workers == 1
    assert tuning.choose(tried, step_s=0.040).setting.num_workers == 2
    assert tuning.choose(tried, step_s=0.0).setting.num_workers == 4


def test_the_limit_is_workers_over_latency_or_cores_over_computing():
    def told(profile: Profile, workers: int) -> tuple[float, str]:
        found = tuning.limit(profile, TWO, workers, 8)
        return round(found.samples_per_s), found.by

    assert told(_profile(0.010, 0.0), 4) == (400, "workers over latency")
    assert told(_profile(0.010, 0.010), 4) == (200, "cores over computing")
    assert told(_profile(0.010, 0.010), 0) == (100, "one process")
    large = msgspec.structs.replace(_profile(1e-6, 1e-6, batch_bytes=80_000_000), copied_bytes_per_s=1e9)
    assert told(large, 4) == (200, "memory bandwidth")
    assert told(msgspec.structs.replace(_profile(0.010, 0.0), step_s=0.1), 4) == (80, "the consumer")


@pytest.mark.parametrize(
    ("machine", "profile", "most", "said"),
    [
        ({"shm_bytes": 16 << 20}, {"batch_bytes": 4 << 20}, 1, "/dev/shm: two batches of 4.2 MB per worker in 16 MiB"),
        ({"open_files": 128}, {"tensors": 20}, 2, "open files: 20 tensors per batch, 128 files"),
        ({"open_files": 128}, {"tensors": 20, "open_files": 30}, 1, "no more than 1 worker, for open files"),
        ({"open_files": 128}, {"tensors": 40}, 0, "no more than 0 workers, for open files"),
        ({"memory_bytes": 1 << 30}, {}, 3, "memory: a worker takes 200 MiB"),
    ],
)
def test_what_does_not_fit_is_said_with_the_reason(machine, profile, most, said):
    here = msgspec.structs.replace(TWO, **machine)
    what = msgspec.structs.replace(_profile(0.01, 0.0), **profile)
    found, why = tuning.most_workers(what, here, 200 << 20)
    assert found == most
    assert any(said in line for line in why)


def test_among_equals_the_fewest_workers_win_and_a_failure_never_does():
    rates = {2: (98.0, 99.0), 4: (100.0, 100.0), 8: (101.0, 99.0)}
    tried = [Tried(setting=setting(count, 8), samples_per_s=rate) for count, rate in rates.items()]
    assert tuning.choose(tried, 0.0).setting.num_workers == 2
    broken = Tried(setting=setting(1, 8), samples_per_s=(500.0,), failures=("killed by SIGKILL",))
    assert tuning.choose([*tried, broken], 0.0).setting.num_workers == 2


def test_a_gain_within_noise_is_no_gain():
    present = Tried(setting=setting(2, 8), samples_per_s=(100.0, 110.0, 90.0))
    same = Tried(setting=setting(4, 8), samples_per_s=(104.0, 96.0, 108.0))
    faster = Tried(setting=setting(8, 8), samples_per_s=(200.0, 205.0, 195.0))
    assert tuning.gain(present, same).answer != "better"
    assert tuning.gain(present, faster).answer == "better"
    assert tuning.gain(present, present) is None


def test_trials_of_one_setting_are_kept_raw():
    one = setting(2, 8)
    raw = {"batches": 9, "total_s": 1.0, "wait_s": 0.4, "waits_s": (0.4,), "start_s": 0.01, "first_batch_s": 0.1}
    outcome = Outcome(samples_per_s=50.0, batch_bytes=1, tensors=1, **raw)
    known = {one: tuning.merged({}, one, outcome)}
    again = tuning.merged(known, one, msgspec.structs.replace(outcome, samples_per_s=60.0))
    assert again.samples_per_s == (50.0, 60.0)
    assert again.wait_share == pytest.approx(0.4)
    assert tuning.merged(known, one, "killed by SIGSEGV").failures == ("killed by SIGSEGV",)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "what shall be tuned"),
        ({"dataset": "a.py:f", "workload": "tiny"}, "what shall be tuned"),
        ({"workload": "nonsense"}, "no such workload"),
        ({"workload": "tiny", "budget": "soon"}, "is no time"),
        ({"dataset": "no-such.py:f"}, "no such file"),
        ({"workload": "tiny", "model": "resnet"}, "no such model"),
        ({"workload": "tiny", "model": "cnn", "step_ms": 4.0}, "not both"),
    ],
)
def test_what_cannot_be_tuned_is_refused(options, said):
    usual = {"dataset": None, "loader": None, "workload": None, "batch_size": None, "step_ms": 0.0, "model": None}
    with pytest.raises(InputError, match=said):
        tune_flow.wish(**(usual | {"budget": "60s", "timeout": 30.0} | options))


def test_ranks_on_one_machine_share_its_cores(monkeypatch):
    alone = tune_flow.machine().cores
    monkeypatch.setenv("LOCAL_WORLD_SIZE", str(alone))
    assert tune_flow.machine().cores == 1


# --- real races ---


def _tuned(envkit, *words, **options) -> dict:
    return json.loads(envkit("tune", "-n", "t1", "--json", "-q", *words, **options).stdout)


def test_waiting_samples_are_loaded_by_many_workers(torch_project, envkit):
    told = _tuned(envkit, "--workload", "latency", "--batch-size", "8")
    assert told["arguments"]["num_workers"] >= 4
    assert told["keep"] is False
    assert told["gain"]["answer"] == "better"
    assert "num_workers=" in told["python"]
    assert 0.3 < told["throughput"]["share"] <= 1.2
    assert all(one["samples_per_s"] for one in told["tried"])


def test_with_a_slow_consumer_few_workers_are_enough(torch_project, envkit):
    told = _tuned(envkit, "--workload", "latency", "--batch-size", "8", "--step-ms", "100", "--budget", "1s")
    assert told["arguments"]["num_workers"] <= 3


def test_tiny_samples_are_best_loaded_without_workers(torch_project, envkit):
    told = _tuned(envkit, "--workload", "tiny", "--budget", "1s")
    assert told["arguments"]["num_workers"] == 0
    assert told["keep"] is True


def test_one_core_makes_another_plan_than_two(torch_project, envkit):
    if shutil.which("taskset") is None:
        pytest.skip("NO taskset HERE")
    command = ["taskset", "-c", "0", str(Path(sys.executable).parent / "envkit"), "tune", "-n", "t1", "--json", "-q"]
    told = subprocess.run(
        [*command, "--workload", "cpu", "--budget", "1s"], capture_output=True, text=True, env=os.environ, check=True
    )
    answer = json.loads(told.stdout)
    assert answer["arguments"]["num_workers"] <= 1
    assert answer["throughput"]["limit"]["samples_per_s"] < 1.3 * min(one["predicted"] for one in answer["tried"])


def test_the_users_loader_is_tuned_with_its_collate_function(torch_project, envkit):
    told = _tuned(envkit, "--loader", f"{CASES}:slow_loader")
    present = {name: value for name, value in told["present"].items() if value}
    assert present == {
        "num_workers": 1,
        "prefetch_factor": 2,
        "batch_size": 4,
    }
    assert told["arguments"]["num_workers"] > 1
    assert told["arguments"]["batch_size"] == 4


def test_a_dataset_that_fails_hangs_or_is_small_gets_an_answer(torch_project, envkit):
    hung = envkit("tune", "-n", "t1", "--dataset", f"{CASES}:slow_worker_deadlock", "--timeout", "4", "--json", "-q")
    answer = json.loads(hung.stdout)
    assert answer["arguments"]["num_workers"] == 0
    reasons = [reason for one in answer["tried"] for reason in one["failures"]]
    assert any(re.search(r"took too long .*datasets_that_people_write.py:\d+, in _lock_twice", one) for one in reasons)
    broken = _tuned(envkit, "--dataset", f"{CASES}:a_broken_sample", "--budget", "1s")
    assert any("could not be read (ValueError: bad file) and passed over" in note for note in broken["notes"])
    assert broken["arguments"]["num_workers"] == 0
    nothing = envkit("tune", "-n", "t1", "--dataset", f"{CASES}:nothing_readable", "-q", status=2).stderr
    assert "the samples cannot be read: ValueError: bad file" in nothing
    assert "envkit probe --dataset says what is wrong" in nothing
    small = _tuned(envkit, "--dataset", f"{CASES}:healthy", "--batch-size", "64", "--budget", "1s")
    assert small["arguments"]["num_workers"] == 0


def test_samples_that_fail_only_in_forked_workers_get_another_start_method(torch_project, envkit):
    told = _tuned(envkit, "--dataset", f"{CASES}:not_in_a_fork")
    assert told["arguments"]["num_workers"] > 1
    assert told["arguments"]["start_method"] == "spawn"
    assert 'multiprocessing_context="spawn"' in told["python"]
    assert any("started anew (spawn)" in note for note in told["notes"])


def test_the_way_in_which_the_user_starts_workers_is_kept(torch_project, envkit):
    told = _tuned(envkit, "--dataset", f"{CASES.parent / 'slow_to_import.py'}:spawned", "--budget", "1s")
    methods = {one["setting"]["start_method"] for one in told["tried"] if one["setting"]["num_workers"]}
    assert methods == {"spawn"}
    assert told["keep"] is True
    assert any("the time was up before num_workers=" in note for note in told["notes"])
    assert 'multiprocessing_context="spawn"' in told["python"]


def test_a_sample_that_fails_later_than_the_profile_looked_costs_nothing_but_a_note(torch_project, envkit):
    told = _tuned(envkit, "--dataset", f"{CASES}:rarely_broken", "--batch-size", "512")
    assert told["arguments"]["num_workers"] == 0
    assert any("bad file" in note and "passed over" in note for note in told["notes"])
    assert all(one["failures"] == [] for one in told["tried"])


def test_libraries_that_start_threads_in_every_worker_are_tried_with_one():
    threaded = _profile(0.010, 0.020)
    assert tuning.threads_worth_a_trial(threaded)
    assert not tuning.threads_worth_a_trial(_profile(0.010, 0.010))


def test_pinned_memory_is_for_copies_to_a_gpu_that_computes():
    assert tuning.pins(_profile(0.01, 0.0)) is False
    copies = {"pageable_computing_s": 0.010, "pinned_computing_s": 0.006}
    assert tuning.pins(msgspec.structs.replace(_profile(0.01, 0.0), device=copies)) is True
    copies["pinned_computing_s"] = 0.0099
    assert tuning.pins(msgspec.structs.replace(_profile(0.01, 0.0), device=copies)) is False


@pytest.mark.gpu
def test_copies_to_the_gpu_are_measured_from_ordinary_and_from_pinned_memory(torch_project, envkit, tmp_path):
    envkit("bench", "-n", "t1", "--workload", "memmap", "--repeats", "1", "-o", tmp_path / "b.json")
    device = json.loads((tmp_path / "b.json").read_text())["profiles"]["memmap"]["device"]
    assert device["pinned_s"] > 0
    assert device["pageable_s"] > 0


# --- under real limits ---


def _under(before: str, *words) -> dict:
    """envkit in a shell that has set a limit for itself."""
    command = " ".join(
        ["exec", str(Path(sys.executable).parent / "envkit"), "tune -n t1 --json -q --batch-size 8", *words]
    )
    told = subprocess.run(["sh", "-c", f"{before}; {command}"], capture_output=True, text=True, env=os.environ)
    assert told.returncode == 0, told.stderr
    return json.loads(told.stdout)


def test_few_open_files_leave_room_for_few_workers_and_that_is_said(torch_project):
    told = _under("ulimit -n 128", "--dataset", f"{CASES}:many_tensors")
    assert told["arguments"]["num_workers"] == 2
    assert any(
        "no more than 2 workers, for open files: 14 tensors per batch, 128 files" in one for one in told["notes"]
    )


def test_a_small_dev_shm_leaves_room_for_few_workers_and_that_is_said(torch_project):
    mounted = "mount -t tmpfs -o size=16m tmpfs /dev/shm"
    if os.getuid() or subprocess.run(["unshare", "-m", "sh", "-c", mounted], capture_output=True).returncode:
        pytest.skip("NO MOUNT NAMESPACE HERE: a small /dev/shm needs root and unshare")
    words = ["unshare", "-m", "sh", "-c", f'{mounted} && exec "$@"', "sh", "sh", "-c"]
    envkit = Path(sys.executable).parent / "envkit"
    words.append(f"{envkit} tune -n t1 --json -q --batch-size 8 --dataset {CASES}:half_a_megabyte")
    told = json.loads(subprocess.run(words, capture_output=True, text=True, env=os.environ, check=True).stdout)
    assert told["arguments"]["num_workers"] <= 1
    assert max(one["setting"]["num_workers"] for one in told["tried"]) <= 1
    assert any(
        "no more than 1 worker, for /dev/shm: two batches of 4.2 MB per worker in 16 MiB" in one
        for one in told["notes"]
    )


def test_a_quota_of_one_core_is_seen_and_kept_to(torch_project):
    with control_group("cpu", "cpu.cfs_quota_us", 100000) as tasks:
        told = _under(f"echo $$ > {tasks}", "--workload cpu --budget 20s")
    assert told["arguments"]["num_workers"] <= 1
    assert told["throughput"]["limit"]["samples_per_s"] < 1.4 * min(one["predicted"] for one in told["tried"])


def test_a_batch_size_is_found_within_a_limit_of_memory(torch_project):
    words = ["--workload memmap --model cnn --tune-batch --budget 60s --batch-size 64"]
    told = _under("ulimit -v 1800000", *words)
    sizes = {one["batch_size"]: one["attempts"] for one in told["tried"]}
    assert told["batch_size"] <= told["largest"] == max(size for size, seen in sizes.items() if seen[0]["fits"])
    refused = [seen[0]["reason"] for size, seen in sizes.items() if not seen[0]["fits"]]
    assert refused
    assert all("memory" in reason for reason in refused), refused
    assert len(sizes[told["largest"]]) >= 2
