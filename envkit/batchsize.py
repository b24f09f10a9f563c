"""A model and its data in, a batch size out: doubled until memory is full, bisected, the knee taken of what fits."""

from collections.abc import Generator

import msgspec

from envkit import trials
from envkit.errors import InputError
from envkit.inside import Target
from envkit.progress import Tell, silent
from envkit.trials import Consumer, Failure, Outcomes, Round
from envkit.tuning import Machine

_FULL = 0.9
"""No larger batch is tried once a step takes so much of the memory."""
_KNEE = 0.95
"""The smallest batch that reaches so much of the best throughput is taken: more memory would buy next to nothing."""
_NEAR = 1.1
"""Bisecting ends when the largest that fits and the smallest that does not are so near."""
_SECONDS = 0.3
_MOST = 1 << 20


class Wish(trials.Wish, frozen=True, kw_only=True):
    """Which model, which data, and the size to begin with."""

    consumer: Consumer
    first: int = 1
    budget_s: float = 120.0
    timeout_s: float = 60.0


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """What one size did: whether it fits, samples per second of the model alone, bytes at the peak."""

    fits: bool
    reason: str = ""
    samples_per_s: float | None = None
    memory_bytes: int | None = None
    memory_limit_bytes: int | None = None
    batch_bytes: int | None = None
    took_s: float = 0.0


class Size(msgspec.Struct, frozen=True, kw_only=True):
    """A batch size and its attempts."""

    batch_size: int
    attempts: tuple[Attempt, ...]

    @property
    def fits(self) -> bool:
        """Whether it fitted every time."""
        return all(one.fits for one in self.attempts)

    @property
    def rate(self) -> float:
        """The best rate: what disturbs makes it lower only."""
        return max((one.samples_per_s or 0.0 for one in self.attempts), default=0.0) if self.fits else 0.0

    @property
    def memory_bytes(self) -> int:
        """The most that it took."""
        return max((one.memory_bytes or 0 for one in self.attempts), default=0)


class BatchTuned(msgspec.Struct, frozen=True, kw_only=True):
    """The answer: the knee, the largest that fits, and each size that was tried."""

    batch_size: int
    largest: int
    memory_limit_bytes: int
    tried: tuple[Size, ...]
    notes: tuple[str, ...] = ()


def find(target: Target, wish: Wish, machine: Machine, *, tell: Tell = silent) -> BatchTuned:
    """Find the batch size of a model; every size is tried in a process of its own, which memory may take with it.

    Raises InputError when not even the first size works.
    """
    return trials.run(target, wish.subject(machine.memory_bytes), _Search(wish, machine).all(), tell)


_Step = Generator[Round, Outcomes, bool]


class _Search:
    """The sizes so far."""

    def __init__(self, wish: Wish, machine: Machine) -> None:
        self._wish = wish
        self._limit = machine.memory_bytes
        self._known: dict[int, Size] = {}
        self._notes: list[str] = []
        self._spent_s = 0.0

    def all(self) -> Generator[Round, Outcomes, BatchTuned]:
        """Double, bisect, confirm."""
        size, refused = self._wish.first, 0
        while size <= _MOST and not self._full and not self._late:
            if not (yield from self._fits(size)):
                refused = size
                break
            size *= 2
        yield from self._bisect(refused)
        yield from self._confirm()
        return self._answer()

    def _bisect(self, refused: int) -> Generator[Round, Outcomes, None]:
        while refused and self._largest and refused > _NEAR * self._largest and not self._full and not self._late:
            middle = (self._largest + refused) // 2
            if middle in self._known:
                return
            if not (yield from self._fits(middle)):
                refused = middle

    def _confirm(self) -> Generator[Round, Outcomes, None]:
        """A size that fits only by luck is no answer: the largest once more, and the next one if it does not."""
        while self._largest and len(self._known[self._largest].attempts) < 2:
            yield from self._fits(self._largest)
        if self._largest:
            yield from self._fits(self._knee.batch_size)

    def _fits(self, size: int) -> _Step:
        (told,) = yield Round(wanted=({"kind": "batch", "batch_size": size, "seconds": _SECONDS},))
        found = trials.as_record(told, Attempt)
        attempt = self._refused(found) if isinstance(found, Failure) else found
        self._spent_s += attempt.took_s
        self._limit = attempt.memory_limit_bytes or self._limit
        known = self._known.get(size)
        self._known[size] = Size(batch_size=size, attempts=(*(known.attempts if known else ()), attempt))
        return attempt.fits

    def _refused(self, failure: Failure) -> Attempt:
        """A death is an answer; an error of the model or of the data is the user's to mend."""
        match failure.kind:
            case "interrupted":
                raise KeyboardInterrupt
            case "out-of-memory" | "signal":
                return Attempt(fits=False, reason=f"memory: {failure.reason}", took_s=1.0)
            case "timeout":
                return Attempt(fits=False, reason=failure.reason, took_s=self._wish.timeout_s)
            case _:
                raise InputError(
                    f"the model does not take a batch: {failure.reason}", hint="correct it, then try again"
                )

    @property
    def _largest(self) -> int:
        return max((size for size, one in self._known.items() if one.fits), default=0)

    @property
    def _full(self) -> bool:
        held = self._known[self._largest].memory_bytes if self._largest else 0
        return held >= _FULL * self._limit

    @property
    def _late(self) -> bool:
        return self._spent_s > self._wish.budget_s

    @property
    def _knee(self) -> Size:
        fitting = [one for one in self._known.values() if one.fits]
        best = max(one.rate for one in fitting)
        return min((one for one in fitting if one.rate >= _KNEE * best), key=lambda one: one.batch_size)

    def _answer(self) -> BatchTuned:
        if not self._largest:
            why = next(iter(self._known.values())).attempts[0].reason
            raise InputError(f"batch_size={self._wish.first} does not fit: {why}", hint="use a smaller model or input")
        above = min((size for size, one in self._known.items() if not one.fits), default=None)
        if self._late and above is None:
            self._notes.append("the time was up before memory was full: larger batches may fit (--budget)")
        elif self._late and above is not None and above > _NEAR * self._largest:
            self._notes.append(
                f"the time was up: the largest that fits is between {self._largest} and {above} (--budget)"
            )
        return BatchTuned(
            batch_size=self._knee.batch_size,
            largest=self._largest,
            memory_limit_bytes=self._limit,
            tried=tuple(self._known[size] for size in sorted(self._known)),
            notes=tuple(self._notes),
        )
