"""The order of the samples for a seed. Section 1.3 of the probe list."""

from loading import Samples, batches, loader
from probe import Probe


def _seeded(work):
    def run():
        import torch

        torch.manual_seed(0)
        return work(torch)

    return run


def _epochs(torch, **options):
    data = loader(Samples(list(range(10))), 0, **options)
    return [[batch.tolist() for batch in batches(data)] for _ in range(2)]


def _epochs_of(data):
    return [[batch.tolist() for batch in data] for _ in range(2)]


def _at_epoch(sampler, epoch):
    sampler.set_epoch(epoch)
    return list(sampler)


def order():
    """Shuffles, samplers and splits, each after torch.manual_seed(0)."""
    from torch.utils import data

    ten = range(10)
    cells = {
        "shuffle": lambda torch: _epochs(torch, shuffle=True, batch_size=4),
        "generator": lambda torch: _epochs(
            torch, shuffle=True, batch_size=4, generator=torch.Generator().manual_seed(7)
        ),
        "drop_last": lambda torch: _epochs(torch, shuffle=True, batch_size=4, drop_last=True),
        "random": lambda torch: list(data.RandomSampler(ten)),
        "replacement": lambda torch: list(data.RandomSampler(ten, replacement=True, num_samples=10)),
        "weighted": lambda torch: list(data.WeightedRandomSampler([0.1, 0.2, 0.3, 0.4], 10)),
        "weighted_without": lambda torch: list(data.WeightedRandomSampler([0.1, 0.2, 0.3, 0.4], 4, replacement=False)),
        "subset": lambda torch: list(data.SubsetRandomSampler([2, 4, 6, 8])),
        "split": lambda torch: [list(part.indices) for part in data.random_split(ten, [7, 3])],
        "split_generator": lambda torch: [
            list(part.indices) for part in data.random_split(ten, [7, 3], generator=torch.Generator().manual_seed(42))
        ],
        "distributed": lambda torch: [
            list(data.DistributedSampler(ten, num_replicas=2, rank=rank, seed=3)) for rank in (0, 1)
        ],
        "state_after_epoch": lambda torch: (_epochs(torch, shuffle=True), torch.randint(0, 1000, (4,)))[1],
        "persistent": lambda torch: _epochs_of(
            loader(Samples(list(ten)), 1, shuffle=True, batch_size=5, persistent_workers=True)
        ),
        "batches": lambda torch: list(data.BatchSampler(data.RandomSampler(ten), 3, False)),
        "distributed_epoch": lambda torch: _at_epoch(data.DistributedSampler(ten, num_replicas=3, rank=0), 2),
        "two_workers": lambda torch: [
            batch.tolist() for batch in batches(loader(Samples(list(ten)), 2, shuffle=True, batch_size=2))
        ],
    }
    return [(name, _seeded(work)) for name, work in cells.items()]


PROBES = [Probe("sampler.order", order)]
