"""The seeds of workers: torch, random and NumPy in each worker and epoch. Section 1.4 of the probe list."""

import random

from loading import batches, loader
from probe import FAST, SPAWNS, WORKERS, Probe


class Seeds:
    """Each sample is the seeds of its worker and a draw from each generator."""

    def __len__(self):
        return 4

    def __getitem__(self, index):
        import torch
        from torch.utils.data import get_worker_info

        worker = get_worker_info()
        return {
            "index": index,
            "worker": worker.id if worker else None,
            "seed": str(worker.seed) if worker else None,
            "initial_seed": str(torch.initial_seed()),
            "torch": int(torch.randint(0, 1000, (1,))),
            "torch_2p31": int(torch.randint(0, 2**31, (1,), generator=_own_generator(torch))),
            "random": random.random(),
            "numpy": _numpy_draw(),
        }


def _own_generator(torch):
    """Seeded like the worker: what this draw consumes does not move the others."""
    return torch.Generator().manual_seed(torch.initial_seed())


def _numpy_draw():
    try:
        import numpy
    except ImportError:
        return None
    return int(numpy.random.randint(0, 1 << 30))


def _same(batch):
    return batch[0]


def _epochs(workers, method=None, generator=None):
    """Two epochs of seeds, after every generator of the main process was seeded."""
    import torch

    torch.manual_seed(0)
    random.seed(0)
    try:
        import numpy
    except ImportError:
        pass
    else:
        numpy.random.seed(0)
    options = {"collate_fn": _same}
    if method:
        options["multiprocessing_context"] = method
    if generator is not None:
        options["generator"] = torch.Generator().manual_seed(generator)
    data = loader(Seeds(), workers, **options)
    return [sorted(batches(data), key=lambda seeds: seeds["index"]) for _ in range(2)]


_NAMES = ("worker", "seed", "initial_seed", "torch", "torch_2p31", "random", "numpy")


def _cells(workers, **options):
    """The columns of two runs with the same seeds, and what follows from them.

    The runs are made here, once: a run that hangs is one outcome, not one for each column.
    """
    first, again = [_epochs(workers, **options) for _ in range(2)]

    def column(name, run=first):
        return [[row[name] for row in epoch] for epoch in run]

    def repeatable(name):
        same = column(name) == column(name, again)
        return column(name) if same else "differs from run to run: it is not seeded"

    def numpy_dup_across_workers():
        return any(len({row["numpy"] for row in epoch[:2]}) < 2 for epoch in first)

    def numpy_same_every_epoch():
        one, other = column("numpy")
        return one == other

    return [(name, lambda name=name: repeatable(name)) for name in _NAMES] + [
        ("numpy_dup_across_workers", numpy_dup_across_workers),
        ("numpy_same_every_epoch", numpy_same_every_epoch),
    ]


def fork():
    """Two forked workers, two epochs."""
    return _cells(2, method="fork")


def with_generator():
    """Two workers of a loader with a generator of its own."""
    return _cells(2, generator=7)


def spawn():
    """Two spawned workers, two epochs."""
    return _cells(2, method="spawn")


def in_main():
    """No workers: the main process draws."""
    return _cells(0)


PROBES = [
    Probe("worker.seeding_fork", fork, WORKERS),
    Probe("worker.seeding_gen", with_generator, WORKERS),
    Probe("worker.seeding_spawn", spawn, WORKERS, patience=SPAWNS),
    Probe("worker.seeding_w0", in_main, FAST),
]
