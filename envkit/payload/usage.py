"""What this process and the workers of a loader use, read from /proc: times in seconds, sizes in bytes.

None, or a key that is missing, is what this system does not tell.
"""

import os

_TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
PRESSURES = ("cpu", "io", "memory")


def snapshot(workers):
    """The counters of now: of the main process, of its workers together, and of the machine."""
    if not os.path.isdir("/proc/self"):
        return {}
    return {
        "main": _process(os.getpid()),
        "workers": [_process(pid) for pid in workers],
        "shm_bytes": _shm_used(),
        "pressure_s": {name: pressure(name) for name in PRESSURES},
    }


def between(before, after, batches):
    """What was used from one snapshot to the next, in which so many batches came."""
    if not before or not after or len(before["workers"]) != len(after["workers"]):
        return None
    pairs = list(zip(before["workers"], after["workers"]))
    return {
        "batches": batches,
        "main_cpu_s": after["main"]["cpu_s"] - before["main"]["cpu_s"],
        "workers_cpu_s": sum(new["cpu_s"] - old["cpu_s"] for old, new in pairs),
        "main_switches": _difference(before["main"], after["main"], "switches"),
        "workers_switches": sum(_difference(old, new, "switches") for old, new in pairs),
        "disk_read_bytes": sum(
            _difference(old, new, "read_bytes") for old, new in [*pairs, (before["main"], after["main"])]
        ),
        "pss_bytes": [_sum(before["workers"], "pss_bytes"), _sum(after["workers"], "pss_bytes")],
        "uss_bytes": [_sum(before["workers"], "uss_bytes"), _sum(after["workers"], "uss_bytes")],
        "worker_threads": max((one.get("threads", 0) for one in after["workers"]), default=0),
        "open_files": after["main"].get("files"),
        "worker_open_files": max((one.get("files") or 0 for one in after["workers"]), default=0),
        "shm_bytes": after["shm_bytes"],
        "pressure_s": {
            name: after["pressure_s"][name] - before["pressure_s"][name]
            for name in PRESSURES
            if after["pressure_s"][name] is not None and before["pressure_s"][name] is not None
        },
    }


def _difference(old, new, name):
    return (new.get(name) or 0) - (old.get(name) or 0)


def _sum(processes, name):
    return sum(one.get(name) or 0 for one in processes)


def _process(pid):
    found = {"cpu_s": 0.0, "threads": len(_names("/proc/%d/task" % pid))}
    fields = _read("/proc/%d/stat" % pid).rpartition(")")[2].split()
    if len(fields) > 12:
        found["cpu_s"] = (int(fields[11]) + int(fields[12])) / _TICKS
    status = _table("/proc/%d/status" % pid)
    found["switches"] = status.get("voluntary_ctxt_switches", 0) + status.get("nonvoluntary_ctxt_switches", 0)
    found["read_bytes"] = _table("/proc/%d/io" % pid).get("read_bytes", 0)
    memory = _table("/proc/%d/smaps_rollup" % pid)
    found["pss_bytes"] = memory.get("Pss", 0) * 1024
    found["uss_bytes"] = (memory.get("Private_Clean", 0) + memory.get("Private_Dirty", 0)) * 1024
    found["files"] = len(_names("/proc/%d/fd" % pid))
    return found


def open_files():
    """How many files this process has open; None where /proc does not tell."""
    return len(_names("/proc/self/fd")) or None


def _table(path):
    """The numbers of a file of `name: number` lines."""
    found = {}
    for line in _read(path).splitlines():
        name, _, rest = line.partition(":")
        words = rest.split()
        if words and words[0].isdigit():
            found[name] = int(words[0])
    return found


def pressure(name):
    """Seconds in which something on this machine had to wait for a resource; None where it is not counted."""
    for line in _read("/proc/pressure/" + name).splitlines():
        if line.startswith("some"):
            return int(line.rpartition("total=")[2]) / 1e6
    return None


def _shm_used():
    try:
        told = os.statvfs("/dev/shm")
    except (OSError, AttributeError):
        return None
    return (told.f_blocks - told.f_bfree) * told.f_frsize


def _names(path):
    try:
        return os.listdir(path)
    except OSError:
        return []


def _read(path):
    try:
        with open(path, "rb") as file:
            return file.read().decode(errors="replace")
    except OSError:
        return ""
