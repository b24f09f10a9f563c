"""The same images in the files of other libraries: HDF5 and LMDB; where the library is absent, that is told."""

import os

KEPT = 256
SHAPE = (3, 64, 64)
_BYTES = 3 * 64 * 64 * 4


class Hdf5:
    """One HDF5 file; every worker opens it for itself."""

    length = 4096

    def __init__(self, folder):
        import h5py
        import numpy

        self.path = os.path.join(folder, "samples.h5")
        if not os.path.exists(self.path):
            with h5py.File(self.path + ".part", "w") as file:
                data = numpy.frombuffer(os.urandom(1 << 16) * (KEPT * _BYTES >> 16), "u1")
                file["samples"] = data.reshape(KEPT, _BYTES)
            os.replace(self.path + ".part", self.path)

    def dataset(self, length):
        """A dataset of `length` samples, over the file again and again."""
        return InHdf5(self.path, length)


class Stored:
    """A map-style dataset whose file is opened at the first sample: open files do not outlive a fork."""

    def __init__(self, path, length):
        self.path, self.length, self.file = path, length, None

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        import torch

        if self.file is None:
            self.file = self.opened()
        data = bytearray(self.read(index % KEPT))
        return torch.frombuffer(data, dtype=torch.uint8).view(SHAPE[0], SHAPE[1], SHAPE[2] * 4), index


class InHdf5(Stored):
    """Over an HDF5 file."""

    def opened(self):
        """The file of this process."""
        import h5py

        return h5py.File(self.path, "r")

    def read(self, index):
        """The bytes of a sample."""
        return self.file["samples"][index].tobytes()


class Lmdb:
    """One LMDB folder; every worker opens it for itself."""

    length = 4096

    def __init__(self, folder):
        import lmdb

        self.path = os.path.join(folder, "samples.lmdb")
        if not os.path.exists(self.path):
            with lmdb.open(self.path + ".part", map_size=1 << 28) as store, store.begin(write=True) as writing:
                for index in range(KEPT):
                    writing.put(b"%d" % index, os.urandom(1 << 12) * (_BYTES >> 12))
            os.replace(self.path + ".part", self.path)

    def dataset(self, length):
        """A dataset of `length` samples, over the store again and again."""
        return InLmdb(self.path, length)


class InLmdb(Stored):
    """Over an LMDB folder."""

    def opened(self):
        """The store of this process."""
        import lmdb

        return lmdb.open(self.path, readonly=True, lock=False)

    def read(self, index):
        """The bytes of a sample."""
        with self.file.begin() as reading:
            return reading.get(b"%d" % index)
