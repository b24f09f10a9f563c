"""Samples that wait: what a loader does for storage or a network that answers after 10 ms."""

import random
import time

WAIT_S = 0.010
SHAPE = (3, 224, 224)


class Latency:
    """Each sample waits, then is a random float32 image of 3x224x224."""

    length = 4096

    def __init__(self, folder):
        pass

    def dataset(self, length):
        """A dataset of `length` samples."""
        return Waiting(length)


class Waiting:
    """The map-style dataset."""

    def __init__(self, length):
        self.length = length

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        import torch

        time.sleep(WAIT_S)
        return torch.rand(SHAPE, generator=torch.Generator().manual_seed(index)), index


class Uneven(Latency):
    """Waits with a heavy tail: most are short, few are twenty times as long."""

    def dataset(self, length):
        """A dataset of `length` samples."""
        return WaitingUnevenly(length)


class WaitingUnevenly(Waiting):
    """The map-style dataset."""

    def __getitem__(self, index):
        import torch

        time.sleep(WAIT_S * min(8.0, 0.4 * random.Random(index).paretovariate(1.5)))
        return torch.rand((3, 64, 64), generator=torch.Generator().manual_seed(index)), index
