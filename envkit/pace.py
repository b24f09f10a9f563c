"""The speed of two reports compared, like with like: the same workload under the same configuration, and what differs
between the machines that could explain a difference.
"""

import statistics
from collections import defaultdict
from collections.abc import Mapping

import msgspec

from envkit import stats
from envkit.report import Point, Report, changed_versions
from envkit.stats import Change

MARGIN = 0.05
"""Differences smaller than this are the same speed, unless a gate says otherwise."""


class Speed(msgspec.Struct, frozen=True, kw_only=True):
    """One configuration of the benchmark in both reports: median samples/s, and how they compare."""

    workload: str
    workers: int
    before: float
    after: float
    change: Change


class Pace(msgspec.Struct, frozen=True, kw_only=True):
    """All that is to say of speed.

    `unlike` is what differs of the machines, so that a difference is first of all theirs; `suspects` is all that could
    explain one, the likeliest first; `unmatched` are configurations that only one report has; `machine` compares fixed
    work that was run between the points.
    """

    speeds: tuple[Speed, ...] = ()
    unlike: tuple[str, ...] = ()
    suspects: tuple[str, ...] = ()
    unmatched: tuple[str, ...] = ()
    machine: Change | None = None

    def has(self, *answers: str) -> bool:
        """Whether a configuration got one of these answers."""
        return any(one.change.answer in answers for one in self.speeds)


Key = tuple[str, int, int, bool, int | None, bool, str | None]


def compare(before: Report, after: Report, *, margin: float = MARGIN) -> Pace:
    """Compare what both measured."""
    old, new = _rates(before), _rates(after)
    common = sorted(old.keys() & new.keys(), key=lambda key: (key[0], key[1]))
    unlike = _unlike(before, after)
    return Pace(
        speeds=tuple(_speed(key, old[key], new[key], margin) for key in common),
        unlike=unlike,
        suspects=(*unlike, *_others(before, after)),
        unmatched=_unmatched(old, new),
        machine=_machine(before, after),
    )


def _rates(report: Report) -> dict[Key, list[float]]:
    found: dict[Key, list[float]] = defaultdict(list)
    for point in report.points:
        if point.samples_per_s:
            found[_key(point, report)].append(point.samples_per_s)
    return found


def _key(one: Point, report: Report) -> Key:
    """What must be equal for two points to be compared; the start method is a property of the interpreter."""
    consumer = report.consumer
    kept, pinned = one.persistent_workers, one.pin_memory
    return one.workload, one.workers, one.batch_size, kept, one.prefetch_factor, pinned, consumer


def _speed(key: Key, old: list[float], new: list[float], margin: float) -> Speed:
    return Speed(
        workload=key[0],
        workers=key[1],
        before=statistics.median(old),
        after=statistics.median(new),
        change=stats.compare(old, new, margin=margin),
    )


def _unmatched(old: Mapping[Key, list[float]], new: Mapping[Key, list[float]]) -> tuple[str, ...]:
    """Configurations of workloads that both have, but not in the same way."""
    both = {key[0] for key in old} & {key[0] for key in new}
    lone = [key for key in old.keys() ^ new.keys() if key[0] in both]
    return tuple(sorted(_named(key) for key in lone))


def _named(key: Key) -> str:
    workload, workers, size, _, prefetch, _, consumer = key
    deeper = f", prefetch_factor={prefetch}" if prefetch else ""
    consumed = f", consumer {consumer}" if consumer else ""
    return f"{workload}: num_workers={workers}, batch_size={size}{deeper}{consumed}"


_MACHINE = ("machine", "cpu_model", "cores_usable", "cpu_quota_cores")


def _unlike(before: Report, after: Report) -> tuple[str, ...]:
    pairs = [(name, getattr(before.host, name), getattr(after.host, name)) for name in _MACHINE]
    return tuple(f"{name} {old} -> {new}" for name, old, new in pairs if old != new)


_ELSE = ("data_file_system", "memory_limit_bytes", "shm_bytes", "virtual", "kernel")


def _others(before: Report, after: Report) -> tuple[str, ...]:
    """Versions, threads, start method, file system: what may make the same machine slower."""
    versions = [f"{name} {change}" for name, change in changed_versions(before, after).items()]
    settings = [("threads", _threads(before), _threads(after)), ("start method", _method(before), _method(after))]
    settings += [(name, getattr(before.host, name), getattr(after.host, name)) for name in _ELSE]
    names = sorted(before.variables.keys() | after.variables.keys())
    settings += [(name, before.variables.get(name), after.variables.get(name)) for name in names if "THREADS" in name]
    return (*versions, *(f"{name} {old} -> {new}" for name, old, new in settings if old != new))


def _threads(report: Report) -> str | None:
    return report.keys.get("threads")


def _method(report: Report) -> str | None:
    """How workers were started."""
    methods = {point.start_method for point in report.points if point.start_method}
    return ", ".join(sorted(methods)) or None


def _machine(before: Report, after: Report) -> Change | None:
    if not before.reference or not after.reference:
        return None
    return stats.compare(before.reference, after.reference)
