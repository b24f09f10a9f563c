"""Dataset in, arguments out: a profile, the settings that the model finds worth it, a race of short trials."""

import math
import statistics
from collections.abc import Generator, Mapping, Sequence
from typing import Any

import msgspec

from envkit import trials, tuning
from envkit.errors import InputError
from envkit.inside import Target
from envkit.loads import Limit
from envkit.progress import Tell, silent
from envkit.stats import Change
from envkit.trials import Failure, Outcomes, Round
from envkit.tuning import Machine, Outcome, Profile, Setting, Tried

_PROFILE_S = 0.4
_TRIAL_S = 0.3
_START_S = 1.5
"""What one more payload costs: an interpreter that imports torch."""
_ENOUGH = 3
"""So many trials of a setting are enough for its interval; those that are compared get them."""
_STRIDE = 1009
"""So many samples further on begins the next repeat."""
_CLOSE = 0.75
"""A present setting so near to the best is tried again: it may be as good."""


class Wish(trials.Wish, frozen=True, kw_only=True):
    """What to tune; `batch_size` is None for the loader's own."""

    batch_size: int | None = None


class Throughput(msgspec.Struct, frozen=True, kw_only=True):
    """Samples per second of the chosen setting: predicted, measured (median, least, most), and the limit."""

    predicted: float
    measured: float
    least: float
    most: float
    limit: Limit

    @property
    def share(self) -> float:
        """How much of the limit is reached."""
        return self.measured / self.limit.samples_per_s if self.limit.samples_per_s else math.nan


class Tuned(msgspec.Struct, frozen=True, kw_only=True):
    """The answer. `keep` says that the present setting is as good; `notes` say what limited the choice."""

    arguments: Setting
    throughput: Throughput
    keep: bool
    present: Setting
    gain: Change | None
    tried: tuple[Tried, ...]
    notes: tuple[str, ...] = ()
    interrupted: bool = False


def tune(target: Target, wish: Wish, machine: Machine, *, tell: Tell = silent) -> Tuned:
    """Find the arguments of a DataLoader that load fastest with the fewest workers.

    Raises InputError when the data cannot be loaded with any setting.
    """
    return trials.run(target, wish.subject(machine.memory_bytes), _Race(wish, machine).all(), tell)


Steps = Generator[Round, Outcomes, None]


