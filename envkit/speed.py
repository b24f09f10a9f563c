"""The speed that a report tells: rates with intervals beside their limit, and what they say about loading."""

import statistics
from collections import defaultdict
from collections.abc import Sequence

import msgspec

from envkit import stats, tuning
from envkit.loads import Limit, Usage
from envkit.report import Point, Report
from envkit.tuning import Profile

_HIDDEN = 0.05
"""Loading is hidden where no more than this share of the time is spent waiting for it."""
_GROWS = 4 << 20
"""Bytes that a worker must have come to hold for itself before it is said that it copies what the dataset holds."""


_COLD = 1.5
"""So much longer must a sample from a cold cache take to be worth a word."""


class Rate(msgspec.Struct, frozen=True, kw_only=True):
    """One configuration: mean samples per second with its 95 % interval, and medians of what else was measured.

    `share` is of the limit, `wait_share` of the time; `cores` are CPU seconds per second of main and of workers.
    """

    workers: int
    samples_per_s: float
    low: float | None
    high: float | None
    limit: Limit | None
    wait_share: float
    start_s: float | None
    first_batch_s: float
    restart_s: float | None
    fresh_restart_s: float | None
    cores: tuple[float, float] | None
    workers_bytes: float | None
    grown_bytes: float | None

    @property
    def share(self) -> float | None:
        """How much of the limit is reached."""
        return self.samples_per_s / self.limit.samples_per_s if self.limit is not None else None


class Curve(msgspec.Struct, frozen=True, kw_only=True):
    """A workload over its worker counts; `step_s` is what a consumer takes for a batch."""

    workload: str
    rates: tuple[Rate, ...]
    batch_size: int
    step_s: float = 0.0
    notes: tuple[str, ...] = ()


def curves(report: Report) -> tuple[Curve, ...]:
    """The curves of all workloads, in the order in which they were measured."""
    found: dict[str, dict[int, list[Point]]] = defaultdict(lambda: defaultdict(list))
    for point in report.points:
        if point.samples_per_s:
            found[point.workload][point.workers].append(point)
    return tuple(_curve(report, name, counts) for name, counts in found.items())


def _curve(report: Report, name: str, counts: dict[int, list[Point]]) -> Curve:
    profile = report.profiles.get(name)
    rates = tuple(_rate(report, profile, counts[workers]) for workers in sorted(counts))
    return Curve(
        workload=name,
        rates=rates,
        batch_size=counts[min(counts)][0].batch_size,
        step_s=profile.step_s if profile else 0.0,
        notes=_notes(rates, profile),
    )


def _rate(report: Report, profile: Profile | None, repeats: Sequence[Point]) -> Rate:
    workers, size = repeats[0].workers, repeats[0].batch_size
    rates = [point.samples_per_s for point in repeats if point.samples_per_s]
    around = stats.interval(rates)
    used = [(point.usage, point.total_s, point.batches) for point in repeats if point.usage is not None]
    return Rate(
        workers=workers,
        samples_per_s=statistics.geometric_mean(rates),
        low=around[0] if around else None,
        high=around[1] if around else None,
        limit=tuning.limit(profile, report.machine, workers, size) if profile else None,
        wait_share=statistics.median(sum(point.waits_s) / point.total_s for point in repeats),
        start_s=_median([point.start_s for point in repeats]) if workers else None,
        first_batch_s=statistics.median(point.first_batch_s for point in repeats),
        restart_s=_median([point.restart_s for point in repeats]),
        fresh_restart_s=_median([point.fresh_restart_s for point in repeats]),
        cores=_cores(used),
        workers_bytes=_median([usage.pss_bytes[1] for usage, _, _ in used]) if workers else None,
        grown_bytes=_median([usage.grown_bytes / workers for usage, _, _ in used]) if workers else None,
    )


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def _cores(used: Sequence[tuple[Usage, float, int]]) -> tuple[float, float] | None:
    """CPU seconds per second, of main and of workers: what the first batches used too is taken per batch."""
    if not used:
        return None
    shares = [(usage, batches / max(1, usage.batches) / total) for usage, total, batches in used]
    main = statistics.median(usage.main_cpu_s * share for usage, share in shares)
    return main, statistics.median(usage.workers_cpu_s * share for usage, share in shares)


def _notes(rates: Sequence[Rate], profile: Profile | None) -> tuple[str, ...]:
    """What the figures of a workload say beyond speed."""
    told = []
    if profile is not None and profile.failed is not None:
        told.append(f"{profile.failed.told} and passed over")
    grown = max((one.grown_bytes or 0 for one in rates), default=0)
    if profile is not None and profile.holds and grown > _GROWS:
        told.append(
            f"each worker came to hold {grown / 1e6:.0f} MB more for itself, and the dataset has "
            f"{'; '.join(profile.holds)}: reading Python objects copies their pages in every worker "
            "(copy-on-write); keep them in an array"
        )
    if profile is not None and profile.cold_s is not None and profile.cold_s > _COLD * profile.mean_s:
        told.append(
            f"a sample takes {profile.cold_s / profile.mean_s:.1f} times as long when its file is in no cache "
            f"({profile.cold_s * 1000:.1f} ms): the first epoch, and data larger than memory, wait for storage"
        )
    if profile is not None and tuning.threads_worth_a_trial(profile):
        threads = profile.sample_cpu_s / profile.worker_s
        told.append(
            f"a sample keeps {threads:.1f} cores busy: its libraries start threads of their own in every worker; "
            "try OMP_NUM_THREADS=1 and cv2.setNumThreads(0), or let envkit tune try it"
        )
    return tuple(told)


def hiding(curve: Curve) -> str:
    """The smallest num_workers that hides loading from the consumer, and what is then the bottleneck."""
    full = curve.batch_size / curve.step_s if curve.step_s else 0.0
    hidden = [one for one in curve.rates if one.wait_share <= _HIDDEN]
    if hidden:
        best = hidden[0]
        return (
            f"num_workers={best.workers} hides loading ({best.wait_share:.0%} of the time is waiting); the bottleneck "
            f"is then the consumer, which takes {curve.step_s * 1000:.0f} ms for a batch ({full:.0f} samples/s)"
        )
    best = max(curve.rates, key=lambda one: one.samples_per_s)
    if best.workers == 0 and len(curve.rates) > 1:
        return (
            f"no worker count that was tried hides loading, and workers do not help: making a sample costs less than "
            f"moving it between processes, or the cores are busy; {best.wait_share:.0%} of the time is waiting"
        )
    by = f", which {_SETS[best.limit.by]}" if best.limit is not None and best.limit.by in _SETS else ""
    return (
        f"no worker count that was tried hides loading; at best {best.wait_share:.0%} of the time is waiting, with "
        f"num_workers={best.workers}: the bottleneck is loading{by}"
    )


_SETS = {
    "workers over latency": "waits for each sample: more workers help",
    "cores over computing": "computes, and has no more cores",
    "memory bandwidth": "moves memory",
    "one process": "is done by the main process: give it workers",
}
