"""The machine and its driver: limits of control groups, and NVML through the real pynvml over a small C library."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from envkit import driver, host


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
#include <unistd.h>
typedef struct {
  const char *name, *uuid; int major, minor; unsigned long long memory; int mig, instances, persistence; } card;
static card cards[] = { %(cards)s {0} };
#define CARD ((card *)device)
int nvmlInit_v2(void) { if (%(hangs)d) sleep(60); return %(init)d; }
int nvmlInitWithFlags(unsigned flags) { return nvmlInit_v2(); }
int nvmlShutdown(void) { return 0; }
const char *nvmlErrorString(int code) { return code == 18 ? "Driver/library version mismatch" : "no"; }
int nvmlSystemGetDriverVersion(char *text, unsigned size) { strncpy(text, "%(driver)s", size); return 0; }
int nvmlSystemGetCudaDriverVersion_v2(int *version) { *version = %(cuda)d; return 0; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = %(count)d; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) { *device = &cards[index]; return 0; }
int nvmlDeviceGetName(void *device, char *name, unsigned size) { strncpy(name, CARD->name, size); return 0; }
int nvmlDeviceGetUUID(void *device, char *uuid, unsigned size) { strncpy(uuid, CARD->uuid, size); return 0; }
int nvmlDeviceGetCudaComputeCapability(void *device, int *major, int *minor) {
  *major = CARD->major; *minor = CARD->minor; return 0; }
int nvmlDeviceGetMemoryInfo(void *device, unsigned long long *memory) {
  if (!CARD->memory) return 3; memory[0] = CARD->memory; return 0; }
int nvmlDeviceGetMigMode(void *device, unsigned *now, unsigned *pending) {
  if (CARD->mig < 0) return 3; *now = *pending = CARD->mig; return 0; }
int nvmlDeviceGetMaxMigDeviceCount(void *device, unsigned *count) { *count = 7; return 0; }
int nvmlDeviceGetMigDeviceHandleByIndex(void *device, unsigned index, void **instance) {
  if ((int)index >= CARD->instances) return 6; *instance = device; return 0; }
int nvmlDeviceGetPersistenceMode(void *device, unsigned *mode) { *mode = CARD->persistence; return 0; }
int nvmlDeviceGetUtilizationRates(void *device, unsigned *rates) { rates[0] = 37; rates[1] = 5; return 0; }
"""
CARDS = {
    "GTX 1080": (6, 1),
    "RTX 3090": (8, 6),
    "RTX 4090": (8, 9),
    "H200": (9, 0),
    "RTX 5090": (12, 0),
}


def _card(name: str, index: int, *, memory: int = 24 << 30, mig: int = -1, instances: int = 0) -> str:
    major, minor = CARDS[name]
    return f'{{"NVIDIA {name}", "GPU-{index}-uuid", {major}, {minor}, {memory}ULL, {mig}, {instances}, 1}},'


@pytest.fixture
def nvml(tmp_path):
    """Build a library that stands in for NVML, as a description says, and the variables that make pynvml load it."""
    if shutil.which("gcc") is None:
        pytest.skip("NO gcc HERE to make the library that stands in for NVML")

    def make(*cards: str, driver="550.54.14", cuda=12040, init=0, hangs=0, **options) -> dict[str, str]:
        described = "".join(_card(name, index, **options) for index, name in enumerate(cards))
        fields = {"cards": described, "driver": driver, "cuda": cuda, "init": init, "hangs": hangs, "count": len(cards)}
        (tmp_path / "nvml.c").write_text(NVML % fields)
        library = tmp_path / "libnvidia-ml.so.1"
        subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, tmp_path / "nvml.c"], check=True)
        return {"LD_LIBRARY_PATH": str(tmp_path)}

    return make


def _ask(own):
    code = "import msgspec; from envkit import driver; d = driver.describe();"
    code += "print(msgspec.json.encode([d, d.oldest]).decode())"
    told = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ | own
    )
    return json.loads(told.stdout)


def test_without_a_driver_it_is_absent():
    if Path("/proc/driver/nvidia/version").exists():
        pytest.skip("THERE IS A DRIVER HERE")
    assert _ask({})[0]["state"] == "absent"


