"""The tuner's model: what a loader costs, which settings are worth a trial, and which one to take. Pure numbers."""

import statistics
from collections.abc import Mapping, Sequence

import msgspec

from envkit import stats
from envkit.loads import Limit, Usage
from envkit.stats import Change

_EQUAL = 0.97
"""Settings within so much of the best are equals: the one with the fewest workers is taken."""
_RECEIVING = 0.5
"""The main process's part of moving a batch: opening what the worker has sent."""
_HOPELESS = 0.7
"""A setting that the model puts below so much of its best is not tried."""
_SHARE = 0.8
"""So much of what is free may be planned with."""
_KEPT_FILES = 16
"""So many files are left to the user's own code."""
_FILES_OF_A_WORKER = 4
"""Pipes and the like that the main process has open for each worker."""
_CHEAP_S = 200e-6
"""Samples that take less are not made by several threads."""


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """Arguments of a DataLoader, and how many threads libraries may use in its workers (None: as they are)."""

    num_workers: int
    prefetch_factor: int | None
    persistent_workers: bool
    batch_size: int
    pin_memory: bool = False
    start_method: str | None = None
    threads: int | None = None

    @property
    def python(self) -> str:
        """The arguments as Python to paste."""
        told = [f"batch_size={self.batch_size}", f"num_workers={self.num_workers}"]
        if self.num_workers:
            told += [f"prefetch_factor={self.prefetch_factor}", f"persistent_workers={self.persistent_workers}"]
        if self.pin_memory:
            told.append("pin_memory=True")
        if self.num_workers and self.start_method:
            told.append(f'multiprocessing_context="{self.start_method}"')
        return f"DataLoader(dataset, {', '.join(told)})"

    @property
    def cost(self) -> tuple[int, int]:
        """What is the least of it among equals: workers, then what they prefetch."""
        return self.num_workers, self.prefetch_factor or 0


def setting(workers: int, batch_size: int, prefetch: int = 2) -> Setting:
    """A setting with the arguments that its worker count allows."""
    return Setting(
        num_workers=workers,
        prefetch_factor=prefetch if workers else None,
        persistent_workers=bool(workers),
        batch_size=batch_size,
    )


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """What a loader may use here; None where it is not known. Bytes."""

    cores: int
    memory_bytes: int
    shm_bytes: int | None = None
    open_files: int | None = None


class Failed(msgspec.Struct, frozen=True, kw_only=True):
    """Samples that could not be read, and the error of the first."""

    count: int
    first: str

    @property
    def told(self) -> str:
        """A sentence."""
        return f"{self.count} sample{'s' if self.count > 1 else ''} could not be read ({self.first})"


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """What samples and a batch cost in the main process, in seconds and bytes; and the user's own setting.

    `mean_s` is what a sample takes there, `worker_s` and `sample_cpu_s` what it takes with the one thread that torch
    gives to workers; `sample_s` are such times. `moved_s` is what a batch takes from a worker to the main process,
    `copied_bytes_per_s` what one core copies, `step_s` and `step_cpu_s` what the consumer takes for a batch, `device`
    the copies to a GPU, None without one; `holds` are the large Python containers of the dataset,
    `cold_s` what a sample takes whose file is in no cache, `open_files` how many files the main process has open.
    """

    sample_s: tuple[float, ...]
    mean_s: float
    worker_s: float
    sample_cpu_s: float
    collate_s: float
    batch_bytes: int
    tensors: int
    moved_s: float | None = None
    copied_bytes_per_s: float | None = None
    step_s: float = 0.0
    step_cpu_s: float = 0.0
    device: Mapping[str, float] | None = None
    cold_s: float | None = None
    open_files: int | None = None
    holds: tuple[str, ...] = ()
    failed: Failed | None = None
    length: int | None = None
    present: Setting | None = None
    took_s: float = 0.0


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """One trial. Seconds, bytes; `usage` is what its processes used."""

    samples_per_s: float | None
    batches: int
    total_s: float
    wait_s: float
    waits_s: tuple[float, ...]
    start_s: float
    first_batch_s: float
    batch_bytes: int
    tensors: int
    start_method: str | None = None
    restart_s: float | None = None
    fresh_restart_s: float | None = None
    usage: Usage | None = None
    took_s: float = 0.0


