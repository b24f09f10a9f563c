"""Short runs of DataLoaders, each in a process of its own: what `envkit bench` measures and `envkit tune` races.

A setting that hangs or dies is told as such; the others are still run. All times are seconds, all sizes bytes.
"""

import contextlib
import gc
import time

import batching
import consumers
import costs
import measuring
import supervisor
import workloads
from recorder import brief
from subject import Subject


def run(question, limits, say, more):
    """One trial after the other, in the order of the question; then the next round, as long as there is one."""
    with contextlib.suppress(Exception):
        import torch  # noqa: F401  # once for all children; where it fails, each of them says so

    # What this process holds is not the trials': their garbage collectors would go through it, and so copy it.
    gc.freeze()
    limits.parallel = 1
    while question is not None:
        _round(question, limits, say)
        question = more()


def _round(question, limits, say):
    units = [_unit(question, number, wanted) for number, wanted in enumerate(question["wanted"])]

    def on_event(unit, event):
        say(**event)

    def on_death(unit, step, kind, detail):
        say(event="trial-failed", number=int(unit.id.rpartition(".")[2]), kind=kind, reason=detail)

    supervisor.run(units, limits, on_event, on_death)


def _unit(question, number, wanted):
    def work(tell, done):
        _step(question, wanted, number, tell)

    asked = {"tasks": ["trial-step"], "trials": dict(question, wanted=[wanted]), "number": number}
    return supervisor.Unit("trial.%d" % number, work, asked, question["timeout_s"], most_deaths=1)


def serve(question, number, say):
    """The same trial in this process, where children cannot be forked."""
    _step(question, question["wanted"][0], number, say)


def _step(question, wanted, number, say):
    say(event="start", id="trial.%d" % number)
    begun = time.perf_counter()
    try:
        told = _KINDS[wanted.get("kind", "run")](question, wanted, say)
    except Exception as error:
        say(event="trial-failed", number=number, kind="error", reason=brief(error))
    else:
        told["took_s"] = time.perf_counter() - begun
        say(event="trial", number=number, trial=told)
    say(event="done", id="trial.%d" % number)


def _profile(question, wanted, say):
    subject = _subject(question, wanted)
    return costs.profile(subject, wanted, consumers.make(question.get("consumer") or {}))


def _measured(question, wanted, say):
    """One run; `passing` passes over the samples that cannot be read."""
    subject = _subject(question, wanted)
    consume = consumers.make(question.get("consumer") or {})
    limit_threads(subject, wanted)
    if wanted.get("passing"):
        subject.dataset = Passing(subject.dataset)
    return measuring.measure(subject, wanted, consume)


def limit_threads(subject, wanted):
    """OpenCV has a setting of its own; the libraries that read variables got theirs before they were loaded."""
    threads = wanted.get("threads")
    if not threads:
        return
    own = subject.worker_init_fn

    def start(worker_id):
        import sys

        if "cv2" in sys.modules:
            sys.modules["cv2"].setNumThreads(threads)
        if own is not None:
            own(worker_id)

    subject.worker_init_fn = start


class Passing:
    """A map-style dataset that gives the next sample that can be read in place of one that cannot."""

    def __init__(self, dataset):
        self.dataset = dataset

    def __len__(self):
        return len(self.dataset)

    def __getitem__(self, index):
        length = len(self)
        for step in range(min(length, 64)):
            try:
                return self.dataset[(index + step) % length]
            except Exception as error:
                last = error
        raise last


def _reference(question, wanted, say):
    """A fixed piece of work, to tell how steady and how fast the machine is while the others are measured."""
    begun = time.perf_counter()
    value, rounds = 1, 0
    while time.perf_counter() - begun < wanted["seconds"]:
        for _ in range(20000):
            value = (value * 1103515245 + 12345) % 2147483648
        rounds += 1
    return {"rounds_per_s": rounds / (time.perf_counter() - begun)}


def _batch(question, wanted, say):
    subject = _subject(question, wanted)
    return batching.attempt(subject, wanted, consumers.make(question["consumer"]), say)


_KINDS = {"run": _measured, "profile": _profile, "reference": _reference, "batch": _batch}


def _subject(question, wanted):
    """The user's data, or a bundled workload in its place."""
    subject = Subject(question["source"])
    name = wanted.get("workload") or question["source"].get("workload")
    if name is not None:
        made = workloads.make(name, question["source"]["folder"])
        subject.dataset = made.dataset(made.length)
        subject.collate_fn = getattr(made, "collate", None)
        return subject
    if not subject.make(_Refused()):
        raise ValueError("the factory makes no dataset")
    return subject


class _Refused:
    """Where a factory fails there is nothing to time: its finding is the error."""

    def find(self, code, severity, message, *more):
        """As of `owndata`."""
        raise ValueError(message)
