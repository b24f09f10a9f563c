"""Processes of a training job as /proc shows them: which are DataLoader workers, what each is doing at a moment.

Only Linux shows this; a process that is gone, or that may not be looked at, is None.
"""

import os
import platform
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import msgspec

Doing = Literal["runs", "disk", "queue", "network", "reads", "sleeps", "lock", "other", "unknown"]
"""What a thread is at: on a core; waiting for a disk, for a queue of its loader, for the network, for a read; asleep on
purpose; waiting for a lock or another thread; something else; not to be seen."""

_TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
_QUEUE_MS = 5000
"""torch waits for its queues in turns of 5 s, and looks in between whether the other side still lives."""
_CALLS: dict[str, dict[int, Doing]] = {
    "x86_64": {
        **dict.fromkeys((0, 17, 19, 257, 295), "reads"),
        **dict.fromkeys((23, 232, 270, 281), "network"),
        **dict.fromkeys((45, 43, 42), "network"),
        47: "queue",
        **dict.fromkeys((35, 230), "sleeps"),
        202: "lock",
        7: "queue",
        271: "queue",
    },
    "aarch64": {
        **dict.fromkeys((63, 67, 65, 56), "reads"),
        **dict.fromkeys((72, 22, 207, 203), "network"),
        212: "queue",
        **dict.fromkeys((101, 115), "sleeps"),
        98: "lock",
        73: "queue",
    },
}
"""System calls by number. Source: the kernel's tables of system calls for these machines."""


class Process(msgspec.Struct, frozen=True, kw_only=True):
    """A process at a moment. CPU time in seconds; `core` is the one it last ran on."""

    pid: int
    parent: int
    name: str
    state: str
    cpu_s: float
    threads: int
    core: int
    started: int


class Holdings(msgspec.Struct, frozen=True, kw_only=True):
    """What a process holds: bytes of memory by its share (PSS) and for itself, open files, bytes read from disks."""

    pss_bytes: int
    own_bytes: int
    files: int
    files_limit: int | None
    read_bytes: int


def look(pid: int) -> Process | None:
    """A process, from /proc/PID/stat."""
    text = _read(f"/proc/{pid}/stat")
    if not text:
        return None
    name, _, rest = text.partition("(")[2].rpartition(")")
    fields = rest.split()
    return Process(
        pid=pid,
        parent=int(fields[1]),
        name=name,
        state=fields[0],
        cpu_s=(int(fields[11]) + int(fields[12])) / _TICKS,
        threads=int(fields[17]),
        started=int(fields[19]),
        core=int(fields[36]),
    )


def tree(root: int) -> tuple[int, ...]:
    """A process and all that descend from it."""
    found, waiting = [], [root]
    while waiting:
        pid = waiting.pop()
        if pid in found:
            continue
        found.append(pid)
        waiting += _children(pid)
    return tuple(found)


def _children(pid: int) -> list[int]:
    told = [_read(f"/proc/{pid}/task/{thread}/children") for thread in _names(f"/proc/{pid}/task")]
    return [int(word) for text in told for word in text.split()]


def command(pid: int) -> str:
    """The command line, its words apart by blanks."""
    return _read(f"/proc/{pid}/cmdline").replace("\0", " ").strip()


_WORKER_NAME = "pt_data_worker"
_STARTED_ANEW = "multiprocessing.spawn import spawn_main"
_SERVER = "multiprocessing.forkserver import main"


def worker_of(process: Process, commands: dict[int, str]) -> int | None:
    """The process whose DataLoader this one works for; None where it is no worker.

    torch names its workers from 2.7 on. Before, a worker is a copy of its parent with the same command line, or one
    that multiprocessing started anew, from the parent itself or from its fork server, whose parent it is then.
    """
    own, parent = commands.get(process.pid, ""), commands.get(process.parent)
    if parent is None or not own or "resource_tracker" in own:
        return None
    if _SERVER in parent:
        server = look(process.parent)
        return server.parent if server is not None else None
    same = own == parent and "python" in own.partition(" ")[0]
    return process.parent if process.name == _WORKER_NAME or same or _STARTED_ANEW in own else None


def doing(pid: int) -> Doing:
    """What the main thread of a process is at."""
    words = _read(f"/proc/{pid}/syscall").split()
    if not words:
        process = look(pid)
        seen: dict[str, Doing] = {"R": "runs", "D": "disk"}
        return seen.get(process.state, "unknown") if process is not None else "unknown"
    if words[0] == "running":
        return "runs"
    if not words[0].isdigit():
        return "other"
    told = _CALLS.get(platform.machine(), {}).get(int(words[0]), "other")
    if told == "queue" and platform.machine() == "x86_64" and int(words[0]) == 7:
        # poll's third argument is a time in ms, as a 32-bit number; -1 is for ever.
        patience = int(words[3], 16) & 0xFFFFFFFF
        return "queue" if patience <= _QUEUE_MS else "network"
    if told == "reads":
        return _reading(pid, words)
    return told