class Tried(msgspec.Struct, frozen=True, kw_only=True):
    """A setting with the rates of its trials, or why it has none. `workers_bytes` is what all its workers hold."""

    setting: Setting
    samples_per_s: tuple[float, ...] = ()
    predicted: float | None = None
    first_batch_s: float | None = None
    restart_s: float | None = None
    fresh_restart_s: float | None = None
    wait_share: float | None = None
    workers_bytes: int | None = None
    failures: tuple[str, ...] = ()

    @property
    def rate(self) -> float:
        """The median rate; 0 for one that failed."""
        return statistics.median(self.samples_per_s) if self.samples_per_s and not self.failures else 0.0


def predicted(profile: Profile, machine: Machine, workers: int, batch_size: int) -> float:
    """Samples per second by the model.

    A worker makes, collates and sends one batch after the other; the cores limit what computes; the main process
    takes its part of moving a batch, and the consumer its time.
    """
    if workers == 0:
        return batch_size / (batch_size * profile.mean_s + profile.collate_s + profile.step_s)
    made = batch_size * profile.worker_s + profile.collate_s
    busy = batch_size * profile.sample_cpu_s + profile.collate_s
    moved = profile.moved_s or 0.0
    rates = [
        workers / (made + moved),
        machine.cores / max(busy + moved + profile.step_cpu_s, 1e-9),
        1 / max(_RECEIVING * moved + profile.step_s, 1e-9),
    ]
    return batch_size * min(rates)


def limit(profile: Profile, machine: Machine, workers: int, batch_size: int) -> Limit:
    """Samples per second with nothing in between, and what sets it.

    Workers over latency, cores over computing, memory over moving; and the consumer, where there is one.
    """
    if workers == 0:
        found = [Limit(samples_per_s=batch_size / (batch_size * profile.mean_s + profile.step_s), by="one process")]
    else:
        found = [
            Limit(samples_per_s=workers / profile.worker_s, by="workers over latency"),
            Limit(samples_per_s=machine.cores / max(profile.sample_cpu_s, 1e-9), by="cores over computing"),
        ]
    if profile.copied_bytes_per_s and profile.batch_bytes:
        share = profile.batch_bytes / batch_size
        found.append(Limit(samples_per_s=machine.cores * profile.copied_bytes_per_s / share, by="memory bandwidth"))
    if profile.step_s:
        found.append(Limit(samples_per_s=batch_size / profile.step_s, by="the consumer"))
    return min(found, key=lambda one: one.samples_per_s)


