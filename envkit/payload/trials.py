"""Short runs of a DataLoader with one setting each, every one in a process of its own: what `envkit tune` races.

All times are seconds of a monotonic clock, all sizes bytes. A setting that hangs or dies is told as such.
"""

import contextlib
import os
import time

import supervisor
import workloads
from loading import shut_down, start_method
from structure import every_tensor
from subject import Subject

_ROUNDS = 3
_MOST_BATCHES = 4000


def run(question, limits, say):
    """One trial after the other, in the order of the question: repeats are interleaved there."""
    units = [
        supervisor.Unit(
            "trial.%d" % number,
            lambda tell, done, wanted=wanted, number=number: _step(question, wanted, number, tell),
            {"tasks": ["trial-step"], "trials": question, "number": number},
            question["timeout_s"],
            most_deaths=1,
        )
        for number, wanted in enumerate(question["wanted"])
    ]

    def on_event(unit, event):
        say(**event)

    def on_death(unit, step, kind, detail):
        say(event="trial-failed", number=int(unit.id.partition(".")[2]), reason=detail)

    with contextlib.suppress(Exception):
        import torch  # noqa: F401  # once for all children; where it fails, each of them says so

    limits.parallel = 1
    supervisor.run(units, limits, on_event, on_death)


def serve(question, number, say):
    """The same trial in this process, where children cannot be forked."""
    _step(question, question["wanted"][number], number, say)


def _step(question, wanted, number, say):
    say(event="start", id="trial.%d" % number)
    begun = time.perf_counter()
    try:
        subject = _subject(question)
        told = _profile(subject, wanted) if wanted.get("profile") else _trial(subject, wanted)
    except Exception as error:
        say(event="trial-failed", number=number, reason="%s: %s" % (type(error).__name__, str(error)[:300]))
    else:
        told["took_s"] = time.perf_counter() - begun
        say(event="trial", number=number, trial=told)
    say(event="done", id="trial.%d" % number)


def _subject(question):
    """The user's data, or a bundled workload in its place."""
    subject = Subject(question["source"])
    if "workload" in question["source"]:
        made = workloads.make(question["source"]["workload"], question["source"]["folder"])
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


def _loader(subject, wanted, batches):
    workers = wanted["num_workers"]
    options = {"batch_size": wanted["batch_size"], "collate_fn": subject.collate}
    if subject.mapped:
        length = max(1, subject.length or 1)
        options["sampler"] = [index % length for index in range(batches * wanted["batch_size"])]
    if subject.loader is not None:
        options["worker_init_fn"] = subject.loader.worker_init_fn
        options["drop_last"] = subject.loader.drop_last
    if workers:
        options.update(
            prefetch_factor=wanted["prefetch_factor"],
            persistent_workers=wanted["persistent_workers"],
            multiprocessing_context=start_method(),
        )
    from torch.utils.data import DataLoader

    return DataLoader(subject.dataset, num_workers=workers, **options)


def _trial(subject, wanted):
    """Batches for some seconds after the first round of all workers; judged on total time, as gaps are periodic."""
    data = _loader(subject, wanted, _MOST_BATCHES)
    begun = time.perf_counter()
    iterator = iter(data)
    try:
        batch = next(iterator)
        first = time.perf_counter() - begun
        told = _steady(iterator, wanted)
        told.update(_size(batch), first_batch_s=first)
        told["worker_bytes"] = _worker_bytes(wanted["num_workers"])
        return told
    finally:
        shut_down(iterator)


def _steady(iterator, wanted):
    workers, step = wanted["num_workers"], wanted.get("step_s", 0.0)
    # The first batches of all workers, and what they prefetched meanwhile, are no measure of the rate.
    skip = workers * (wanted["prefetch_factor"] or 1) if workers else 1
    waits, begun, counted = [], None, 0
    last = time.perf_counter()
    for number, _batch in enumerate(iterator):
        now = time.perf_counter()
        if number >= skip:
            begun = begun if begun is not None else last
            waits.append(now - last)
            counted += 1
        if step:
            time.sleep(step)
        if begun is not None and now - begun > wanted["seconds"] and counted >= _ROUNDS * max(1, workers):
            break
        last = time.perf_counter()
    total = time.perf_counter() - begun if begun is not None else 0.0
    rate = counted * wanted["batch_size"] / total if counted and total > 0 else None
    return {"samples_per_s": rate, "batches": counted, "total_s": total, "wait_s": sum(waits)}


def _profile(subject, wanted):
    """The cost of single samples and of collating them, in this process; for a stream as it comes."""
    source = iter(subject.dataset) if not subject.mapped else None
    length = subject.length
    walls, cpus, samples = [], [], []
    begun = time.perf_counter()
    while time.perf_counter() - begun < wanted["seconds"] and len(walls) < 256:
        cpu, wall = time.process_time(), time.perf_counter()
        try:
            sample = next(source) if source is not None else subject.dataset[len(walls) % max(1, length or 1)]
        except StopIteration:
            break
        walls.append(time.perf_counter() - wall)
        cpus.append(time.process_time() - cpu)
        samples = (samples + [sample])[-wanted["batch_size"] :]
    mean = _mean_cost(subject, len(walls)) if source is None else sum(walls) / max(1, len(walls))
    # The first call imports, allocates and starts threads.
    subject.collate(samples)
    wall = time.perf_counter()
    batch = subject.collate(samples)
    collate = time.perf_counter() - wall
    return {
        **_size(batch),
        "sample_s": walls,
        "mean_s": mean,
        "sample_cpu_s": sum(cpus) / max(1, len(cpus)),
        "collate_s": collate / max(1, len(samples)) * wanted["batch_size"],
        "length": length,
        "present": _present(subject),
    }


def _mean_cost(subject, count):
    """Seconds for a sample, without reading a clock between samples that take as long as that."""
    if not count:
        return 0.0
    length = max(1, subject.length or 1)
    begun = time.perf_counter()
    for index in range(min(count, 64)):
        subject.dataset[index % length]
    return (time.perf_counter() - begun) / min(count, 64)


def _present(subject):
    """The setting of the user's own DataLoader."""
    if subject.loader is None:
        return None
    data = subject.loader
    return {
        "num_workers": data.num_workers,
        "prefetch_factor": data.prefetch_factor if data.num_workers else None,
        "persistent_workers": data.persistent_workers,
        "batch_size": data.batch_size or 1,
    }


def _size(batch):
    """How many tensors a batch has, and their bytes."""
    found = list(every_tensor(batch))
    return {"tensors": len(found), "batch_bytes": sum(one.element_size() * one.numel() for one in found)}


def _worker_bytes(workers):
    """What a worker holds for itself, on average; None where /proc does not tell."""
    group = getattr(os, "getpgid", lambda pid: 0)(0)
    own = [supervisor.own_memory(pid) for pid in supervisor.members(group) if pid != os.getpid()]
    return sum(own) // len(own) if workers and own else None
