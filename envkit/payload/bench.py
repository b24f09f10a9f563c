"""The DataLoader benchmark: raw waits per batch, per repeat; repeats are interleaved across configurations.

All times are seconds of a monotonic clock. Nothing is averaged here.
"""

import time

import workloads
from loading import loader, shut_down

BATCH_SIZE = 8
PREFETCH = 2
_ROUNDS = 4  # batches per worker: the gaps are periodic in the number of workers


def run(question, say):
    """Run every point of the question; `workers` maps a workload's name to its worker counts."""
    made = {}
    for name in question["workers"]:
        try:
            made[name] = workloads.make(name, question["folder"])
        except Exception as error:
            say(event="unmeasured", workload=name, reason="%s: %s" % (type(error).__name__, error))
    for repeat in range(question.get("repeats", 3)):
        for name, counts in question["workers"].items():
            for workers in counts if name in made else ():
                id = "bench.%s.%d.%d" % (name, workers, repeat)
                say(event="start", id=id)
                say(event="point", point=dict(workload=name, repeat=repeat, **_point(made[name], workers)))
                say(event="done", id=id)


def _point(workload, workers):
    batches = max(workload.batches, _ROUNDS * workers)
    options = {"batch_size": BATCH_SIZE, "pin_memory": False}
    if workers:
        options.update(persistent_workers=True, prefetch_factor=PREFETCH)
    data = loader(workload.dataset(batches * BATCH_SIZE), workers, **options)
    begun = time.perf_counter()
    iterator = iter(data)
    first, waits, total = _drain(iterator, begun)
    restarted = time.perf_counter()
    iterator = iter(data)
    next(iterator)
    restart = time.perf_counter() - restarted
    shut_down(iterator)
    # The first batch of every worker is made at the same time: the rate counts from the end of that round.
    steady = waits[max(workers, 1) - 1 :]
    return {
        "workers": workers,
        "batch_size": BATCH_SIZE,
        "batches": batches,
        "persistent_workers": bool(workers),
        "prefetch_factor": PREFETCH if workers else None,
        "pin_memory": False,
        "start_method": getattr(data.multiprocessing_context, "get_start_method", lambda: None)(),
        "first_batch_s": first,
        "waits_s": waits,
        "restart_s": restart,
        "total_s": total,
        "samples_per_s": len(steady) * BATCH_SIZE / sum(steady) if sum(steady) > 0 else None,
    }


def _drain(iterator, begun):
    """The time to the first batch, the wait for each later one, and the time for all."""
    waits, last, first = [], begun, None
    for _ in iterator:
        now = time.perf_counter()
        if first is None:
            first = now - begun
        else:
            waits.append(now - last)
        last = now
    return first, waits, last - begun
