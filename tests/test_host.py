"""The machine and its driver: limits of control groups, and NVML through the real pynvml over a small C library."""

import json
import os
import shutil
import subprocess
import sys

import pytest

from envkit import host


def test_this_machine_is_described(tmp_path):
    told = host.describe(tmp_path)
    assert told.cores_logical == os.cpu_count()
    assert 1 <= told.cores_usable <= told.cores_logical
    assert told.memory_bytes > 1 << 28
    assert told.system == "Linux" or told.libc is None


@pytest.mark.parametrize(
    ("files", "cores", "quota"),
    [
        ({}, 8, None),
        ({"/sys/fs/cgroup/cpu.max": "max 100000"}, 8, "none"),
        ({"/sys/fs/cgroup/job/cpu.max": "200000 100000", "/sys/fs/cgroup/cpu.max": "max 100000"}, 2, 2.0),
        ({"/sys/fs/cgroup/cpu.max": "150000 100000"}, 2, 1.5),
        ({"/sys/fs/cgroup/cpu.max": "10000 100000"}, 1, 0.1),
        (
            {
                "v1": "",
                "/sys/fs/cgroup/cpu/cpu.cfs_quota_us": "300000",
                "/sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000",
            },
            3,
            3.0,
        ),
    ],
)
def test_usable_cores_are_affinity_cut_by_the_quota(files, cores, quota, monkeypatch):
    group = "4:cpu,cpuacct:/" if "v1" in files else "0::/job"
    monkeypatch.setattr(host, "_read", lambda path: {"/proc/self/cgroup": group, **files}.get(path))
    monkeypatch.setattr(host, "_affinity", lambda: 8)
    assert host.usable_cores() == cores
    assert host._cpu_quota() == quota


def test_a_memory_limit_that_is_not_set_is_told_from_one_that_cannot_be_read(monkeypatch):
    files = {"/proc/self/cgroup": "0::/"}
    monkeypatch.setattr(host, "_read", files.get)
    assert host._memory_limit() is None
    files["/sys/fs/cgroup/memory.max"] = "max"
    assert host._memory_limit() == "none"
    files["/sys/fs/cgroup/memory.max"] = "1048576"
    assert host._memory_limit() == 1048576


NVML = r"""
#include <string.h>
static int init = %(init)d;
int nvmlInit_v2(void) { return init; }
int nvmlInitWithFlags(unsigned flags) { return init; }
int nvmlShutdown(void) { return 0; }
const char *nvmlErrorString(int code) { return code == 18 ? "Driver/library version mismatch" : "no"; }
int nvmlSystemGetDriverVersion(char *text, unsigned size) { strncpy(text, "550.54.14", size); return 0; }
int nvmlSystemGetCudaDriverVersion_v2(int *version) { *version = 12040; return 0; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = %(count)d; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) {
  *device = (void *)(unsigned long)(index + 1); return 0; }
int nvmlDeviceGetName(void *device, char *name, unsigned size) { strncpy(name, "NVIDIA Test 4090", size); return 0; }
int nvmlDeviceGetCudaComputeCapability(void *device, int *major, int *minor) { *major = 8; *minor = 9; return 0; }
int nvmlDeviceGetMemoryInfo(void *device, unsigned long long *memory) {
  return %(memory)d ? 3 : (memory[0] = 25769803776ULL, 0); }
"""


def _driver(tmp_path, **answers):
    if shutil.which("gcc") is None:
        pytest.skip("NO gcc HERE to make the library that stands in for NVML")
    (tmp_path / "nvml.c").write_text(NVML % ({"init": 0, "count": 1, "memory": 0} | answers))
    library = tmp_path / "libnvidia-ml.so.1"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, tmp_path / "nvml.c"], check=True)
    return _ask({"LD_LIBRARY_PATH": str(tmp_path)})


def _ask(own):
    code = "import msgspec; from envkit import driver; print(msgspec.json.encode(driver.describe()).decode())"
    told = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ | own
    )
    return json.loads(told.stdout)


def test_a_driver_with_a_card_is_described(tmp_path):
    told = _driver(tmp_path, count=2)
    assert (told["state"], told["version"], told["cuda"]) == ("ok", "550.54.14", "12.4")
    assert told["gpus"][1] == {"name": "NVIDIA Test 4090", "memory_bytes": 25769803776, "capability": [8, 9]}


def test_what_a_card_does_not_tell_is_unknown(tmp_path):
    assert _driver(tmp_path, memory=1)["gpus"][0]["memory_bytes"] is None


def test_a_driver_that_does_not_fit_its_library_is_unreadable_not_absent(tmp_path):
    told = _driver(tmp_path, init=18)
    assert told["state"] == "unreadable"
    assert "mismatch" in told["reason"]


@pytest.mark.parametrize(("init", "state"), [(9, "absent"), (4, "unreadable")])
def test_a_driver_that_is_not_loaded_is_absent_and_one_that_forbids_is_not(init, state, tmp_path):
    assert _driver(tmp_path, init=init)["state"] == state


def test_create_auto_says_what_it_found_and_chose(tmp_path, envkit):
    words = ("create", "-n", "x", "-d", tmp_path / "p", "--stop-after", "spec", "--json")
    if shutil.which("gcc") is None:
        pytest.skip("NO gcc HERE to make the library that stands in for NVML")
    (tmp_path / "nvml.c").write_text(NVML % {"init": 0, "count": 1, "memory": 0})
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", tmp_path / "libnvidia-ml.so.1", tmp_path / "nvml.c"], check=True)
    told = json.loads(envkit(*words, environ={"LD_LIBRARY_PATH": str(tmp_path)}).stdout)
    assert "driver 550.54.14 runs CUDA up to 12.4: chose 12.9" in told["reasons"]
