"""Workloads and worker counts in, raw points out: interleaved repeats, every one in a process of its own."""

from collections.abc import Generator, Mapping, Sequence
from typing import Any

import msgspec

from envkit import owndata, trials, tuning
from envkit.inside import Target
from envkit.progress import Tell
from envkit.report import Measured, Point
from envkit.trials import Failure, Outcomes, Round, Subject
from envkit.tuning import Outcome, Profile, Setting

REPEATS = 5
OWN = "own data"
"""What the user's data is called where workloads have names."""
EVERYDAY = ("latency", "jpeg")
"""The workloads of every report."""
WORKLOADS = (
    "latency",
    "jpeg",
    "cpu",
    "tiny",
    "large",
    "uneven",
    "text",
    "iterable",
    "hdf5",
    "lmdb",
    "memmap",
    "copy-on-write",
)
_WAITING = ("latency", "uneven")
_BATCH_SIZE = 8
_PROFILE_S = 0.4
_REFERENCE_S = 0.2
_RESTARTS = 2
"""In so many repeats the start of an epoch is timed too: it costs three starts of the workers."""
_MOST_WORKERS = 32


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What is measured: worker counts by workload, repeats, seconds of steady state for each point, the consumer.

    `source` or `images`, a folder, is measured under the name OWN. `batch_size` is None for the loader's own, or 8.
    """

    workers: Mapping[str, tuple[int, ...]]
    repeats: int = REPEATS
    seconds: float = 0.3
    batch_size: int | None = None
    source: owndata.Source | None = None
    images: str | None = None
    consumer: trials.Consumer = trials.NO_CONSUMER
    timeout_s: float = 60.0


def plan(usable_cores: int, workloads: Sequence[str] = EVERYDAY) -> Plan:
    """0, 1, 2, 4, ... up to the usable cores; for samples that only wait, up to four times as many."""
    return Plan(workers={name: counts(usable_cores, waiting=name in _WAITING) for name in workloads})


def counts(usable_cores: int, *, waiting: bool) -> tuple[int, ...]:
    """The worker counts of a workload."""
    doubled = [1 << power for power in range(usable_cores.bit_length()) if 1 << power <= usable_cores]
    more = [count for count in (usable_cores * 2, usable_cores * 4) if count <= max(_MOST_WORKERS, usable_cores)]
    return tuple(sorted({0, *doubled, usable_cores, *(more if waiting else ())}))


def bench(target: Target, wanted: Plan, memory_bytes: int, tell: Tell) -> Measured:
    """Measure a plan. What fails is told by workload and worker count; an interruption keeps what there is."""
    subject = Subject(
        source=wanted.source,
        images=wanted.images,
        consumer=wanted.consumer,
        timeout_s=wanted.timeout_s,
        memory_bytes=memory_bytes,
    )
    return trials.run(target, subject, _Measuring(wanted).all(), tell)


class _Measuring:
    """The points so far."""

    def __init__(self, wanted: Plan) -> None:
        self._plan = wanted
        self._profiles: dict[str, Profile] = {}
        self._points: list[Point] = []
        self._reference: list[float] = []
        self._unmeasured: dict[str, str] = {}
        self._interrupted = False

    def all(self) -> Generator[Round, Outcomes, Measured]:
        """Profiles first; then repeat by repeat, the machine itself and each point of each workload."""
        names = list(self._plan.workers)
        asked = [
            {"kind": "profile", "seconds": _PROFILE_S, "batch_size": self._plan.batch_size or _BATCH_SIZE}
            | _workload(name)
            for name in names
        ]
        for name, told in zip(names, (yield Round(wanted=tuple(asked))), strict=True):
            self._take_profile(name, trials.as_record(told, Profile))
        for repeat in range(self._plan.repeats):
            settings = [] if self._interrupted else self._settings()
            if settings:
                yield from self._repeat(repeat, settings)
        return Measured(
            points=tuple(self._points),
            profiles=self._profiles,
            reference=tuple(self._reference),
            unmeasured=self._unmeasured,
            consumer=self._plan.consumer.told,
            interrupted=self._interrupted,
        )

    def _repeat(self, repeat: int, settings: list[tuple[str, Setting]]) -> Generator[Round, Outcomes, None]:
        machine: dict[str, Any] = {"kind": "reference", "seconds": _REFERENCE_S}
        runs = [self._question(name, repeat, one) for name, one in settings]
        reference, *told = yield Round(wanted=(machine, *runs))
        if not isinstance(reference, Failure):
            self._reference.append(reference["rounds_per_s"])
        for (name, one), outcome in zip(settings, told, strict=True):
            self._take(name, repeat, one, trials.as_record(outcome, Outcome))

    def _question(self, name: str, repeat: int, one: Setting) -> dict[str, Any]:
        asked: dict[str, Any] = {field: getattr(one, field) for field in one.__struct_fields__}
        return {
            **asked,
            **_workload(name),
            "seconds": self._plan.seconds,
            "restart": True,
            "passing": self._passing(name),
        }

    def _passing(self, name: str) -> bool:
        return self._profiles[name].failed is not None

    def _take_profile(self, name: str, found: Profile | Failure) -> None:
        match found:
            case Failure(kind="interrupted"):
                self._interrupted = True
            case Failure():
                self._unmeasured[name] = found.reason
            case Profile(sample_s=()):
                self._unmeasured[name] = "it has no samples"
            case _:
                self._profiles[name] = found

    def _settings(self) -> list[tuple[str, Setting]]:
        """Each point of the plan that has not failed before."""
        return [
            (name, self._setting(name, workers))
            for name, several in self._plan.workers.items()
            for workers in several
            if name in self._profiles and _key(name, workers) not in self._unmeasured
        ]

    def _setting(self, name: str, workers: int) -> Setting:
        """The loader's own batch size and way to start workers are kept."""
        own = self._profiles[name].present
        size = self._plan.batch_size or (own.batch_size if own else _BATCH_SIZE)
        one = tuning.setting(workers, size)
        if own is None:
            return one
        return msgspec.structs.replace(one, start_method=own.start_method, pin_memory=own.pin_memory)

    def _take(self, name: str, repeat: int, one: Setting, found: Outcome | Failure) -> None:
        if isinstance(found, Failure):
            self._interrupted = self._interrupted or found.kind == "interrupted"
            if found.kind != "interrupted":
                self._unmeasured[_key(name, one.num_workers)] = found.reason
            return
        self._points.append(_point(name, repeat, one, found))


def _workload(name: str) -> dict[str, str]:
    return {} if name == OWN else {"workload": name}


def _key(name: str, workers: int) -> str:
    return f"{name}, num_workers={workers}"


def _point(name: str, repeat: int, one: Setting, found: Outcome) -> Point:
    return Point(
        workload=name,
        repeat=repeat,
        workers=one.num_workers,
        batch_size=one.batch_size,
        batches=found.batches,
        persistent_workers=one.persistent_workers,
        prefetch_factor=one.prefetch_factor,
        pin_memory=one.pin_memory,
        start_method=found.start_method,
        first_batch_s=found.first_batch_s,
        waits_s=found.waits_s,
        restart_s=found.restart_s,
        total_s=found.total_s,
        samples_per_s=found.samples_per_s,
        start_s=found.start_s,
        fresh_restart_s=found.fresh_restart_s,
        batch_bytes=found.batch_bytes,
        usage=found.usage,
    )
