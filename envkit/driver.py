"""The NVIDIA driver and its GPUs, asked through NVML. The only module that imports pynvml."""

from pathlib import Path
from typing import Any, Literal

import msgspec

State = Literal["ok", "absent", "unreadable"]


class Gpu(msgspec.Struct, frozen=True, kw_only=True):
    """One GPU. Memory in bytes; None where NVML does not tell."""

    name: str
    memory_bytes: int | None = None
    capability: tuple[int, int] | None = None


class Driver(msgspec.Struct, frozen=True, kw_only=True):
    """absent: no NVIDIA driver here. unreadable: there is one, or a sign of one, that could not be asked."""

    state: State
    version: str | None = None
    cuda: str | None = None
    gpus: tuple[Gpu, ...] = ()
    reason: str | None = None


def describe() -> Driver:
    """Ask NVML; never raises."""
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        return _without_nvml(str(error), absent=error.value in _absent_codes(pynvml))
    try:
        return _ask(pynvml)
    except pynvml.NVMLError as error:
        return Driver(state="unreadable", reason=str(error))
    finally:
        pynvml.nvmlShutdown()


def _absent_codes(pynvml: Any) -> tuple[int, ...]:
    return (pynvml.NVML_ERROR_LIBRARY_NOT_FOUND, pynvml.NVML_ERROR_DRIVER_NOT_LOADED)


def _without_nvml(reason: str, *, absent: bool) -> Driver:
    """A kernel module without its library is a driver that cannot be asked, not no driver."""
    kernel = Path("/proc/driver/nvidia/version")
    if kernel.is_file():
        return Driver(state="unreadable", reason=f"{reason}; the kernel module is {kernel.read_text().splitlines()[0]}")
    return Driver(state="absent" if absent else "unreadable", reason=reason)


def _ask(pynvml: Any) -> Driver:
    # The v2 call asks the driver; the first one answers with NVML's own build version.
    number = pynvml.nvmlSystemGetCudaDriverVersion_v2()
    gpus = []
    for index in range(pynvml.nvmlDeviceGetCount()):
        handle = pynvml.nvmlDeviceGetHandleByIndex(index)
        gpus.append(
            Gpu(
                name=_text(pynvml.nvmlDeviceGetName(handle)),
                memory_bytes=_asked(pynvml, lambda handle=handle: pynvml.nvmlDeviceGetMemoryInfo(handle).total),
                capability=_asked(
                    pynvml, lambda handle=handle: tuple(pynvml.nvmlDeviceGetCudaComputeCapability(handle))
                ),
            )
        )
    return Driver(
        state="ok",
        version=_text(pynvml.nvmlSystemGetDriverVersion()),
        cuda=f"{number // 1000}.{number % 1000 // 10}",
        gpus=tuple(gpus),
    )


def _asked(pynvml: Any, question: Any) -> Any:
    try:
        return question()
    except pynvml.NVMLError:
        return None


def _text(value: str | bytes) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else value
