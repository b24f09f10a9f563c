"""Samples whose size decides: tiny ones that processes pass around, large ones that memory moves, files in memory;
and a list of Python objects, which every worker copies bit by bit.
"""

import os
import random


class Tiny:
    """Samples of 1 kB."""

    length = 65536
    shape = (256,)

    def __init__(self, folder):
        pass

    def dataset(self, length):
        """A dataset of `length` samples."""
        return Filled(length, self.shape)


class Large(Tiny):
    """Samples of 16 MB."""

    length = 512
    shape = (4, 1024, 1024)


class Filled:
    """A map-style dataset of tensors full of their index."""

    def __init__(self, length, shape):
        self.length = length
        self.shape = shape

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        import torch

        return torch.full(self.shape, float(index))


class MemoryMap:
    """Images in one file that is mapped into memory."""

    length = 4096
    shape = (3, 64, 64)
    kept = 256

    def __init__(self, folder):
        self.path = os.path.join(folder, "samples.f32")
        size = self.kept * self._size() * 4
        if not os.path.exists(self.path):
            with open(self.path, "wb") as file:
                file.write(os.urandom(1 << 16) * (size >> 16))

    def _size(self):
        return self.shape[0] * self.shape[1] * self.shape[2]

    def dataset(self, length):
        """A dataset of `length` samples, over the file again and again."""
        return Mapped(self.path, length, self.kept, self.shape)


class Mapped:
    """The map-style dataset."""

    def __init__(self, path, length, kept, shape):
        self.path, self.length, self.kept, self.shape = path, length, kept, shape

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        import torch

        size = self.shape[0] * self.shape[1] * self.shape[2]
        whole = torch.from_file(self.path, shared=False, size=self.kept * size, dtype=torch.float32)
        start = index % self.kept * size
        return whole[start : start + size].clone().reshape(self.shape), index


class CopyOnWrite:
    """Names of files in a list: reading one writes its reference count, so a worker gets the page for itself."""

    length = 400000

    def __init__(self, folder):
        pass

    def dataset(self, length):
        """A dataset of `length` samples."""
        return Named(length)


class Named:
    """The map-style dataset: each sample looks at some names here and there, as a shuffling sampler does."""

    def __init__(self, length):
        self.names = ["images/train/%08d.jpg" % index for index in range(length)]

    def __len__(self):
        return len(self.names)

    def __getitem__(self, index):
        import torch

        draw = random.Random(index)
        names = [self.names[draw.randrange(len(self.names))] for _ in range(64)]
        return torch.tensor([len(name) for name in names])
