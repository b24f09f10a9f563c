"""Dataset in, arguments out: a profile, the settings that the model finds worth it, a race of short trials."""

import math
import statistics
import tempfile
from collections.abc import Sequence
from typing import Any

import msgspec

from envkit import codec, inside, owndata, tuning
from envkit.errors import InputError
from envkit.inside import Event, Limits, Target
from envkit.progress import Step, Tell, silent
from envkit.stats import Change
from envkit.tuning import Machine, Outcome, Profile, Setting, Tried

_PROFILE_S = 1.0
_TRIAL_S = 0.6
_START_S = 1.5
"""What one more payload costs: an interpreter that imports torch."""


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    """What to tune: the user's data or a bundled workload; the consumer's time for a batch; how long it may take."""

    source: owndata.Source | None = None
    workload: str | None = None
    batch_size: int | None = None
    step_s: float = 0.0
    budget_s: float = 60.0
    timeout_s: float = 30.0


class Throughput(msgspec.Struct, frozen=True, kw_only=True):
    """Samples per second of the chosen setting: predicted, measured (median, least, most), and the limit."""

    predicted: float
    measured: float
    least: float
    most: float
    limit: float

    @property
    def share(self) -> float:
        """How much of the limit is reached."""
        return self.measured / self.limit if self.limit else math.nan


class Tuned(msgspec.Struct, frozen=True, kw_only=True):
    """The answer. `keep` says that the present setting is as good; `notes` say what limited the choice."""

    arguments: Setting
    throughput: Throughput
    keep: bool
    present: Setting
    gain: Change | None
    tried: tuple[Tried, ...]
    notes: tuple[str, ...] = ()


def tune(target: Target, wish: Wish, machine: Machine, *, tell: Tell = silent) -> Tuned:
    """Find the arguments of a DataLoader that load fastest with the fewest workers.

    Raises InputError when the data cannot be loaded with any setting.
    """
    with tempfile.TemporaryDirectory(prefix="envkit-tune-") as folder:
        race = _Race(target, wish, machine, folder, tell)
        race.profile_it()
        race.run(race.first())
        race.run(tuning.refined(race.tried, race.most))
        for count in (4, 3):
            if race.spent_s < wish.budget_s:
                race.run((*tuning.survivors(race.tried, count), race.present))
        return race.answer()


class _Race:
    """The trials so far, and the time they took."""

    def __init__(self, target: Target, wish: Wish, machine: Machine, folder: str, tell: Tell) -> None:
        self._target, self._wish, self._machine, self._folder, self._tell = target, wish, machine, folder, tell
        self._known: dict[Setting, Tried] = {}
        self._profile = Profile(sample_s=(), mean_s=0, sample_cpu_s=0, collate_s=0, batch_bytes=0, tensors=0)
        self._notes: tuple[str, ...] = ()
        self.spent_s, self.most = 0.0, 0
        self.present = tuning.setting(0, 1)

    @property
    def tried(self) -> tuple[Tried, ...]:
        return tuple(self._known.values())

    def profile_it(self) -> None:
        """Time single samples in one process."""
        batch = self._wish.batch_size or 32
        told = self._ask([{"profile": True, "seconds": _PROFILE_S, "batch_size": batch}])[0]
        if isinstance(told, str):
            raise InputError(f"the samples cannot be read: {told}", hint="envkit probe --dataset says what is wrong")
        self._profile = codec.convert(told, Profile, "the payload")
        if not self._profile.sample_s:
            raise InputError("the dataset has no samples")
        own = self._profile.present
        batch = self._wish.batch_size or (own.batch_size if own else batch)
        self.present = msgspec.structs.replace(own, batch_size=batch) if own else tuning.setting(0, batch)
        self._fit(None)

    def first(self) -> tuple[Setting, ...]:
        batch = self.present.batch_size
        chosen = tuning.candidates(self._profile, self._machine, batch, self.most, self._wish.step_s)
        return tuple(dict.fromkeys((*chosen, self.present)))

    def run(self, settings: Sequence[Setting]) -> None:
        """One trial of each; what one of them needs for its workers may leave room for fewer."""
        failed = {one.setting for one in self.tried if one.failures}
        wanted = [one for one in dict.fromkeys(settings) if one not in failed]
        if not wanted:
            return
        asked = [msgspec.to_builtins(one) | {"seconds": _TRIAL_S, "step_s": self._wish.step_s} for one in wanted]
        for one, told in zip(wanted, self._ask(asked), strict=True):
            outcome = told if isinstance(told, str) else codec.convert(told, Outcome, "the payload")
            self._known[one] = tuning.merged(self._known, one, outcome)
        self._fit(max((one.worker_bytes or 0 for one in self.tried), default=0))

    def _fit(self, worker_bytes: int | None) -> None:
        self.most, self._notes = tuning.most_workers(self._profile, self._machine, worker_bytes)

    def _ask(self, wanted: Sequence[dict[str, Any]]) -> list[Any]:
        """The payload's answers in the order of the questions: a mapping, or a text that says what failed."""
        answers: dict[int, Any] = {}

        def take(event: Event) -> None:
            match event["event"]:
                case "start":
                    self._tell(Step(stage="benchmark", item=_named(wanted, event["id"])))
                case "trial":
                    answers[event["number"]] = event["trial"]
                    self.spent_s += event["trial"]["took_s"]
                case "trial-failed":
                    answers[event["number"]] = event["reason"]

        limits = Limits(step_s=2 * self._wish.timeout_s + 60)
        death = inside.ask(
            self._target.python, self._question(wanted), environ=self._target.environ, on_event=take, limits=limits
        )
        self.spent_s += _START_S
        lost = death.detail if death else "it was not tried"
        return [answers.get(number, lost) for number in range(len(wanted))]

    def _question(self, wanted: Sequence[dict[str, Any]]) -> dict[str, Any]:
        source: dict[str, Any] = {"workload": self._wish.workload, "folder": self._folder}
        if self._wish.source is not None:
            source = owndata.question(self._wish.source, self._wish.timeout_s)
        trials = {"source": source, "wanted": list(wanted), "timeout_s": self._wish.timeout_s}
        return {"tasks": ["trials"], "trials": trials, "memory_bytes": self._machine.memory_bytes}

    def answer(self) -> Tuned:
        """The choice, and how it compares with the present setting."""
        alive = [one for one in self.tried if one.rate and one.setting.num_workers <= self.most]
        if not alive:
            why = "; ".join(dict.fromkeys(reason for one in self.tried for reason in one.failures))
            raise InputError(f"no setting loads: {why}", hint="envkit probe --dataset says what is wrong")
        chosen = tuning.choose(alive, self._wish.step_s)
        gain = tuning.gain(self._known.get(self.present), chosen)
        current = self._known.get(self.present)
        keep = chosen.setting == self.present or (
            gain is not None and gain.answer != "better" and current is not None and current in alive
        )
        taken = current if keep and current is not None else chosen
        return Tuned(
            arguments=taken.setting,
            throughput=self._throughput(taken),
            keep=keep,
            present=self.present,
            gain=gain,
            tried=tuple(sorted(map(self._with_prediction, self.tried), key=lambda one: one.setting)),
            notes=self._notes,
        )

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
            limit=tuning.limit(self._profile, self._machine, one.setting.num_workers),
        )


def _named(wanted: Sequence[dict[str, Any]], id: str) -> str:
    one = wanted[int(id.rpartition(".")[2])]
    if one.get("profile"):
        return "single samples"
    return f"num_workers={one['num_workers']} prefetch_factor={one['prefetch_factor']}"
