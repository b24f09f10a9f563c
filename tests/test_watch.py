"""Watching a training job: real toy trainings, each with its verdict; and verdicts from samples that no machine here
can give.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import psutil
import pytest
from test_host import nvml  # noqa: F401
from tests_support import control_group

from envkit import processes, verdict, watch, watching
from envkit.driver import Meter, Use
from envkit.errors import InputError
from envkit.verdict import Ending, Machine
from envkit.watching import Sample, Slow, Worker

TRAIN = Path(__file__).parent / "data" / "train.py"
ENVKIT = str(Path(sys.executable).parent / "envkit")


def _watched(envkit, kind, *words, seconds=6, status=0):
    told = envkit("watch", "-n", "t1", "--json", *words, "--", "python", TRAIN, kind, seconds, status=status)
    return json.loads(told.stdout)


def _names(told) -> list[str]:
    return [one["name"] for one in told["verdicts"]]


@pytest.mark.parametrize(
    ("kind", "expected", "shown"),
    [
        ("starved-waiting", "too-few-workers", "the main process waits for batches"),
        ("starved-computing", "cpu-bound-loading", "2 workers"),
        ("balanced", "balanced", "the workers wait for orders"),
        ("compute-bound", "compute-bound", "the workers wait for orders"),
        ("one-core", "one-core", "may run on 1 of"),
    ],
)
def test_a_toy_training_gets_its_verdict_with_the_evidence(kind, expected, shown, torch_project, envkit):
    if expected == "one-core" and len(os.sched_getaffinity(0)) < 2:
        pytest.skip("ONE CORE HERE")
    told = _watched(envkit, kind)
    assert _names(told) == [expected]
    assert any(shown in line for line in told["verdicts"][0]["evidence"])
    assert told["status"] == 0
    assert told["summary"]["samples"] > 15


def test_memory_that_grows_is_told_beside_what_slows_the_job(torch_project, envkit):
    told = _watched(envkit, "growing", seconds=16)
    assert _names(told) == ["memory-growth", "too-few-workers"]
    assert told["summary"]["growth_bytes_per_s"] > 4e6


def test_a_worker_that_the_memory_limit_kills_is_told_as_such(torch_project):
    words = f"{ENVKIT} watch -n t1 --json -- python {TRAIN} hungry 30"
    with control_group("memory", "memory.limit_in_bytes", 600 << 20) as tasks:
        command = ["sh", "-c", f"echo $$ > {tasks}; exec {words}"]
        told = subprocess.run(command, capture_output=True, text=True, env=os.environ)
    assert told.returncode == 1, told.stderr
    first = json.loads(told.stdout)["verdicts"][0]
    assert first["name"] == "killed-by-memory-limit"
    assert "no fault of the DataLoader" in first["next"]


def test_a_job_without_workers_is_judged_by_its_stack(torch_project, envkit):
    told = _watched(envkit, "alone", seconds=10)
    assert _names(told)[0] in ("no-workers", "unclear")
    assert told["summary"]["stacks"] >= 3


def test_a_hang_is_told_with_the_stacks_of_main_and_workers(torch_project, envkit):
    told = _watched(envkit, "deadlocked", "--hang-after", "4s", seconds=60, status=1)
    assert _names(told)[0] == "hang"
    frames = [frame for stack in told["stacks"] for frame in stack["frames"]]
    assert any("in deadlocked" in frame for frame in frames)
    assert any("_try_get_data" in frame for frame in frames)
    assert not _running(f"{TRAIN} deadlocked")


def test_the_exit_status_is_the_commands(torch_project, envkit):
    told = _watched(envkit, "killed", status=137)
    assert "died" in _names(told)
    text = envkit("watch", "--", "sh", "-c", "sleep 0.5; exit 3", status=3).stdout
    assert "exit status 3" in text


def _running(text: str) -> list[psutil.Process]:
    found = psutil.process_iter(["cmdline", "status"])
    return [one for one in found if text in " ".join(one.info["cmdline"] or ()) and one.info["status"] != "zombie"]


def test_a_process_that_runs_already_is_watched_and_left_alone(torch_project, envkit):
    python = Path(os.environ["ENVKIT_ENVS_PATH"]) / "t1" / "bin" / "python"
    child = subprocess.Popen([python, TRAIN, "starved-waiting", "60"])
    try:
        time.sleep(2)
        told = json.loads(envkit("watch", "--pid", child.pid, "--duration", "5s", "--json").stdout)
        assert _names(told) == ["too-few-workers"]
        assert told["status"] is None
        assert child.poll() is None
    finally:
        child.kill()
        child.wait()


def test_ctrl_c_ends_the_command_and_keeps_the_verdict(torch_project, tmp_path):
    start = "import os, signal, sys; signal.signal(2, signal.default_int_handler); os.execv(sys.argv[1], sys.argv[1:])"
    words = ["watch", "-n", "t1", "-o", str(tmp_path / "w.json"), "--", "python", str(TRAIN), "starved-waiting", "61"]
    child = subprocess.Popen([sys.executable, "-c", start, ENVKIT, *words], start_new_session=True, env=os.environ)
    time.sleep(8)
    os.killpg(child.pid, signal.SIGINT)
    assert child.wait(timeout=30) == 130
    told = json.loads((tmp_path / "w.json").read_text())
    assert told["interrupted"] is True
    assert _names(told) == ["too-few-workers"]
    deadline = time.monotonic() + 10
    while _running(f"{TRAIN} starved-waiting 61") and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not _running(f"{TRAIN} starved-waiting 61")


def test_what_cannot_be_watched_is_refused(envkit):
    assert "what shall be watched" in envkit("watch", status=2).stderr
    assert "no such process" in envkit("watch", "--pid", "4194000", status=2).stderr
    assert "no such program" in envkit("watch", "--", "no-such-program-here", status=2).stderr
    assert "is no time" in envkit("watch", "--duration", "soon", "--", "true", status=2).stderr
    with pytest.raises(InputError):
        watch.attach(4194000)


# --- verdicts from samples ---


def _slow(**more) -> Slow:
    usual = {"pss_bytes": 1 << 28, "workers_own_bytes": 1 << 27, "open_files": 40, "open_files_limit": 1024}
    usual |= {"disk_read_bytes": 0, "network_bytes": 0, "shm_bytes": 0, "shm_limit_bytes": 1 << 30, "pressure_s": {}}
    return Slow(**(usual | more))


def _samples(count=40, *, main="runs", main_cores=1.0, doing="queue", cores=0.1, workers=2, **more):
    slow, threads = more.pop("slow", None), more.pop("threads", None)
    one = Worker(pid=9, cores=cores, doing=doing, running_threads=threads)
    return [
        Sample(
            at_s=number * 0.2,
            main_cores=main_cores,
            main_doing=main,
            workers=(one,) * workers,
            slow=slow(number) if slow else _slow(),
            **more,
        )
        for number in range(count)
    ]


def _told(samples, *, cores=8, worker_cores=None, **ending) -> list[str]:
    machine = Machine(cores=cores, worker_cores=worker_cores)
    found = verdict.verdicts(watching.summarise(samples), machine, Ending(**ending), hang_s=5.0)
    assert all(one.sentence and one.evidence for one in found)
    return [one.name for one in found]


COPYING = Use(utilisation_percent=50, received_bytes_per_s=24e9, link_bytes_per_s=31e9)
GPU_IDLE, GPU_BUSY = Use(utilisation_percent=20), Use(utilisation_percent=95)


@pytest.mark.parametrize(
    ("expected", "samples"),
    [
        ("gpu-bound", _samples(gpus=(GPU_BUSY,))),
        (
            "host-to-device",
            _samples(gpus=(COPYING,)),
        ),
        ("main-process", _samples(gpus=(GPU_IDLE,))),
        ("pinning", _samples(gpus=(GPU_IDLE,), main_cores=0.9, slow=lambda n: _slow(pinning_cores=0.95))),
        ("storage", _samples(main="queue", main_cores=0.1, doing="disk")),
        ("storage", _samples(main="queue", main_cores=0.1, doing="network")),
        ("too-few-workers", _samples(main="queue", main_cores=0.1, doing="runs", cores=1.0)),
        ("too-few-workers", _samples(main="lock", doing="sleeps", slow=lambda n: _slow(pinning_cores=0.1))),
        ("cpu-bound-loading", _samples(main="queue", doing="runs", cores=1.0, workers=8)),
        ("cpu-bound-loading", _samples(main="queue", doing="runs", cores=0.4)),
        ("threads", _samples(main="queue", doing="runs", cores=2.0, workers=8, threads=4)),
        ("compute-bound", _samples()),
        ("balanced", _samples(doing="runs", cores=0.9)),
        ("unclear", _samples(count=3)),
        ("unclear", _samples(workers=0)),
        ("no-workers", _samples(workers=0, slow=lambda n: _slow(loading_in_main=1.0))),
        ("compute-bound", _samples(workers=0, slow=lambda n: _slow(loading_in_main=0.0))),
        ("unclear", _samples(12, workers=0, slow=lambda n: _slow(loading_in_main=None if n % 2 else 0.0))),
    ],
)
def test_samples_come_to_one_verdict(expected, samples):
    assert _told(samples) == [expected]


def test_dangers_come_before_what_slows():
    assert _told(_samples(slow=lambda n: _slow(shm_bytes=900 << 20))) == ["shm", "compute-bound"]
    assert _told(_samples(slow=lambda n: _slow(open_files=1000))) == ["open-files", "compute-bound"]
    assert _told(_samples(slow=lambda n: _slow(pss_bytes=(1 << 28) + n * (10 << 20)))) == [
        "memory-growth",
        "compute-bound",
    ]
    sawtooth = _samples(slow=lambda n: _slow(pss_bytes=(1 << 28) + n % 5 * (20 << 20)))
    assert _told(sawtooth) == ["compute-bound"]


def test_a_kill_by_the_memory_limit_is_no_fault_of_the_loader():
    assert _told(_samples(), status=-9, oom_kills=1)[0] == "killed-by-memory-limit"
    assert _told(_samples(), status=-9)[0] == "died"
    assert _told(_samples(), status=0) == ["compute-bound"]


def test_only_what_is_not_asleep_on_purpose_hangs():
    still = {"main_cores": 0.0, "cores": 0.0}
    assert _told(_samples(main="queue", doing="lock", **still)) == ["hang"]
    assert "hang" not in _told(_samples(main="sleeps", doing="lock", **still))
    assert "hang" not in _told(_samples(main="queue", doing="sleeps", **still))
    assert "hang" not in _told(_samples(main="lock", doing="queue", gpus=(GPU_BUSY,), **still))


def test_workers_are_found_by_name_by_their_command_line_and_through_the_fork_server():
    def seen(pid, parent, name="python"):
        return processes.Process(pid=pid, parent=parent, name=name, state="S", cpu_s=0, threads=1, core=0, started=1)

    own, anew = "python train.py", "python -c from multiprocessing.spawn import spawn_main; spawn_main()"
    commands = {
        1: own,
        2: own,
        3: anew,
        4: "python -c from multiprocessing.resource_tracker import main",
        5: "ffmpeg x",
    }
    assert processes.worker_of(seen(2, 1), commands) == 1
    assert processes.worker_of(seen(3, 1), commands) == 1
    assert processes.worker_of(seen(4, 1), commands) is None
    assert processes.worker_of(seen(5, 1), commands) is None
    assert processes.worker_of(seen(5, 1, "pt_data_worker"), commands) == 1
    assert processes.worker_of(seen(1, 77), commands) is None


def test_what_a_process_is_at_is_seen_in_its_system_call(tmp_path):
    code = "import time, sys; print(flush=True); time.sleep(60)"
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    try:
        child.stdout.readline()
        time.sleep(0.2)
        assert processes.doing(child.pid) == "sleeps"
        assert processes.holdings(child.pid).files >= 3
        assert child.pid in processes.tree(os.getpid())
    finally:
        child.kill()
        child.wait()
    assert processes.look(4194000) is None
    assert processes.doing(4194000) == "unknown"
    assert processes.holdings(4194000) is None


def test_the_cards_are_read_through_nvml_again_and_again(nvml, monkeypatch):  # noqa: F811
    for name, value in nvml("RTX 3090", driver="535.54.03", cuda=12020).items():
        monkeypatch.setenv(name, value)
    meter = Meter(0.1)
    try:
        deadline = time.monotonic() + 10
        while not meter.read() and time.monotonic() < deadline:
            time.sleep(0.05)
        (card,) = meter.read()
        assert isinstance(card.memory_bytes, int)
    finally:
        meter.close()


def test_without_nvml_the_meter_says_nothing():
    meter = Meter(0.1)
    try:
        time.sleep(0.5)
        assert meter.read() == () or Path("/proc/driver/nvidia/version").exists()
    finally:
        meter.close()


def test_the_record_is_one_json_document():
    sample = _samples(count=1)[0]
    assert msgspec.json.decode(msgspec.json.encode(sample), type=Sample) == sample