class _Race:
    """The trials so far, and the time they took."""

    def __init__(self, wish: Wish, machine: Machine) -> None:
        self._wish, self._machine = wish, machine
        self._known: dict[Setting, Tried] = {}
        self._profile = Profile(
            sample_s=(), mean_s=0, worker_s=0, sample_cpu_s=0, collate_s=0, batch_bytes=0, tensors=0
        )
        self._notes: list[str] = []
        self._limits: tuple[str, ...] = ()
        self._spent_s, self._most = _START_S, 0
        self._passing, self._interrupted, self._late = False, False, False
        self._present = tuning.setting(0, 1)

    def all(self) -> Generator[Round, Outcomes, Tuned]:
        """The whole race."""
        yield from self._profiling()
        first = tuning.candidates(self._profile, self._machine, self._present.batch_size, self._most)
        yield from self._try([*map(self._started, first), self._present])
        if not any(one.rate and one.setting.num_workers for one in self._tried):
            yield from self._other_start()
        yield from self._try(self._nearby())
        yield from self._fewer_threads()
        yield from self._finals()
        yield from self._epochs()
        return self._answer()

    @property
    def _tried(self) -> tuple[Tried, ...]:
        return tuple(self._known.values())

    @property
    def _alive(self) -> list[Tried]:
        return [one for one in self._tried if one.rate and one.setting.num_workers <= self._most]

    def _profiling(self) -> Steps:
        """Time single samples in one process."""
        batch = self._wish.batch_size or 32
        yield from self._profile_with(batch)
        own = self._profile.present
        if self._wish.batch_size is None and own is not None and own.batch_size != batch:
            yield from self._profile_with(own.batch_size)
        batch = self._wish.batch_size or (own.batch_size if own else batch)
        self._present = msgspec.structs.replace(own, batch_size=batch) if own else tuning.setting(0, batch)
        self._fit(None)
        if self._profile.failed is not None:
            self._passing = True
            self._notes.append(f"{self._profile.failed.told} and passed over")

    def _profile_with(self, batch: int) -> Steps:
        (told,) = yield Round(wanted=({"kind": "profile", "seconds": _PROFILE_S, "batch_size": batch},))
        found = trials.as_record(told, Profile)
        if isinstance(found, Failure):
            if found.kind == "interrupted":
                raise KeyboardInterrupt
            raise InputError(
                f"the samples cannot be read: {found.reason}", hint="envkit probe --dataset says what is wrong"
            )
        if not found.sample_s:
            raise InputError("the dataset has no samples")
        self._profile = found
        self._spent_s += found.took_s

    def _try(self, settings: Sequence[Setting], *, threads: int | None = None, **more: Any) -> Steps:
        """One trial of each; what one of them needs for its workers may leave room for fewer."""
        failed = {one.setting for one in self._tried if one.failures}
        wanted = [one for one in dict.fromkeys(settings) if one not in failed]
        if not wanted or self._interrupted:
            return
        if self._spent_s > self._wish.budget_s and self._alive:
            self._late = True
            return
        told = yield Round(wanted=tuple(self._question(one, more) for one in wanted), threads=threads)
        again = []
        for one, outcome in zip(wanted, told, strict=True):
            found = trials.as_record(outcome, Outcome)
            if isinstance(found, Failure) and found.kind == "interrupted":
                self._interrupted = True
            elif isinstance(found, Failure) and found.kind == "error" and not self._passing:
                again.append(one)
                reason = found.reason
            else:
                self._take(one, found)
        self._fit(self._worker_bytes())
        if again:
            # A sample that the profile did not meet: passed over from now on.
            self._passing = True
            yield from self._try(again, threads=threads, **more)
            if any(self._known[one].rate for one in again if one in self._known):
                self._notes.append(f"samples that could not be read were passed over: {reason}")
            else:
                self._passing = False

    def _question(self, one: Setting, more: Mapping[str, Any]) -> dict[str, Any]:
        asked: dict[str, Any] = {name: getattr(one, name) for name in one.__struct_fields__}
        known = self._known.get(one)
        # Every repeat begins at other samples, the same for all settings: where costs differ, few are no measure.
        offset = len(known.samples_per_s) * _STRIDE if known else 0
        seconds = _TRIAL_S * min(3.0, max(1.0, 1.5 * tuning.spread(self._profile)))
        return {**asked, "seconds": seconds, "passing": self._passing, "offset": offset, **more}

    def _take(self, one: Setting, found: Outcome | Failure) -> None:
        self._spent_s += found.took_s if isinstance(found, Outcome) else 0.5
        self._known[one] = tuning.merged(self._known, one, found.reason if isinstance(found, Failure) else found)

    def _worker_bytes(self) -> int:
        held = [one.workers_bytes // one.setting.num_workers for one in self._tried if one.workers_bytes]
        return max(held, default=0)

    def _fit(self, worker_bytes: int | None) -> None:
        self._most, self._limits = tuning.most_workers(self._profile, self._machine, worker_bytes)

    def _started(self, one: Setting) -> Setting:
        """Who names a way to start workers has a reason: it is kept."""
        method = self._present.start_method if one.num_workers else None
        return msgspec.structs.replace(one, start_method=method)

    def _other_start(self) -> Steps:
        """Workers that hang or die as copies of this process may live when they are started anew."""
        workers = min(self._machine.cores, self._most)
        failed = any(one.failures for one in self._tried if one.setting.num_workers)
        if not workers or not failed or self._present.start_method == "spawn":
            return
        anew = msgspec.structs.replace(tuning.setting(workers, self._present.batch_size), start_method="spawn")
        yield from self._try([anew])
        if self._known.get(anew) and self._known[anew].rate:
            self._notes.append("workers fail as copies of the main process (fork), and work when started anew (spawn)")

    def _nearby(self) -> tuple[Setting, ...]:
        best = max(self._alive, key=lambda one: one.rate, default=None)
        workers = best.setting.num_workers if best else 0
        return tuning.refined(self._alive, self._most, tuning.deepest(self._profile, self._machine, workers))

    def _fewer_threads(self) -> Steps:
        """Libraries that use all cores in every worker get in each other's way."""
        best = max(self._alive, key=lambda one: one.rate, default=None)
        if best is None or not best.setting.num_workers or not tuning.threads_worth_a_trial(self._profile):
            return
        one = msgspec.structs.replace(best.setting, threads=1)
        yield from self._try([one, one], threads=1)
        if self._known.get(one) and self._known[one].rate > 1.05 * best.rate:
            self._notes.append(
                f"samples are made by several threads in each worker; with one thread {self._known[one].rate:.0f} "
                f"samples/s instead of {best.rate:.0f}: set OMP_NUM_THREADS=1 (and cv2.setNumThreads(0)) in the workers"
            )

    def _finals(self) -> Steps:
        """Repeats of those that may still be the best, and of the present setting where it is near, in turns."""
        for count in (4, 3, 2):
            left = list(tuning.survivors([one for one in self._alive if not one.setting.threads], count))
            best = max((one.rate for one in self._alive), default=0.0)
            present = self._known.get(self._present)
            if present is not None and present.setting not in left and present.rate > _CLOSE * best:
                left.append(present.setting)
            if len(left) == 1 and len(self._known[left[0]].samples_per_s) >= 2:
                left = []
            enough = [one for one in left if len(self._known[one].samples_per_s) >= _ENOUGH]
            yield from self._try([one for one in left if one not in enough])
        # An interval of few repeats is wide, however clear the case.
        while (lone := self._known.get(self._present)) and 0 < len(lone.samples_per_s) < _ENOUGH and not lone.failures:
            yield from self._try([self._present])
            if self._known[self._present] == lone:
                return

    def _epochs(self) -> Steps:
        """What the start of an epoch costs with the choice, with and without workers that stay."""
        if self._alive:
            chosen = tuning.choose(self._alive, self._step_s)
            if chosen.setting.num_workers and self._wish.source is not None:
                yield from self._try([chosen.setting], threads=chosen.setting.threads, restart=True)

    @property
    def _step_s(self) -> float:
        return self._profile.step_s

    def _answer(self) -> Tuned:
        """The choice, and how it compares with the present setting."""
        if not self._alive:
            if self._interrupted:
                raise KeyboardInterrupt
            why = "; ".join(dict.fromkeys(reason for one in self._tried for reason in one.failures))
            raise InputError(f"no setting loads: {why}", hint="envkit probe --dataset says what is wrong")
        chosen = tuning.choose(self._alive, self._step_s)
        current = self._known.get(self._present)
        gain = tuning.gain(current, chosen)
        keep = chosen.setting == self._present or (
            gain is not None and gain.answer != "better" and current is not None and current in self._alive
        )
        if keep and self._late and chosen.setting != self._present:
            self._notes.append(
                f"the time was up before num_workers={chosen.setting.num_workers} was tried often enough: "
                f"{chosen.rate:.0f} samples/s so far (--budget)"
            )
        taken = current if keep and current is not None else chosen
        return Tuned(
            arguments=taken.setting if keep else self._finished(taken),
            throughput=self._throughput(taken),
            keep=keep,
            present=self._present,
            gain=gain,
            tried=tuple(sorted(map(self._with_prediction, self._tried), key=lambda one: one.setting.cost)),
            notes=(*self._limits, *self._notes),
            interrupted=self._interrupted,
        )

    def _finished(self, one: Tried) -> Setting:
        """The arguments that trials do not decide: pinned memory, and workers that stay only where that pays."""
        stay = one.setting.persistent_workers and not (
            one.restart_s is not None and one.fresh_restart_s is not None and one.fresh_restart_s < one.restart_s
        )
        return msgspec.structs.replace(one.setting, pin_memory=tuning.pins(self._profile), persistent_workers=stay)

    def _with_prediction(self, one: Tried) -> Tried:
        return msgspec.structs.replace(one, predicted=self._predicted(one))

    def _predicted(self, one: Tried) -> float:
        return tuning.predicted(self._profile, self._machine, one.setting.num_workers, one.setting.batch_size)

    def _throughput(self, one: Tried) -> Throughput:
        return Throughput(
            predicted=self._predicted(one),
            measured=statistics.median(one.samples_per_s),
            least=min(one.samples_per_s),
            most=max(one.samples_per_s),
            limit=tuning.limit(self._profile, self._machine, one.setting.num_workers, one.setting.batch_size),
        )
