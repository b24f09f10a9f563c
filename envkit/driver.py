"""The NVIDIA driver and its GPUs, asked through NVML. The only module that imports pynvml.

NVML is asked in a child process: a driver in trouble can hang or kill whoever asks it.
"""

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec

State = Literal["ok", "absent", "no-devices", "mismatch", "hangs", "unreadable"]
T = TypeVar("T")

_TIMEOUT_S = 10.0
_KERNEL_MODULE = Path("/proc/driver/nvidia/version")
_JETSON = Path("/etc/nv_tegra_release")
_WSL_LIBRARIES = Path("/usr/lib/wsl/lib")


class Gpu(msgspec.Struct, frozen=True, kw_only=True):
    """One GPU. Memory in bytes, utilisation in percent; None where NVML does not tell."""

    name: str
    uuid: str | None = None
    memory_bytes: int | None = None
    capability: tuple[int, int] | None = None
    mig: bool | None = None
    mig_instances: int | None = None
    persistence: bool | None = None
    utilisation_percent: int | None = None


class Driver(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of the driver.

    absent: there is no NVIDIA driver here. no-devices: there is one, without a card. mismatch: its library and its
    kernel module are of two versions, as after an update without a restart. hangs: it did not answer in time.
    unreadable: there is one, or a sign of one, that could not be asked.
    """

    state: State
    version: str | None = None
    cuda: str | None = None
    gpus: tuple[Gpu, ...] = ()
    visible: tuple[int, ...] | None = None
    platform: Literal["jetson", "wsl"] | None = None
    reason: str | None = None

    @property
    def visible_gpus(self) -> tuple[Gpu, ...]:
        """The GPUs that CUDA_VISIBLE_DEVICES leaves; all where it is not set."""
        return self.gpus if self.visible is None else tuple(self.gpus[index] for index in self.visible)

    @property
    def oldest(self) -> tuple[int, int] | None:
        """The lowest compute capability of the visible GPUs: it decides which builds run on all of them."""
        return min((gpu.capability for gpu in self.visible_gpus if gpu.capability), default=None)


def describe() -> Driver:
    """Ask NVML, in a child process; never raises."""
    try:
        answer = subprocess.run(
            [sys.executable, "-m", "envkit.driver"], capture_output=True, timeout=_TIMEOUT_S, stdin=subprocess.DEVNULL
        )
        told = msgspec.json.decode(answer.stdout, type=Driver)
    except subprocess.TimeoutExpired:
        told = Driver(state="hangs", reason=f"NVML did not answer in {_TIMEOUT_S:.0f} s")
    except (OSError, msgspec.DecodeError):
        told = Driver(state="unreadable", reason="NVML ended the process that asked it")
    return msgspec.structs.replace(
        told, platform=_platform(), visible=visible_devices(os.environ.get("CUDA_VISIBLE_DEVICES"), told.gpus)
    )


def visible_devices(value: str | None, gpus: tuple[Gpu, ...]) -> tuple[int, ...] | None:
    """The indexes that CUDA_VISIBLE_DEVICES names, by number or UUID; what follows an unknown one is not visible."""
    if value is None:
        return None
    found: list[int] = []
    for part in (part.strip() for part in value.split(",")):
        by_uuid = [index for index, gpu in enumerate(gpus) if gpu.uuid and part and gpu.uuid.startswith(part)]
        index = by_uuid[0] if by_uuid else int(part) if part.isdigit() else -1
        if not 0 <= index < len(gpus):
            break
        found.append(index)
    return tuple(found)


def _platform() -> Literal["jetson", "wsl"] | None:
    if _JETSON.is_file():
        return "jetson"
    return "wsl" if _WSL_LIBRARIES.is_dir() else None


def jetson_release() -> int | None:
    """The major release of L4T on a Jetson: 36 is JetPack 6; 0 where it cannot be read; None on other machines."""
    if not _JETSON.is_file():
        return None
    found = re.search(r"\bR(\d+)\b", _JETSON.read_text(errors="replace"))
    return int(found[1]) if found else 0


def _ask() -> Driver:
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        return _without_nvml(pynvml, error)
    try:
        return _answers(pynvml)
    except pynvml.NVMLError as error:
        return Driver(state="unreadable", reason=str(error))
    finally:
        pynvml.nvmlShutdown()


def _without_nvml(pynvml: Any, error: Any) -> Driver:
    """Why NVML could not start. A kernel module without its library is a driver that cannot be asked, not none."""
    reason, kernel = str(error), _kernel_version()
    if error.value == pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH:
        return Driver(state="mismatch", version=kernel, reason=f"{reason}: restart, or reload the kernel module")
    if kernel is not None:
        return Driver(state="unreadable", version=kernel, reason=f"{reason}; the kernel module is {kernel}")
    absent = error.value in (pynvml.NVML_ERROR_LIBRARY_NOT_FOUND, pynvml.NVML_ERROR_DRIVER_NOT_LOADED)
    return Driver(state="absent" if absent else "unreadable", reason=reason)


def _kernel_version() -> str | None:
    """The version of the loaded kernel module, from /proc."""
    if not _KERNEL_MODULE.is_file():
        return None
    found = re.search(r"Kernel Module\s+(?:for \S+\s+)?(\d+[\d.]+)", _KERNEL_MODULE.read_text(errors="replace"))
    return found[1] if found else None


def _answers(pynvml: Any) -> Driver:
    # The v2 call asks the driver; the first one answers with NVML's own build version.
    number = pynvml.nvmlSystemGetCudaDriverVersion_v2()
    gpus = tuple(_gpu(pynvml, index) for index in range(pynvml.nvmlDeviceGetCount()))
    return Driver(
        state="ok" if gpus else "no-devices",
        version=_text(pynvml.nvmlSystemGetDriverVersion()),
        cuda=f"{number // 1000}.{number % 1000 // 10}",
        gpus=gpus,
        reason=None if gpus else "the driver finds no GPU",
    )


def _gpu(pynvml: Any, index: int) -> Gpu:
    handle = pynvml.nvmlDeviceGetHandleByIndex(index)

    def asked(question: Callable[[], T]) -> T | None:
        # Older cards and older drivers do not answer everything.
        try:
            return question()
        except pynvml.NVMLError:
            return None

    mig = asked(lambda: pynvml.nvmlDeviceGetMigMode(handle)[0] == 1)
    persistence = asked(lambda: pynvml.nvmlDeviceGetPersistenceMode(handle))
    return Gpu(
        name=_text(pynvml.nvmlDeviceGetName(handle)),
        uuid=asked(lambda: _text(pynvml.nvmlDeviceGetUUID(handle))),
        memory_bytes=asked(lambda: int(pynvml.nvmlDeviceGetMemoryInfo(handle).total)),
        capability=asked(lambda: tuple(pynvml.nvmlDeviceGetCudaComputeCapability(handle))),
        mig=mig,
        mig_instances=asked(lambda: _instances(pynvml, handle)) if mig else None,
        persistence=None if persistence is None else persistence == 1,
        utilisation_percent=asked(lambda: int(pynvml.nvmlDeviceGetUtilizationRates(handle).gpu)),
    )


def _instances(pynvml: Any, handle: Any) -> int:
    """How many MIG instances a card is cut into."""
    count = 0
    for index in range(pynvml.nvmlDeviceGetMaxMigDeviceCount(handle)):
        try:
            pynvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, index)
        except pynvml.NVMLError:
            continue
        count += 1
    return count


def _text(value: str | bytes) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def public(driver: Driver) -> Driver:
    """The driver as it goes into a report: without what names the very card (UUIDs) or changes by the second."""
    gpus = tuple(msgspec.structs.replace(gpu, uuid=None, utilisation_percent=None) for gpu in driver.gpus)
    return msgspec.structs.replace(driver, gpus=gpus)


def as_facts(driver: Driver) -> Mapping[str, str]:
    """One line per card, for people."""
    return {f"GPU {index}": _line(gpu) for index, gpu in enumerate(driver.gpus)}


def _line(gpu: Gpu) -> str:
    parts = [gpu.name]
    if gpu.memory_bytes is not None:
        parts.append(f"{gpu.memory_bytes / 2**30:.0f} GiB")
    if gpu.capability is not None:
        parts.append(f"sm_{gpu.capability[0]}{gpu.capability[1]}")
    if gpu.mig:
        parts.append(f"MIG, {gpu.mig_instances if gpu.mig_instances is not None else '?'} instances")
    return ", ".join(parts)


class Use(msgspec.Struct, frozen=True, kw_only=True):
    """What a card does at a moment: percent, bytes; bytes per second from the host, and what the link can carry."""

    utilisation_percent: int | None = None
    memory_used_bytes: int | None = None
    memory_bytes: int | None = None
    received_bytes_per_s: float | None = None
    link_bytes_per_s: float | None = None


class Meter:
    """The cards' use again and again, from a child process that asks NVML; nothing where there is no NVML."""

    def __init__(self, every_s: float) -> None:
        command = [sys.executable, "-m", "envkit.driver", str(every_s)]
        self._child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        assert self._child.stdout is not None
        os.set_blocking(self._child.stdout.fileno(), False)
        self._rest, self._last = b"", ()  # type: tuple[bytes, tuple[Use, ...]]

    def read(self) -> tuple[Use, ...]:
        """The latest answer."""
        assert self._child.stdout is not None
        *lines, self._rest = (self._rest + (self._child.stdout.read() or b"")).split(b"\n")
        if lines:
            self._last = msgspec.json.decode(lines[-1], type=tuple[Use, ...])
        return self._last

    def cpu_s(self) -> float:
        """CPU time that the child has taken, in seconds; 0 where it is over, for there is no NVML."""
        import psutil

        try:
            told = psutil.Process(self._child.pid).cpu_times()
        except psutil.Error:
            return 0.0
        return float(told.user + told.system)

    def close(self) -> None:
        """End the child."""
        self._child.kill()
        self._child.wait()
        assert self._child.stdout is not None
        self._child.stdout.close()


_LANE_BYTES_PER_S = {1: 0.25e9, 2: 0.5e9, 3: 0.985e9, 4: 1.969e9, 5: 3.938e9, 6: 7.56e9}
"""What a lane of PCI Express carries one way, by generation. Source: the PCI-SIG's specifications."""


def _meter(every_s: float) -> None:
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return
    handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
    while handles:
        sys.stdout.buffer.write(msgspec.json.encode([_use(pynvml, handle) for handle in handles]) + b"\n")
        sys.stdout.buffer.flush()
        time.sleep(every_s)


def _use(pynvml: Any, handle: Any) -> Use:
    def asked(question: Callable[[], T]) -> T | None:
        try:
            return question()
        except (pynvml.NVMLError, KeyError):
            return None

    memory = asked(lambda: pynvml.nvmlDeviceGetMemoryInfo(handle))
    received = asked(lambda: pynvml.nvmlDeviceGetPcieThroughput(handle, pynvml.NVML_PCIE_UTIL_RX_BYTES))
    return Use(
        utilisation_percent=asked(lambda: int(pynvml.nvmlDeviceGetUtilizationRates(handle).gpu)),
        memory_used_bytes=int(memory.used) if memory is not None else None,
        memory_bytes=int(memory.total) if memory is not None else None,
        received_bytes_per_s=None if received is None else received * 1e3,
        link_bytes_per_s=asked(
            lambda: (
                _LANE_BYTES_PER_S[pynvml.nvmlDeviceGetCurrPcieLinkGeneration(handle)]
                * pynvml.nvmlDeviceGetCurrPcieLinkWidth(handle)
            )
        ),
    )


if __name__ == "__main__":
    if len(sys.argv) > 1:
        _meter(float(sys.argv[1]))
    else:
        sys.stdout.buffer.write(msgspec.json.encode(_ask()))
