"""What single samples cost in this process, and what it costs to collate, move and copy a batch of them.

All times are seconds, all sizes bytes.
"""

import contextlib
import itertools
import os
import time

import holding
import measuring
import usage
from loading import shut_down
from recorder import brief
from structure import every_tensor
from workloads.jpeg import Files

_MOST_SAMPLES = 512
_MOVED_S = 0.12
_COPIED = (1 << 22, 1 << 27)


def profile(subject, wanted, consume=None):
    """The costs that the tuner's model and the limits are made of; `consume` is what takes a batch."""
    size = wanted["batch_size"]
    alone, _, _, failed = _samples(subject, wanted["seconds"] / 2, 1)
    told = {"length": subject.length, "present": _present(subject), "failed": failed}
    with _one_thread():
        walls, cpus, samples, _ = _samples(subject, wanted["seconds"], size)
        if not samples:
            return dict(told, sample_s=[], mean_s=0.0, worker_s=0.0, sample_cpu_s=0.0, collate_s=0.0, **_NOTHING)
        collate = _collate_of(subject)
        # The first call imports, allocates and starts threads.
        collate(samples)
        batch, spent = _timed(lambda: collate(samples))
        told.update(worker_s=_mean_cost(subject, walls), sample_cpu_s=sum(cpus) / len(cpus))
    told.update(measuring.size(batch))
    told.update(
        sample_s=walls,
        mean_s=_mean_cost(subject, alone),
        collate_s=spent / len(samples) * size,
        moved_s=_moved(batch),
        copied_bytes_per_s=_bandwidth(told["batch_bytes"]),
        holds=["%s, a %s of %d items" % found[:3] for found in holding.large(subject.dataset)],
        device=_device(batch),
        cold_s=_cold(subject),
        open_files=usage.open_files(),
        **_step(batch, consume),
    )
    return told


_NOTHING = {"batch_bytes": 0, "tensors": 0}


