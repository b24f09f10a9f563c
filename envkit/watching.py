"""Samples of a training job, and what they come to: shares of time, rates, growth. Pure numbers."""

import itertools
import statistics
from collections.abc import Callable, Mapping, Sequence

import msgspec

from envkit.driver import Use
from envkit.processes import Doing

_STILL = 0.01
"""A process that takes less CPU than this share of a core does nothing."""


class Worker(msgspec.Struct, frozen=True, kw_only=True):
    """A worker over an interval: cores in use, what it was at, threads that wanted a core (None: not looked at)."""

    pid: int
    cores: float
    doing: Doing
    running_threads: int | None = None


class Slow(msgspec.Struct, frozen=True, kw_only=True):
    """What is looked at less often: bytes and counts of main and workers together, rates per second."""

    pss_bytes: int
    workers_own_bytes: int
    open_files: int
    open_files_limit: int | None
    disk_read_bytes: int
    network_bytes: int
    shm_bytes: int | None
    shm_limit_bytes: int | None
    pressure_s: Mapping[str, float]
    pinning_cores: float | None = None
    loading_in_main: float | None = None


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """A look at the job: `at_s` since the watch began, `cores` the share of each core of the machine that was busy."""

    at_s: float
    main_cores: float
    main_doing: Doing
    workers: tuple[Worker, ...] = ()
    cores: tuple[float, ...] = ()
    gpus: tuple[Use, ...] = ()
    slow: Slow | None = None


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """The samples as shares and means; None where there is nothing to tell it from."""

    seconds: float
    samples: int
    workers: float
    main_waits: float
    main_cores: float
    main_doing: Mapping[str, float]
    workers_doing: Mapping[str, float]
    worker_cores: float
    running_threads: float | None
    busiest_cores: tuple[float, ...]
    gpu_percent: float | None
    received_share: float | None
    pinning_cores: float | None
    loading_in_main: float | None
    stacks: int
    disk_bytes_per_s: float
    network_bytes_per_s: float
    io_pressure: float | None
    growth_bytes_per_s: float | None
    grown_bytes: float
    shm_share: float | None
    files_share: float | None
    still_s: float


def summarise(samples: Sequence[Sample]) -> Summary:
    """Shares of time from single looks, which come at uneven intervals so that no period of the job hides from them."""
    everything, samples = samples, _with_workers(samples)
    slow = [(one.at_s, one.slow) for one in samples if one.slow is not None]
    workers = [worker for one in samples for worker in one.workers]
    threads = [worker.running_threads for worker in workers if worker.running_threads is not None]
    pinned = any(one.pinning_cores is not None for _, one in slow)
    main = _shares([one.main_doing for one in samples])
    growth, grown = _growth(slow)
    return Summary(
        seconds=samples[-1].at_s - samples[0].at_s if samples else 0.0,
        samples=len(samples),
        workers=_mean([len(one.workers) for one in samples]),
        # With pinned memory the main thread waits for the thread that pins, by a lock.
        main_waits=(main.get("queue", 0.0) + (main.get("lock", 0.0) if pinned else 0.0)) if workers else 0.0,
        main_cores=_mean([one.main_cores for one in samples]),
        main_doing=main,
        workers_doing=_shares([worker.doing for worker in workers]),
        worker_cores=_mean([worker.cores for worker in workers]),
        running_threads=_mean(threads) if threads else None,
        busiest_cores=_busiest(samples),
        gpu_percent=_known([gpu.utilisation_percent for one in samples for gpu in one.gpus]),
        received_share=_known([_received(gpu) for one in samples for gpu in one.gpus]),
        pinning_cores=_known([one.pinning_cores for _, one in slow]),
        loading_in_main=_known([one.loading_in_main for _, one in slow]),
        stacks=sum(one.loading_in_main is not None for _, one in slow),
        disk_bytes_per_s=_rate(slow, lambda one: one.disk_read_bytes),
        network_bytes_per_s=_rate(slow, lambda one: one.network_bytes),
        io_pressure=_rate(slow, lambda one: one.pressure_s.get("io", 0.0)) if slow else None,
        growth_bytes_per_s=growth,
        grown_bytes=grown,
        shm_share=_most([_share(one.shm_bytes, one.shm_limit_bytes) for _, one in slow]),
        files_share=_most([_share(one.open_files, one.open_files_limit) for _, one in slow]),
        still_s=_still(everything),
    )


def _with_workers(samples: Sequence[Sample]) -> Sequence[Sample]:
    """From the first worker to the last: before and after, the job imports and leaves. All where there are none."""
    having = [number for number, one in enumerate(samples) if one.workers]
    return samples[having[0] : having[-1] + 1] if having else samples


def _received(gpu: Use) -> float | None:
    if gpu.received_bytes_per_s is None or not gpu.link_bytes_per_s:
        return None
    return gpu.received_bytes_per_s / gpu.link_bytes_per_s


def _shares(seen: Sequence[str]) -> dict[str, float]:
    return {name: seen.count(name) / len(seen) for name in sorted(set(seen))}


def _mean(values: Sequence[float]) -> float:
    return statistics.fmean(values) if values else 0.0


def _known(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else None


def _share(used: int | None, limit: int | None) -> float | None:
    return used / limit if used is not None and limit else None


def _most(values: Sequence[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def _busiest(samples: Sequence[Sample]) -> tuple[float, ...]:
    """The mean share of each core that was busy, the busiest first."""
    seen = [one.cores for one in samples if one.cores]
    if not seen or len({len(one) for one in seen}) != 1:
        return ()
    return tuple(sorted((statistics.fmean(core) for core in zip(*seen, strict=True)), reverse=True))


def _rate(slow: Sequence[tuple[float, Slow]], of: Callable[[Slow], float]) -> float:
    if len(slow) < 2 or slow[-1][0] <= slow[0][0]:
        return 0.0
    return max(0.0, of(slow[-1][1]) - of(slow[0][1])) / (slow[-1][0] - slow[0][0])


def _growth(slow: Sequence[tuple[float, Slow]]) -> tuple[float | None, float]:
    """The slope of memory in bytes per second over the later two thirds, where it rises all the way; and the rise."""
    later = slow[len(slow) // 3 :]
    if len(later) < 3:
        return None, 0.0
    times, held = [at for at, _ in later], [float(one.pss_bytes) for _, one in later]
    rises = sum(b > a for a, b in itertools.pairwise(held)) / (len(held) - 1)
    if rises < (0.75 if len(held) > 4 else 1.0) or statistics.correlation(times, held) < 0.9:
        return None, 0.0
    return statistics.linear_regression(times, held).slope, held[-1] - held[0]


def _still(samples: Sequence[Sample]) -> float:
    """For how long nothing has happened up to the end: no CPU, no disk, no GPU, and nobody asleep on purpose."""
    since = samples[-1].at_s if samples else 0.0
    for one in reversed(samples):
        cores = one.main_cores + sum(worker.cores for worker in one.workers)
        at_rest = one.main_doing in ("sleeps", "disk", "runs") or any(
            worker.doing in ("sleeps", "disk", "runs", "network", "reads") for worker in one.workers
        )
        gpu = any((gpu.utilisation_percent or 0) > 0 for gpu in one.gpus)
        if cores > _STILL or at_rest or gpu:
            break
        since = one.at_s
    return samples[-1].at_s - since if samples else 0.0
