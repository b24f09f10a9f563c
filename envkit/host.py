"""What this machine is: processor, limits of its control group, memory, shared memory, kernel, file system.

None means that a fact could not be read; a limit that is known not to be set is "none".
"""

import math
import os
import platform
import re
import sys
from pathlib import Path
from typing import Literal

import msgspec

NoLimit = Literal["none"]


class Host(msgspec.Struct, frozen=True, kw_only=True):
    """Facts of a machine. Memory in bytes, CPU quota in cores."""

    system: str
    machine: str
    kernel: str
    libc: str | None = None
    cpu_model: str | None = None
    cpu_flags: tuple[str, ...] = ()
    cores_logical: int | None = None
    cores_affinity: int | None = None
    cpu_quota_cores: float | NoLimit | None = None
    cores_usable: int | None = None
    memory_bytes: int | None = None
    memory_limit_bytes: int | NoLimit | None = None
    shm_bytes: int | None = None
    shm_free_bytes: int | None = None
    open_files_soft: int | None = None
    open_files_hard: int | None = None
    data_file_system: str | None = None
    virtual: str | None = None


def describe(data_folder: Path) -> Host:
    """The facts of this machine; `data_folder` is where benchmark files lie."""
    import psutil

    affinity = _affinity()
    quota = _cpu_quota()
    logical = os.cpu_count()
    shm = _shm()
    soft, hard = _open_files()
    model, flags = _cpu()
    return Host(
        system=platform.system(),
        machine=platform.machine(),
        kernel=platform.release(),
        libc=_libc(),
        cpu_model=model,
        cpu_flags=flags,
        cores_logical=logical,
        cores_affinity=affinity,
        cpu_quota_cores=quota,
        cores_usable=_usable(affinity or logical, quota),
        memory_bytes=psutil.virtual_memory().total,
        memory_limit_bytes=_memory_limit(),
        shm_bytes=shm[0] if shm else None,
        shm_free_bytes=shm[1] if shm else None,
        open_files_soft=soft,
        open_files_hard=hard,
        data_file_system=_file_system(data_folder),
        virtual=_virtual(),
    )


def usable_cores() -> int:
    """Cores that this process may really use: affinity, cut by the control group's quota, at least 1."""
    return _usable(_affinity() or os.cpu_count(), _cpu_quota()) or 1


def _usable(cores: int | None, quota: float | NoLimit | None) -> int | None:
    if cores is None or not isinstance(quota, float):
        return cores
    # A quota of 1.5 lets two processes make progress: round up, as torch's users count workers.
    return max(1, min(cores, math.ceil(quota)))


def _affinity() -> int | None:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None


def _read(path: str) -> str | None:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None


def _own_group(controller: str) -> list[str]:
    """Folders of this process's control group, from its own up to the root: version 2, then version 1."""
    lines = (_read("/proc/self/cgroup") or "").splitlines()
    folders = []
    for line in lines:
        number, controllers, path = line.split(":", 2)
        if number == "0" or controller in controllers.split(","):
            root = "/sys/fs/cgroup" if number == "0" else f"/sys/fs/cgroup/{controller}"
            parts = [part for part in path.split("/") if part]
            folders += ["/".join([root, *parts[:depth]]) for depth in range(len(parts), -1, -1)]
    return folders or ["/sys/fs/cgroup"]


def _cpu_quota() -> float | NoLimit | None:
    """The smallest CPU quota on the way to the root, in cores."""
    told = []
    for folder in _own_group("cpu"):
        modern = (_read(f"{folder}/cpu.max") or "").split()
        if len(modern) == 2:
            told.append(math.inf if modern[0] == "max" else int(modern[0]) / int(modern[1]))
        quota, period = _read(f"{folder}/cpu.cfs_quota_us"), _read(f"{folder}/cpu.cfs_period_us")
        if quota and period:
            told.append(int(quota) / int(period) if int(quota) > 0 else math.inf)
    least = min(told, default=None)
    return "none" if least == math.inf else least


def _memory_limit() -> int | NoLimit | None:
    told = [
        text
        for folder in _own_group("memory")
        for name in ("memory.max", "memory.limit_in_bytes")
        if (text := _read(f"{folder}/{name}"))
    ]
    # Version 1 writes "no limit" as a number near 2**63.
    limits = [int(text) for text in told if text.isdigit() and int(text) < 1 << 60]
    return min(limits) if limits else ("none" if told else None)


def memory_available() -> int:
    """Bytes that a process may still take: what is free, within the limits of the control group and of processes."""
    import psutil

    limit, address_space = _memory_limit(), _address_space()
    limits = [psutil.virtual_memory().available, *(one for one in (limit, address_space) if isinstance(one, int))]
    return min(limits)


def _address_space() -> int | None:
    """RLIMIT_AS, which `ulimit -v` sets; None where there is none."""
    if sys.platform == "win32":
        return None
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    return None if soft == resource.RLIM_INFINITY else soft


def oom_kills() -> int | None:
    """How many processes of this control group the kernel killed for memory; None where it does not count them."""
    for folder in _own_group("memory"):
        # Version 2 counts in the one file, version 1 in the other.
        for name in ("memory.events", "memory.oom_control"):
            match = re.search(r"^oom_kill (\d+)", _read(f"{folder}/{name}") or "", re.MULTILINE)
            if match is not None:
                return int(match[1])
    return None


def _shm() -> tuple[int, int] | None:
    try:
        told = os.statvfs("/dev/shm")
    except (OSError, AttributeError):
        return None
    return told.f_blocks * told.f_frsize, told.f_bavail * told.f_frsize


def _open_files() -> tuple[int | None, int | None]:
    if sys.platform == "win32":
        return None, None
    import resource

    return resource.getrlimit(resource.RLIMIT_NOFILE)


def _cpu() -> tuple[str | None, tuple[str, ...]]:
    text = _read("/proc/cpuinfo") or ""
    model = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    flags = re.search(r"^(?:flags|Features)\s*:\s*(.+)$", text, re.MULTILINE)
    named = model[1] if model else platform.processor() or None
    return named, tuple(sorted(flags[1].split())) if flags else ()


def _libc() -> str | None:
    try:
        return os.confstr("CS_GNU_LIBC_VERSION")
    except (AttributeError, ValueError, OSError):
        return None


def _file_system(folder: Path) -> str | None:
    """The type of the file system that holds a folder, by the longest mount point above it."""
    import psutil

    try:
        mounts = psutil.disk_partitions(all=True)
    except OSError:
        return None
    above = [mount for mount in mounts if folder.resolve().is_relative_to(mount.mountpoint)]
    return max(above, key=lambda mount: len(mount.mountpoint)).fstype if above else None


def _virtual() -> str | None:
    """The kind of container or virtual machine, as far as plain files tell."""
    if Path("/.dockerenv").exists() or Path("/run/.containerenv").exists():
        return "container"
    if "microsoft" in platform.release().lower():
        return "wsl"
    return "hypervisor" if " hypervisor" in (_read("/proc/cpuinfo") or "") else None
