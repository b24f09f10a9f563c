"""The workloads of the benchmark and of the tuner: each deterministic and made on the fly."""

from workloads import compute, jpeg, latency, memory, stored, text

_MADE = {
    "latency": latency.Latency,
    "uneven": latency.Uneven,
    "jpeg": jpeg.Jpeg,
    "images": jpeg.Images,
    "cpu": compute.Compute,
    "tiny": memory.Tiny,
    "large": memory.Large,
    "memmap": memory.MemoryMap,
    "copy-on-write": memory.CopyOnWrite,
    "hdf5": stored.Hdf5,
    "lmdb": stored.Lmdb,
    "text": text.Text,
    "iterable": text.Sharded,
}


def make(name, folder):
    """The workload of a name; raises ImportError where a library that it needs is absent."""
    return _MADE[name](folder)
