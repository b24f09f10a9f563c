"""The tuner's model: what a loader costs, which settings are worth a trial, and which one to take. Pure numbers."""

import math
import statistics
from collections.abc import Mapping, Sequence

import msgspec

from envkit import stats
from envkit.stats import Change

_EQUAL = 0.97
"""Settings within so much of the best are equals: the one with the fewest workers is taken."""
_HOPELESS = 0.7
"""A setting that the model puts below so much of its best is not tried."""
_SHARE = 0.8
"""So much of what is free may be planned with."""
_CHEAP_S = 200e-6
"""Samples that take less are moved between processes for longer than they are made."""


class Setting(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """Arguments of a DataLoader."""

    num_workers: int
    prefetch_factor: int | None
    persistent_workers: bool
    batch_size: int

    @property
    def python(self) -> str:
        """The arguments as Python to paste."""
        told = [f"batch_size={self.batch_size}", f"num_workers={self.num_workers}"]
        if self.num_workers:
            told += [f"prefetch_factor={self.prefetch_factor}", f"persistent_workers={self.persistent_workers}"]
        return f"DataLoader(dataset, {', '.join(told)})"


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


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """What single samples and a batch cost in the main process: seconds and bytes; and the user's own setting."""

    sample_s: tuple[float, ...]
    mean_s: float
    sample_cpu_s: float
    collate_s: float
    batch_bytes: int
    tensors: int
    length: int | None = None
    present: Setting | None = None
    took_s: float = 0.0


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """One trial. `worker_bytes` is what one worker holds for itself."""

    samples_per_s: float | None
    batches: int
    total_s: float
    wait_s: float
    first_batch_s: float
    batch_bytes: int
    tensors: int
    worker_bytes: int | None = None
    took_s: float = 0.0


class Tried(msgspec.Struct, frozen=True, kw_only=True):
    """A setting with the rates of its trials, or why it has none."""

    setting: Setting
    samples_per_s: tuple[float, ...] = ()
    predicted: float | None = None
    first_batch_s: float | None = None
    wait_share: float | None = None
    worker_bytes: int | None = None
    failures: tuple[str, ...] = ()

    @property
    def rate(self) -> float:
        """The median rate; 0 for one that failed."""
        return statistics.median(self.samples_per_s) if self.samples_per_s and not self.failures else 0.0


def predicted(profile: Profile, machine: Machine, workers: int, batch_size: int) -> float:
    """Samples per second by the model: a core makes samples one after the other, cores limit what computes."""
    collate = profile.collate_s / batch_size
    alone = 1 / (profile.mean_s + collate)
    if workers == 0:
        return alone
    return min(workers * alone, machine.cores / max(profile.sample_cpu_s + collate, 1e-9))


def limit(profile: Profile, machine: Machine, workers: int) -> float:
    """Samples per second with nothing in between: workers over latency, cores over computing."""
    if workers == 0:
        return 1 / profile.mean_s
    return min(workers / profile.mean_s, machine.cores / max(profile.sample_cpu_s, 1e-9))


def most_workers(profile: Profile, machine: Machine, worker_bytes: int | None) -> tuple[int, tuple[str, ...]]:
    """How many workers fit, and what keeps them from being more: each limit in a sentence."""
    most, why = max(8, 4 * machine.cores), []
    limits: list[tuple[int, str]] = []
    if worker_bytes:
        fit = int(machine.memory_bytes * _SHARE // worker_bytes) - 1
        limits.append((fit, f"memory: a worker takes {worker_bytes >> 20} MiB"))
    if machine.shm_bytes is not None and profile.batch_bytes:
        fit = int(machine.shm_bytes * _SHARE // (2 * profile.batch_bytes))
        told = (
            f"/dev/shm: two batches of {profile.batch_bytes / 1e6:.1f} MB per worker in {machine.shm_bytes >> 20} MiB"
        )
        limits.append((fit, told))
    if machine.open_files is not None and profile.tensors:
        fit = int(machine.open_files * _SHARE // (2 * profile.tensors + 4))
        limits.append((fit, f"open files: {profile.tensors} tensors per batch, {machine.open_files} files"))
    for fit, told in limits:
        if fit < most:
            most = max(0, fit)
            why.append(f"no more than {most} workers, for {told}")
    return most, tuple(why)


def candidates(profile: Profile, machine: Machine, batch_size: int, most: int, step_s: float) -> tuple[Setting, ...]:
    """The settings that the model finds worth a trial, few of them."""
    collate = profile.collate_s / batch_size
    busy = max(profile.sample_cpu_s + collate, 1e-9)
    saturated = math.ceil(machine.cores * (profile.mean_s + collate) / busy)
    counts = {0, 1, machine.cores, saturated, (machine.cores + min(saturated, most)) // 2}
    if step_s > 0:
        needed = math.ceil(batch_size * (profile.mean_s + collate) / step_s)
        counts |= {needed, needed + 1}
    cheap = profile.mean_s < _CHEAP_S
    if cheap:
        counts = {0, 1, min(2, machine.cores)}
    fitting = sorted({min(count, most) for count in counts})
    hopes = {count: predicted(profile, machine, count, batch_size) for count in fitting}
    wanted = max(hopes.values()) if not step_s else min(max(hopes.values()), batch_size / step_s)
    # What moving samples between processes costs is not in the model: for cheap ones it has no say.
    kept = [count for count in fitting if cheap or hopes[count] >= _HOPELESS * wanted] or [max(fitting)]
    return tuple(setting(count, batch_size) for count in kept)


def refined(tried: Sequence[Tried], most: int) -> tuple[Setting, ...]:
    """New settings near the best so far: half-way to its neighbours, beyond the last, and deeper prefetching."""
    ranked = sorted(tried, key=lambda one: -one.rate)
    if not ranked or not ranked[0].rate:
        return ()
    best = ranked[0].setting
    known = sorted({one.setting.num_workers for one in tried})
    counts: set[int] = set()
    for near in known:
        if near != best.num_workers and abs(near - best.num_workers) > 1:
            counts.add((near + best.num_workers) // 2)
    if best.num_workers == known[-1]:
        counts.add(min(most, 2 * best.num_workers))
    nearest = sorted(counts - set(known), key=lambda count: abs(count - best.num_workers))[:2]
    new = [setting(count, best.batch_size) for count in nearest]
    if best.num_workers:
        new.append(setting(best.num_workers, best.batch_size, prefetch=4))
    return tuple(new)


def survivors(tried: Sequence[Tried], count: int) -> tuple[Setting, ...]:
    """The settings that may still be the best, the best first."""
    best = max((one.rate for one in tried), default=0.0)
    alive = [one for one in tried if one.rate >= 0.85 * best and one.rate > 0]
    return tuple(one.setting for one in sorted(alive, key=lambda one: -one.rate)[:count])


def choose(tried: Sequence[Tried], step_s: float) -> Tried:
    """The setting to take: among equals the one with the fewest workers, then the least prefetching.

    With a consumer that takes `step_s` for a batch, all that keep up with it are equals.
    """
    best = max(one.rate for one in tried)
    enough = _EQUAL * (min(best, tried[0].setting.batch_size / step_s) if step_s > 0 else best)
    return min((one for one in tried if one.rate >= enough), key=lambda one: one.setting)


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
        wait_share=outcome.wait_s / outcome.total_s if outcome.total_s else None,
        worker_bytes=outcome.worker_bytes,
    )