@pytest.mark.parametrize(
    ("driver", "cuda", "shown", "template"),
    [
        ("418.87", 10010, "10.1", "cpu"),
        ("450.80.02", 11000, "11.0", "11.8"),
        ("515.65.01", 11070, "11.7", "11.8"),
        ("525.60.13", 12000, "12.0", "12.9"),
        ("550.54.14", 12040, "12.4", "12.9"),
        ("580.65.06", 13000, "13.0", "13.0"),
    ],
)
def test_drivers_from_418_to_580_are_told_with_what_they_run(driver, cuda, shown, template, nvml, envkit):
    told = json.loads(envkit("host", "--json", environ=nvml("RTX 3090", driver=driver, cuda=cuda)).stdout)
    assert (told["driver"]["version"], told["driver"]["cuda"], told["runs"]) == (driver, shown, template)


def test_a_card_is_described(nvml):
    told, oldest = _ask(nvml("RTX 4090"))
    assert told["gpus"][0] == {
        "name": "NVIDIA RTX 4090",
        "uuid": "GPU-0-uuid",
        "memory_bytes": 24 << 30,
        "capability": [8, 9],
        "mig": None,
        "mig_instances": None,
        "persistence": True,
        "utilisation_percent": 37,
    }
    assert oldest == [8, 9]


def test_of_different_cards_the_oldest_architecture_decides(nvml):
    assert _ask(nvml("RTX 5090", "GTX 1080"))[1] == [6, 1]


@pytest.mark.parametrize(
    ("value", "visible", "oldest"),
    [("0", [0], [12, 0]), ("1,0", [1, 0], [6, 1]), ("GPU-1", [1], [6, 1]), ("", [], None), ("0,7,1", [0], [12, 0])],
)
def test_cuda_visible_devices_chooses_by_number_or_uuid(value, visible, oldest, nvml):
    told = _ask(nvml("RTX 5090", "GTX 1080") | {"CUDA_VISIBLE_DEVICES": value})
    assert (told[0]["visible"], told[1]) == (visible, oldest)


def test_mig_is_told_with_its_instances(nvml):
    gpu = _ask(nvml("H200", mig=1, instances=3))[0]["gpus"][0]
    assert (gpu["mig"], gpu["mig_instances"]) == (True, 3)


def test_what_a_card_does_not_tell_is_unknown(nvml):
    assert _ask(nvml("RTX 3090", memory=0))[0]["gpus"][0]["memory_bytes"] is None


@pytest.mark.parametrize(("init", "state"), [(18, "mismatch"), (9, "absent"), (4, "unreadable"), (999, "unreadable")])
def test_each_way_in_which_nvml_fails_is_its_own_state(init, state, nvml):
    assert _ask(nvml("RTX 3090", init=init))[0]["state"] == state


def test_a_driver_without_a_card_is_no_absent_driver(nvml):
    told = _ask(nvml())[0]
    assert (told["state"], told["version"]) == ("no-devices", "550.54.14")


def test_a_driver_that_hangs_is_left_after_a_while(nvml, monkeypatch):
    own = nvml("RTX 3090", hangs=1)
    monkeypatch.setenv("LD_LIBRARY_PATH", own["LD_LIBRARY_PATH"])
    monkeypatch.setattr(driver, "_TIMEOUT_S", 1.0)
    assert driver.describe().state == "hangs"


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC 2023", "535.104.05"),
        ("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.54.14  Release Build", "550.54.14"),
        ("nothing", None),
    ],
)
def test_the_kernel_module_tells_its_version(text, version, tmp_path, monkeypatch):
    (tmp_path / "version").write_text(text)
    monkeypatch.setattr(driver, "_KERNEL_MODULE", tmp_path / "version")
    assert driver._kernel_version() == version


def test_a_report_names_no_card_by_its_uuid():
    told = driver.Driver(state="ok", gpus=(driver.Gpu(name="x", uuid="GPU-secret", utilisation_percent=3),))
    assert driver.public(told).gpus == (driver.Gpu(name="x"),)


def test_create_auto_says_what_it_found_and_chose(nvml, tmp_path, envkit):
    words = ("create", "-n", "x", "-d", tmp_path / "p", "--stop-after", "spec", "--json")
    told = json.loads(envkit(*words, environ=nvml("RTX 3090")).stdout)
    assert "driver 550.54.14 runs CUDA up to 12.4, NVIDIA RTX 3090: chose 12.9" in told["reasons"]


def test_host_says_what_this_machine_is(envkit):
    assert "cores usable" in envkit("host").stdout