def most_workers(profile: Profile, machine: Machine, worker_bytes: int | None) -> tuple[int, tuple[str, ...]]:
    """How many workers fit, and what keeps them from being more: each limit in a sentence."""
    most, why = max(8, 4 * machine.cores), []
    limits: list[tuple[int, str]] = []
    if worker_bytes:
        fit = int(machine.memory_bytes * _SHARE // worker_bytes) - 1
        limits.append((fit, f"memory: a worker takes {worker_bytes >> 20} MiB"))
    if machine.shm_bytes is not None and profile.batch_bytes:
        told = (
            f"/dev/shm: two batches of {profile.batch_bytes / 1e6:.1f} MB per worker in {machine.shm_bytes >> 20} MiB"
        )
        limits.append((_in_shm(profile, machine.shm_bytes, 2), told))
    if machine.open_files is not None and profile.tensors:
        fit = _in_files(profile, machine.open_files, 2)
        limits.append((fit, f"open files: {profile.tensors} tensors per batch, {machine.open_files} files"))
    for fit, told in limits:
        if fit < most:
            most = max(0, fit)
            why.append(f"no more than {most} worker{'' if most == 1 else 's'}, for {told}")
    return most, tuple(why)


def _in_shm(profile: Profile, shm_bytes: int, prefetch: int) -> int:
    """Workers whose batches fit, with the one that the main process has in hand."""
    return int((shm_bytes * _SHARE / profile.batch_bytes - 1) // prefetch)


def _in_files(profile: Profile, open_files: int, prefetch: int) -> int:
    """Workers whose tensors fit: each is an open file of the main process from when it comes until it is dropped.

    A worker has two for each tensor that has not yet come, and what the main process had open at its start. Batches
    come out of order: all that were asked for may have to be held at once, and one is in hand.
    """
    free = open_files - _KEPT_FILES - (profile.open_files or 0)
    if free < profile.tensors * (prefetch + 2):
        return 0
    return (free - profile.tensors) // (prefetch * profile.tensors + _FILES_OF_A_WORKER)


def deepest(profile: Profile, machine: Machine, workers: int) -> int:
    """The most that workers may prefetch each, of 2 and 4: what is prefetched must fit too."""
    if machine.shm_bytes is not None and profile.batch_bytes and _in_shm(profile, machine.shm_bytes, 4) < workers:
        return 2
    if machine.open_files is not None and profile.tensors and _in_files(profile, machine.open_files, 4) < workers:
        return 2
    return 4


def candidates(profile: Profile, machine: Machine, batch_size: int, most: int) -> tuple[Setting, ...]:
    """The settings that the model finds worth a trial, few of them."""
    hopes = {count: predicted(profile, machine, count, batch_size) for count in range(most + 1)}
    best = max(hopes.values())
    first = min(count for count in hopes if hopes[count] >= 0.99 * best)
    counts = {0, 1, first, min(machine.cores, most)}
    kept = sorted(count for count in counts if hopes[count] >= _HOPELESS * best)
    return tuple(setting(count, batch_size) for count in kept)


def refined(tried: Sequence[Tried], most: int, deepest: int) -> tuple[Setting, ...]:
    """New settings near the best so far: half-way to its neighbours, beyond the last, and deeper prefetching."""
    ranked = sorted(tried, key=lambda one: -one.rate)
    if not ranked or not ranked[0].rate:
        return ()
    best = ranked[0].setting
    known = {one.setting.num_workers for one in tried}
    near = {count for count in (best.num_workers - 1, best.num_workers + 1) if 0 < count <= most}
    if best.num_workers == max(known) and best.num_workers > 2:
        near.add(min(most, best.num_workers * 3 // 2))
    new = (
        [msgspec.structs.replace(best, num_workers=count) for count in sorted(near - known)] if best.num_workers else []
    )
    if best.num_workers and best.prefetch_factor == 2:
        new.append(msgspec.structs.replace(best, prefetch_factor=deepest))
    return tuple(one for one in new if one not in {other.setting for other in tried})


def survivors(tried: Sequence[Tried], count: int) -> tuple[Setting, ...]:
    """The settings that may still be the best, the best first; the oftener they were tried, the nearer to it."""
    best = max((one.rate for one in tried), default=0.0)
    near = {1: 0.88, 2: 0.93}
    alive = [one for one in tried if one.rate > 0 and one.rate >= near.get(len(one.samples_per_s), 0.95) * best]
    return tuple(one.setting for one in sorted(alive, key=lambda one: -one.rate)[:count])


def choose(tried: Sequence[Tried], step_s: float) -> Tried:
    """The setting to take: among equals the one with the fewest workers, then the least prefetching.

    With a consumer that takes `step_s` for a batch, all that keep up with it are equals.
    """
    best = max(one.rate for one in tried)
    enough = _EQUAL * (min(best, tried[0].setting.batch_size / step_s) if step_s > 0 else best)
    return min((one for one in tried if one.rate >= enough), key=lambda one: (one.setting.cost, -one.rate))


def gain(present: Tried | None, chosen: Tried) -> Change | None:
    """How the chosen setting compares with the present one; None where that was not tried."""
    if present is None or not present.samples_per_s or present.setting == chosen.setting:
        return None
    return stats.compare(present.samples_per_s, chosen.samples_per_s)


def merged(old: Mapping[Setting, Tried], wanted: Setting, outcome: Outcome | str) -> Tried:
    """What is known of a setting with one trial more; a text is why the trial failed."""
    known = old.get(wanted) or Tried(setting=wanted)
    if isinstance(outcome, str):
        return msgspec.structs.replace(known, failures=(*known.failures, outcome))
    rate = outcome.samples_per_s
    return msgspec.structs.replace(
        known,
        samples_per_s=(*known.samples_per_s, rate) if rate is not None else known.samples_per_s,
        first_batch_s=outcome.first_batch_s,
        restart_s=outcome.restart_s if outcome.restart_s is not None else known.restart_s,
        fresh_restart_s=outcome.fresh_restart_s if outcome.fresh_restart_s is not None else known.fresh_restart_s,
        wait_share=outcome.wait_s / outcome.total_s if outcome.total_s else None,
        workers_bytes=outcome.usage.uss_bytes[1] if outcome.usage and wanted.num_workers else None,
    )


def pins(profile: Profile) -> bool:
    """Whether pinned memory pays: only copies to a GPU gain by it, and only while it computes."""
    device = profile.device
    return device is not None and device["pinned_computing_s"] < _EQUAL * device["pageable_computing_s"]


def threads_worth_a_trial(profile: Profile) -> bool:
    """Whether samples are made by several threads at once, which several workers would multiply."""
    return profile.worker_s > _CHEAP_S and profile.sample_cpu_s > 1.2 * profile.worker_s


def spread(profile: Profile) -> float:
    """The standard deviation of what samples take, as a share of their mean."""
    return statistics.pstdev(profile.sample_s) / max(1e-9, statistics.fmean(profile.sample_s))
