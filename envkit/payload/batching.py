"""One batch size for a model: does it fit in memory, how much does it take, and how fast is it?"""

import itertools
import time

import measuring
import supervisor
from recorder import brief

_STEPS = 3


def attempt(subject, wanted, consume, say):
    """Some steps with batches of a size, read in this process before the clock runs: it is the model that is measured.

    Returns memory in bytes at its peak, samples per second of the steps, and whether memory ran out.
    """
    batch = _batch(subject, wanted["batch_size"])
    try:
        return _steps(consume, batch, wanted)
    except Exception as error:
        if _no_memory(error):
            return {"fits": False, "reason": brief(error)}
        raise


def _batch(subject, size):
    """A batch of that many samples; few different ones are read, for reading is not the question here."""
    if subject.mapped:
        length = max(1, subject.length or 1)
        kept = [subject.dataset[index] for index in range(min(length, size, 16))]
    else:
        kept = list(itertools.islice(iter(subject.dataset), min(size, 16)))
    return subject.collate([kept[index % len(kept)] for index in range(size)])


def _steps(consume, batch, wanted):
    consume(batch)  # the first step allocates and chooses kernels
    begun, spent = time.perf_counter(), []
    while len(spent) < _STEPS or time.perf_counter() - begun < wanted["seconds"]:
        last = time.perf_counter()
        consume(batch)
        spent.append(time.perf_counter() - last)
    total = time.perf_counter() - begun
    rate = wanted["batch_size"] * len(spent) / total
    told = {"fits": True, "samples_per_s": rate, "batch_bytes": measuring.size(batch)["batch_bytes"]}
    return dict(told, **_memory())


def _no_memory(error):
    """Whether it is memory that ran out: torch says so in words of its own on the CPU."""
    text = str(error).lower()
    named = type(error).__name__ in ("OutOfMemoryError", "MemoryError")
    return named or "out of memory" in text or "can't allocate memory" in text or "not enough memory" in text


def _memory():
    """Bytes at the peak, and how many there are: of the GPU's where there is one, else of this process."""
    import torch

    if torch.cuda.is_available():
        limit = torch.cuda.mem_get_info()[1]
        return {"memory_bytes": torch.cuda.max_memory_reserved(), "memory_limit_bytes": limit}
    return {"memory_bytes": supervisor.peak_memory()}
