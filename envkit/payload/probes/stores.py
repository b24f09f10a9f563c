"""Datasets, splits and samplers of torch.utils.data that people subclass. Section 1.3 of the probe list."""

from loading import Samples, batches, loader
from probe import Probe


def subset_override():
    """A Subset whose __getitem__ is overridden: whether a loader uses the override."""
    from torch.utils.data import Subset

    class Doubled(Subset):
        def __getitem__(self, index):
            return self.dataset[self.indices[index]] * 100

    def through(workers):
        data = loader(Doubled(Samples([0, 1, 2]), [0, 1, 2]), workers, batch_size=2)
        return [batch.tolist() for batch in batches(data)]

    return [
        ("loader_w0", lambda: through(0)),
        ("loader_w1", lambda: through(1)),
        ("direct", lambda: Doubled(Samples([0, 1, 2]), [0, 1])[1]),
    ]


def tensor_mismatch():
    """A TensorDataset of tensors whose lengths differ."""
    import torch
    from torch.utils.data import TensorDataset

    return [
        ("one_axis", lambda: len(TensorDataset(torch.zeros(3), torch.zeros(4)))),
        ("two_axes", lambda: len(TensorDataset(torch.zeros(3, 2), torch.zeros(4, 2)))),
        ("same", lambda: len(TensorDataset(torch.zeros(3, 2), torch.zeros(3)))),
    ]


class Batched(Samples):
    """A dataset that can fetch a whole batch."""

    def __getitems__(self, indices):
        return [-self.samples[index] for index in indices]


def getitems():
    """__getitems__, which fetches a batch at once."""

    def through(workers):
        return [batch.tolist() for batch in batches(loader(Batched([1, 2, 3]), workers, batch_size=2))]

    return [("loader_w0", lambda: through(0)), ("loader_w1", lambda: through(1))]


def sampler_super():
    """The sampler of the 1.x era, which hands its source to super().__init__."""
    from torch.utils.data import Sampler

    class Reversed(Sampler):
        def __init__(self, source):
            super().__init__(source)
            self.source = source

        def __iter__(self):
            return iter(reversed(range(len(self.source))))

        def __len__(self):
            return len(self.source)

    class Without(Reversed):
        def __init__(self, source):
            self.source = source

    return [
        ("init", lambda: list(Reversed([1, 2, 3]))),
        ("init_none", lambda: type(Sampler(None)).__name__),
        ("without", lambda: list(Without([1, 2, 3]))),
    ]


def misc():
    """Splits, weights, lengths, empty and abstract datasets."""
    import torch
    from torch.utils import data

    ten = list(range(10))
    cells = {
        "split_fractions": lambda: [len(part) for part in data.random_split(ten, [0.7, 0.3])],
        "split_too_many": lambda: data.random_split(ten, [7, 4]),
        "split_empty": lambda: [len(part) for part in data.random_split(ten, [10, 0])],
        "num_samples": lambda: len(list(data.RandomSampler(ten, num_samples=4))),
        "num_samples_too_many": lambda: len(list(data.RandomSampler(ten, num_samples=14))),
        "num_samples_zero": lambda: data.RandomSampler(ten, replacement=True, num_samples=0),
        "replacement_text": lambda: data.RandomSampler(ten, replacement="yes"),
        "weighted_2d": lambda: _seeded(torch, data.WeightedRandomSampler([[0.5, 0.5], [0.1, 0.9]], 2)),
        "weighted_too_many": lambda: list(data.WeightedRandomSampler([0.5, 0.5], 3, replacement=False)),
        "empty_random": lambda: list(data.RandomSampler([])),
        "concat_negative": lambda: data.ConcatDataset([ten, ten])[-1],
        "concat_out": lambda: data.ConcatDataset([ten, ten])[-21],
        "concat_empty": lambda: data.ConcatDataset([]),
        "iterable_init": lambda: data.IterableDataset() and None,
        "iterable_iter": lambda: iter(data.IterableDataset()),
        "dataset_getitem": lambda: data.Dataset()[0],
        "dataset_len": lambda: len(data.Dataset()),
        "dist_no_init": lambda: data.DistributedSampler(ten),
        "dist_rank": lambda: data.DistributedSampler(ten, num_replicas=2, rank=2),
        "stack": lambda: data.StackDataset([1, 2], [3, 4])[1],
        "subset_negative": lambda: data.Subset(ten, [1, 2])[-1],
    }
    return list(cells.items())


def _seeded(torch, source):
    torch.manual_seed(0)
    return list(source)


PROBES = [
    Probe("dataset.subset_override", subset_override),
    Probe("dataset.tensor_mismatch", tensor_mismatch),
    Probe("dataset.getitems", getitems),
    Probe("dataset.sampler_super", sampler_super),
    Probe("dataset.misc", misc),
]
