"""Short runs of DataLoaders in a target environment, asked for in rounds: what comes next may depend on what came.

A race is a generator: it yields rounds, and is sent the outcomes of each.
"""

import tempfile
from collections.abc import Generator, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from envkit import codec, inside, owndata
from envkit.inside import Event, Limits, Target
from envkit.progress import Step, Tell

T = TypeVar("T")

BUNDLED = ("cnn", "vit")
"""The models that envkit brings."""


class Consumer(msgspec.Struct, frozen=True, kw_only=True):
    """What takes the batches: a pause of some seconds, a bundled model, or the user's own; nothing at all."""

    step_s: float = 0.0
    bundled: str | None = None
    model: owndata.Source | None = None

    @property
    def told(self) -> str | None:
        """The consumer for people; None where there is none."""
        pause = f"{self.step_s * 1000:g} ms for a batch" if self.step_s else None
        return self.model.text if self.model is not None else self.bundled or pause

    def question(self, timeout_s: float) -> dict[str, Any]:
        """What the payload is asked."""
        model = owndata.question(self.model, timeout_s) if self.model is not None else None
        return {"step_s": self.step_s, "bundled": self.bundled, "model": model}


NO_CONSUMER = Consumer()
_THREADS = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """Why a trial has no outcome."""

    kind: str
    reason: str


class Round(msgspec.Struct, frozen=True, kw_only=True):
    """Trials to be run one after the other; `threads` is what libraries may use in them, None as they are."""

    wanted: tuple[Mapping[str, Any], ...]
    threads: int | None = None


class Subject(msgspec.Struct, frozen=True, kw_only=True):
    """What is loaded: the user's data, or bundled workloads, made in `folder`; and the consumer. Seconds, bytes."""

    source: owndata.Source | None = None
    workload: str | None = None
    images: str | None = None
    consumer: Consumer = NO_CONSUMER
    timeout_s: float = 30.0
    memory_bytes: int | None = None
    folder: str | None = None

    def question(self, wanted: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """What the payload is asked for one round."""
        source: dict[str, Any] = {"workload": self.workload, "folder": self.folder}
        if self.images is not None:
            source |= {"workload": "images", "folder": self.images}
        if self.source is not None:
            source |= owndata.question(self.source, self.timeout_s)
        return {
            "source": source,
            "consumer": self.consumer.question(self.timeout_s),
            "wanted": list(wanted),
            "timeout_s": self.timeout_s,
        }


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    """What a tuner is asked: the user's data or a bundled workload, the consumer; seconds for all and for one trial."""

    source: owndata.Source | None = None
    workload: str | None = None
    consumer: Consumer = NO_CONSUMER
    budget_s: float = 60.0
    timeout_s: float = 30.0

    def subject(self, memory_bytes: int) -> Subject:
        """What its trials load; they may take so much memory."""
        return Subject(
            source=self.source,
            workload=self.workload,
            consumer=self.consumer,
            timeout_s=self.timeout_s,
            memory_bytes=memory_bytes,
        )


Outcomes = list[Any]
"""For each trial of a round what the payload told, or a Failure."""
Race = Generator[Round, Outcomes, T]


def run(target: Target, subject: Subject, race: "Race[T]", tell: Tell) -> T:
    """Run a race to its end: in one process of the target as long as the rounds need the same variables.

    Where the subject names no folder, there is one for as long as the race takes.
    """
    if subject.folder is None:
        with tempfile.TemporaryDirectory(prefix="envkit-trials-") as folder:
            return run(target, msgspec.structs.replace(subject, folder=folder), race, tell)
    state = _State(race)
    while state.round is not None:
        try:
            _segment(target, subject, state, tell)
        except KeyboardInterrupt:
            # The race keeps what it has, and has to end.
            state.finish(Failure(kind="interrupted", reason="interrupted"))
            if state.round is not None:
                raise
    return state.answer  # type: ignore[no-any-return]


class _State:
    """The round at hand and its outcomes so far; the answer once there is no round left."""

    def __init__(self, race: "Race[Any]") -> None:
        self._race = race
        self.round: Round | None = None
        self.answer: Any = None
        self.outcomes: dict[int, Any] = {}
        self._send(None)

    def finish(self, lost: Failure) -> None:
        """Hand the outcomes to the race; trials without one are lost."""
        assert self.round is not None
        self._send([self.outcomes.get(number, lost) for number in range(len(self.round.wanted))])

    def _send(self, outcomes: Outcomes | None) -> None:
        self.outcomes = {}
        try:
            self.round = self._race.send(outcomes)  # type: ignore[arg-type]
        except StopIteration as end:
            self.round, self.answer = None, end.value


_LOST = Failure(kind="lost", reason="it was not tried")


def _segment(target: Target, subject: Subject, state: _State, tell: Tell) -> None:
    """Rounds in one process: until another needs other variables, or the process dies."""
    assert state.round is not None
    threads = state.round.threads

    def take(event: Event) -> None:
        assert state.round is not None
        match event["event"]:
            case "start":
                tell(Step(stage="benchmark", item=_named(state.round.wanted[int(event["id"].rpartition(".")[2])])))
            case "trial":
                state.outcomes[event["number"]] = event["trial"]
            case "trial-failed":
                state.outcomes[event["number"]] = Failure(kind=event["kind"], reason=event["reason"])

    def reply() -> Mapping[str, Any] | None:
        state.finish(_LOST)
        same = state.round is not None and state.round.threads == threads
        return subject.question(state.round.wanted) if state.round is not None and same else None

    first = state.round
    question = {
        "tasks": ["trials"],
        "trials": subject.question(first.wanted),
        "memory_bytes": subject.memory_bytes,
    }
    environ = dict(target.environ) | ({name: str(threads) for name in _THREADS} if threads else {})
    limits = Limits(step_s=2 * subject.timeout_s + 60)
    death = inside.ask(target.python, question, environ=environ, on_event=take, limits=limits, reply=reply)
    if death is not None and state.round is not None:
        state.finish(Failure(kind=death.kind, reason=death.detail))


def _named(wanted: Mapping[str, Any]) -> str:
    """A trial for people."""
    workload = f"{wanted['workload']}: " if wanted.get("workload") else ""
    match wanted.get("kind"):
        case "profile":
            return f"{workload}single samples"
        case "reference":
            return "the machine itself"
        case "batch":
            return f"batch_size={wanted['batch_size']}"
        case _:
            deeper = f" prefetch_factor={wanted['prefetch_factor']}" if wanted["num_workers"] else ""
            return f"{workload}num_workers={wanted['num_workers']}{deeper}"


def as_record(outcome: Any, kind: type[T]) -> T | Failure:
    """An outcome as its record."""
    return outcome if isinstance(outcome, Failure) else codec.convert(outcome, kind, "the payload")
