"""Augmentation in pure Python: what holds a core for some milliseconds per sample."""

SHAPE = (3, 32, 32)
_WORK = 40000


class Compute:
    """Each sample is so many steps of integer arithmetic, then a small image."""

    length = 4096

    def __init__(self, folder):
        pass

    def dataset(self, length):
        """A dataset of `length` samples."""
        return Computed(length)


class Computed:
    """The map-style dataset."""

    def __init__(self, length):
        self.length = length

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        import torch

        value = index + 1
        for _ in range(_WORK):
            value = (value * 1103515245 + 12345) % 2147483648
        return torch.full(SHAPE, value / 2147483648), index
