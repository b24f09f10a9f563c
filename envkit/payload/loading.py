"""Datasets and loaders that the probes share: workers start by a named method and never wait for ever."""

import multiprocessing

TIMEOUT_S = 20
HANG_S = 5
"""How long is waited for a batch that is known never to come in some releases of torch."""


class Samples:
    """A map-style dataset over a list."""

    def __init__(self, samples):
        self.samples = samples

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, index):
        return self.samples[index]


class Failing:
    """A dataset whose `work` runs at every index; the exception is the point."""

    def __init__(self, work, length=2):
        self.work = work
        self.length = length

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        return self.work(index)


def start_method():
    """Named in every probe: fork where there is fork."""
    methods = multiprocessing.get_all_start_methods()
    return "fork" if "fork" in methods else methods[0]


def loader(dataset, workers, **options):
    """A DataLoader with an explicit start method: the default changed to forkserver in Python 3.14."""
    from torch.utils.data import DataLoader

    if workers:
        options.setdefault("multiprocessing_context", start_method())
        options.setdefault("timeout", TIMEOUT_S)
    return DataLoader(dataset, num_workers=workers, **options)


def batches(data):
    """All batches of a loader. Workers end here even after an error: a traceback may keep the iterator alive, and
    the workers of later cells would then inherit it and wait for it.
    """
    iterator = iter(data)
    try:
        return list(iterator)
    finally:
        shut_down(iterator)


def shut_down(iterator):
    """End the workers of a loader's iterator; one without workers has none."""
    shutdown = getattr(iterator, "_shutdown_workers", None)
    if shutdown is not None:
        shutdown()


def first_batch(samples, workers, **options):
    """What the default loader makes of one batch of all samples."""
    return batches(loader(Samples(samples), workers, batch_size=len(samples) or 1, **options))[0]


def both(name, samples, **options):
    """The same batch at 0 workers and at 1: messages and outcomes differ between them."""
    return [
        (name + ".w%d" % workers, lambda workers=workers: first_batch(samples(), workers, **options))
        for workers in (0, 1)
    ]