def _reading(pid: int, words: list[str]) -> Doing:
    """A read from a pipe or a socket is a worker's or the main process's: that is how tensors and orders are sent."""
    try:
        source = str(Path(f"/proc/{pid}/fd/{int(words[1], 16)}").readlink())
    except (OSError, IndexError):
        source = ""
    if source.startswith(("pipe:", "socket:")):
        return "queue"
    process = look(pid)
    return "disk" if process is not None and process.state == "D" else "reads"


def running_threads(pid: int) -> int:
    """How many threads of a process are on a core, or would be."""
    threads = _names(f"/proc/{pid}/task")
    return sum(_read(f"/proc/{pid}/task/{one}/stat").rpartition(")")[2][1:2] == "R" for one in threads)


def pinning_cpu_s(pid: int) -> float | None:
    """CPU time of the thread that pins batches; None where there is none."""
    for thread in _names(f"/proc/{pid}/task"):
        text = _read(f"/proc/{pid}/task/{thread}/stat")
        if "(pt_data_pin" in text:
            fields = text.rpartition(")")[2].split()
            return (int(fields[11]) + int(fields[12])) / _TICKS
    return None


def holdings(pid: int) -> Holdings | None:
    """What a process holds; None where it is gone or may not be looked at."""
    memory = _table(f"/proc/{pid}/smaps_rollup")
    if not memory:
        return None
    return Holdings(
        pss_bytes=memory.get("Pss", 0) * 1024,
        own_bytes=(memory.get("Private_Clean", 0) + memory.get("Private_Dirty", 0)) * 1024,
        files=len(_names(f"/proc/{pid}/fd")),
        files_limit=_files_limit(pid),
        read_bytes=_table(f"/proc/{pid}/io").get("read_bytes", 0),
    )


def _files_limit(pid: int) -> int | None:
    for line in _read(f"/proc/{pid}/limits").splitlines():
        if line.startswith("Max open files"):
            soft = line.split()[3]
            return int(soft) if soft.isdigit() else None
    return None


def affinity(pid: int) -> frozenset[int]:
    """The cores on which a process may run; empty where that is not told."""
    try:
        return frozenset(os.sched_getaffinity(pid))
    except (OSError, AttributeError):
        return frozenset()


def pressure_s(resource: str) -> float | None:
    """Seconds in which something on this machine waited for `cpu`, `io` or `memory`, since it started."""
    first = _read(f"/proc/pressure/{resource}").partition("\n")[0]
    return int(first.rpartition("total=")[2]) / 1e6 if first.startswith("some") else None


def core_times() -> tuple[tuple[float, float], ...]:
    """Of each core, seconds busy and seconds in all, since the machine started."""
    return tuple(_core(line.split()) for line in _core_lines())


def _core_lines() -> Iterator[str]:
    return (line for line in _read("/proc/stat").splitlines() if line.startswith("cpu") and line[3:4].isdigit())


def _core(words: list[str]) -> tuple[float, float]:
    # user nice system idle iowait irq softirq steal: what is neither idle nor waiting for a disk is busy.
    times = [int(word) / _TICKS for word in words[1:9]]
    return sum(times) - times[3] - times[4], sum(times)


def network_bytes() -> int:
    """Bytes received by all interfaces but loopback, since they exist."""
    lines = [line.partition(":") for line in _read("/proc/net/dev").splitlines() if ":" in line]
    return sum(int(rest.split()[0]) for name, _, rest in lines if name.strip() != "lo")


def shm() -> tuple[int, int] | None:
    """Bytes in use and in all of /dev/shm."""
    try:
        told = os.statvfs("/dev/shm")
    except (OSError, AttributeError):
        return None
    return (told.f_blocks - told.f_bfree) * told.f_frsize, told.f_blocks * told.f_frsize


def _table(path: str) -> dict[str, int]:
    """The numbers of a file of `name: number` lines."""
    found = {}
    for line in _read(path).splitlines():
        name, _, rest = line.partition(":")
        words = rest.split()
        if words and words[0].isdigit():
            found[name] = int(words[0])
    return found


def _names(path: str) -> list[str]:
    try:
        return [one.name for one in Path(path).iterdir()]
    except OSError:
        return []


def _read(path: str) -> str:
    try:
        return Path(path).read_text(errors="replace")
    except OSError:
        return ""