@contextlib.contextmanager
def _one_thread():
    """As workers run: torch gives each of them one thread."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _collate_of(subject):
    """How samples become a batch; where the dataset gives whole batches, the last of them is one."""
    own = subject.loader
    if own is not None and own.batch_sampler is None:
        return lambda samples: samples[-1]
    return subject.collate


def _samples(subject, seconds, size):
    """Wall and CPU time of each sample, the last ones, and how many could not be read, with the first error."""
    source, indices = (None, measuring.indices(subject)) if subject.mapped else (iter(subject.dataset), None)
    walls, cpus, samples, failures = [], [], [], []
    begun = time.perf_counter()
    for _ in range(_MOST_SAMPLES):
        if time.perf_counter() - begun >= seconds:
            break
        cpu, wall = time.process_time(), time.perf_counter()
        try:
            sample = next(source) if source is not None else subject.dataset[next(indices)]
        except StopIteration:
            break
        except Exception as error:
            if source is not None:
                raise
            failures.append(error)
            continue
        walls.append(time.perf_counter() - wall)
        cpus.append(time.process_time() - cpu)
        samples = (samples + [sample])[-size:]
    if failures and not walls:
        raise failures[0]
    # The first one imports and allocates what the others find ready.
    walls, cpus = (walls[1:], cpus[1:]) if len(walls) > 3 else (walls, cpus)
    return walls, cpus, samples, _told(failures)


def _told(failures):
    """How many samples could not be read, and the first error."""
    if not failures:
        return None
    return {"count": len(failures), "first": brief(failures[0])}


def _mean_cost(subject, walls):
    """Seconds for a sample; those that take as long as a clock takes to read are timed many at once."""
    mean = sum(walls) / len(walls)
    if not subject.mapped or mean > 1e-4:
        return mean
    chosen = list(itertools.islice(measuring.indices(subject), len(walls)))
    _, spent = _timed(lambda: [_read(subject, index) for index in chosen])
    return spent / len(walls)


def _read(subject, index):
    try:
        return subject.dataset[index]
    except Exception:
        return None


_COLD = 64


def _cold(subject):
    """Seconds for a sample whose file is in no cache; None where the files are not known, or cannot be forgotten."""
    if not isinstance(subject.dataset, Files) or not hasattr(os, "posix_fadvise"):
        return None
    count = min(_COLD, len(subject.dataset.paths))
    subject.dataset.forget(count)
    _, spent = _timed(lambda: [_read(subject, index) for index in range(count)])
    return spent / count


def _timed(work):
    begun = time.perf_counter()
    made = work()
    return made, time.perf_counter() - begun


def _moved(batch):
    """Seconds for a batch to come from a worker that has nothing else to do; None where it cannot be sent."""
    from torch.utils.data import DataLoader

    try:
        data = DataLoader(Ready(batch), batch_size=None, num_workers=1)
        iterator = iter(data)
    except Exception:
        return None
    try:
        next(iterator)
        begun, count = time.perf_counter(), 0
        while time.perf_counter() - begun < _MOVED_S or count < 3:
            next(iterator)
            count += 1
        return (time.perf_counter() - begun) / count
    except Exception:
        return None
    finally:
        shut_down(iterator)


class Ready:
    """A dataset that has its batches made already: each is a copy, as a new batch would be."""

    def __init__(self, batch):
        self.batch = batch

    def __len__(self):
        return 1 << 30

    def __getitem__(self, index):
        return copied(self.batch)


def copied(value):
    """A copy of the tensors in a batch; everything else is handed on."""
    if hasattr(value, "clone") and hasattr(value, "device"):
        return value.clone()
    if isinstance(value, dict):
        return {name: copied(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return type(value)(copied(part) for part in value)
    return value


def _step(batch, consume):
    """Wall and CPU time that the consumer takes for a batch."""
    if consume is None:
        return {"step_s": 0.0, "step_cpu_s": 0.0}
    consume(batch)
    cpu, spent = time.process_time(), [_timed(lambda: consume(batch))[1] for _ in range(3)]
    return {"step_s": sum(spent) / 3, "step_cpu_s": (time.process_time() - cpu) / 3}


def _bandwidth(batch_bytes):
    """Bytes per second that one core copies, in pieces of a batch, as collating into shared memory does."""
    import torch

    size = max(_COPIED[0], min(_COPIED[1], batch_bytes))
    with _one_thread():
        source = torch.ones(size // 4)
        return size / min(_timed(source.clone)[1] for _ in range(3))


def _device(batch):
    """Seconds to copy a batch to the GPU, from ordinary and from pinned memory, and both while it computes."""
    import torch

    tensors = list(every_tensor(batch))
    if not torch.cuda.is_available() or not tensors:
        return None
    pinned = [one.pin_memory() for one in tensors]
    work = torch.ones(2048, 2048, device="cuda")
    return {
        "pageable_s": _copy_time(torch, tensors, False, None),
        "pinned_s": _copy_time(torch, pinned, True, None),
        "compute_s": _copy_time(torch, [], False, work),
        "pageable_computing_s": _copy_time(torch, tensors, False, work),
        "pinned_computing_s": _copy_time(torch, pinned, True, work),
    }


def _copy_time(torch, tensors, asynchronous, work):
    """The best of a few: copies on a stream of their own, beside products on another where `work` is given."""
    side = torch.cuda.Stream()

    def once():
        for _ in range(8 if work is not None else 0):
            torch.mm(work, work)
        with torch.cuda.stream(side):
            for one in tensors:
                one.to("cuda", non_blocking=asynchronous)
        torch.cuda.synchronize()

    once()
    return min(_timed(once)[1] for _ in range(5))


def _present(subject):
    """The setting of the user's own DataLoader."""
    if subject.loader is None:
        return None
    data = subject.loader
    method = getattr(data.multiprocessing_context, "get_start_method", lambda: None)()
    return {
        "num_workers": data.num_workers,
        "prefetch_factor": data.prefetch_factor if data.num_workers else None,
        "persistent_workers": data.persistent_workers,
        "batch_size": data.batch_size or 1,
        "pin_memory": bool(data.pin_memory),
        "start_method": method if data.num_workers else None,
    }
