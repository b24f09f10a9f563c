"""A DataLoader with one setting, timed from outside its loop: raw waits, and what its processes used meanwhile.

All times are seconds of a monotonic clock, all sizes bytes. Nothing is averaged here.
"""

import itertools
import multiprocessing
import time

import usage
from loading import shut_down
from structure import every_tensor

_LISTED = 1 << 20
"""Longer datasets are read from their beginning: a list of their indices would be in the way."""
_ROUNDS = 3
"""At least so many batches of every worker: the gaps between batches are periodic in the number of workers."""


def measure(subject, wanted, consume=None):
    """Batches for `seconds` after the first round of all workers; `consume` is called with each batch."""
    source, count = loader(subject, wanted)
    begun = time.perf_counter()
    stream = _Epochs(source)
    try:
        started = time.perf_counter()
        batch = next(stream.batches)
        told = {"start_s": started - begun, "first_batch_s": time.perf_counter() - begun}
        told.update(size(batch), start_method=_method(source) if wanted["num_workers"] else None)
        told.update(_steady(stream, wanted, consume))
        rate = count() * told["batches"] / told["total_s"] if told["total_s"] > 0 else None
        told["samples_per_s"] = rate
    finally:
        stream.close()
    if wanted.get("restart"):
        told["restart_s"] = restart(subject, wanted, True)
        told["fresh_restart_s"] = restart(subject, wanted, False) if wanted["num_workers"] else None
    return told


def _method(data):
    """How workers start: as the loader says, else by the interpreter's default."""
    context = data.multiprocessing_context
    return context.get_start_method() if context is not None else multiprocessing.get_start_method()


def _steady(stream, wanted, consume):
    """The first batches of all workers, and with a consumer what they prefetched, are no measure of the rate."""
    workers = wanted["num_workers"]
    pids = stream.workers()
    before = usage.snapshot(pids)
    skipped = max(1, workers * (wanted["prefetch_factor"] or 1) if consume else workers)
    _take(stream.batches, skipped, consume)
    waits = []
    begun = time.perf_counter()
    while time.perf_counter() - begun < wanted["seconds"] or len(waits) < _ROUNDS * workers:
        waits += _take(stream.batches, max(1, workers), consume)
    total = time.perf_counter() - begun
    used = usage.between(before, usage.snapshot(pids), skipped + len(waits))
    return {"batches": len(waits), "total_s": total, "wait_s": sum(waits), "waits_s": waits, "usage": used}


def _take(batches, count, consume):
    """The wait for each of the next batches."""
    clock, waits = time.perf_counter, []
    last = clock()
    for _ in range(count):
        batch = next(batches)
        now = clock()
        waits.append(now - last)
        if consume:
            consume(batch)
            now = clock()
        last = now
    return waits


class _Epochs:
    """Batches of a loader, epoch after epoch."""

    def __init__(self, data):
        self._data = data
        self._iterator = iter(data)
        self.batches = self._all()

    def _all(self):
        while True:
            given = 0
            for batch in self._iterator:
                given += 1
                yield batch
            if not given:
                raise ValueError("the loader gives no batch (drop_last, and fewer samples than a batch?)")
            self._iterator = iter(self._data)

    def workers(self):
        """The process numbers of the workers."""
        return [process.pid for process in getattr(self._iterator, "_workers", ())]

    def close(self):
        """End the workers."""
        self.batches.close()
        shut_down(self._iterator)


def restart(subject, wanted, persistent):
    """From the end of an epoch to the first batch of the next; None for a stream, whose end is not ours to set."""
    if not subject.mapped:
        return None
    workers = wanted["num_workers"]
    short = dict(wanted, persistent_workers=persistent and bool(workers))
    data, _ = loader(subject, short, batches=max(1, workers))
    iterator = iter(data)
    try:
        for _ in iterator:
            pass
        begun = time.perf_counter()
        iterator = iter(data)
        next(iterator)
        return time.perf_counter() - begun
    finally:
        shut_down(iterator)


def loader(subject, wanted, batches=None):
    """The DataLoader of a setting over the subject's data, and a function that tells its samples per batch.

    The user's collate_fn, sampler, generator, worker_init_fn and drop_last are kept. Indices come without end, or
    for so many batches.
    """
    from torch.utils.data import DataLoader

    own = subject.loader
    options = {"num_workers": wanted["num_workers"], "collate_fn": subject.collate, "pin_memory": _pins(wanted)}
    options["worker_init_fn"] = subject.worker_init_fn
    if own is not None:
        options["generator"] = own.generator
    if wanted["num_workers"]:
        options["prefetch_factor"] = wanted["prefetch_factor"]
        options["persistent_workers"] = wanted["persistent_workers"]
        options["multiprocessing_context"] = wanted.get("start_method")
    options.update(_batching(subject, wanted, batches))
    count = _counted(options, wanted["batch_size"])
    return DataLoader(subject.dataset, **options), count


def _pins(wanted):
    return bool(wanted.get("pin_memory"))


def _batching(subject, wanted, batches):
    own, size = subject.loader, wanted["batch_size"]
    if own is not None and own.batch_sampler is None:
        # Automatic batching is off: the dataset gives whole batches.
        options = {"batch_size": None}
        return dict(options, sampler=Repeated(own.sampler, batches)) if subject.mapped else options
    if not subject.mapped:
        return {"batch_size": size, "drop_last": bool(own is not None and own.drop_last)}
    if own is None:
        length = max(1, subject.length or 1)
        first = wanted.get("offset", 0) % length
        indices = [*range(first, length), *range(first)] if length <= _LISTED else range(length)
        return {"batch_size": size, "sampler": Repeated(indices, batches and batches * size)}
    if _own_batches(own):
        return {"batch_sampler": RepeatedBatches(own.batch_sampler, batches)}
    limit = batches and batches * size
    return {"batch_size": size, "sampler": Repeated(own.sampler, limit), "drop_last": own.drop_last}


def indices(subject):
    """The indices of single samples in the order in which the user's loader reads them, without end."""
    own = subject.loader
    if own is None:
        return iter(Repeated(range(max(1, subject.length or 1))))
    if own.batch_sampler is None or not _own_batches(own):
        return iter(Repeated(own.sampler))
    return (index for batch in Repeated(own.batch_sampler) for index in batch)


def _own_batches(own):
    """Whether batches are drawn by a sampler of the user's own, which no batch size can stand for."""
    from torch.utils.data import BatchSampler

    return own.batch_size is None or type(own.batch_sampler) is not BatchSampler


def _counted(options, size):
    """Samples per batch: as set, or as a batch sampler has drawn them so far."""
    if "batch_sampler" in options:
        return options["batch_sampler"].mean_length
    return lambda: size if options.get("batch_size") is not None else 1


class Repeated:
    """A sampler again and again, without end or for so many items; iterated in C, for it runs in the measured loop."""

    def __init__(self, sampler, most=None):
        self.sampler = sampler
        self.most = most

    def __len__(self):
        return self.most if self.most is not None else len(self.sampler)

    def __iter__(self):
        return itertools.islice(itertools.chain.from_iterable(self._epochs()), self.most)

    def _epochs(self):
        while True:
            items = iter(self.sampler)
            first = list(itertools.islice(items, 1))
            if not first:
                return
            yield itertools.chain(first, items)


class RepeatedBatches(Repeated):
    """The same of a sampler that draws batches: how many indices they have is counted."""

    def __init__(self, sampler, most=None):
        super().__init__(sampler, most)
        self._drawn, self._indices = 0, 0

    def __iter__(self):
        return map(self._weighed, super().__iter__())

    def _weighed(self, batch):
        if hasattr(batch, "__len__"):
            self._drawn += 1
            self._indices += len(batch)
        return batch

    def mean_length(self):
        """How many indices a batch had."""
        return self._indices / self._drawn if self._drawn else 1


def size(batch):
    """How many tensors a batch has, and their bytes."""
    found = list(every_tensor(batch))
    return {"tensors": len(found), "batch_bytes": sum(one.element_size() * one.numel() for one in found)}
