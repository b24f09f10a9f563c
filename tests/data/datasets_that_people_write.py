"""Datasets with one fault each, as field reports tell of them."""

import os
import random
import signal
import sqlite3
import threading
import time

import numpy as np
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset, IterableDataset, default_collate, get_worker_info

GENERATOR = None


class Base(Dataset):
    """Twelve samples, made by a function of the index."""

    def __init__(self, make=None, length=12):
        self.make = make
        self.length = length

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        return self.make(index)


def _pair(index):
    return torch.full((3,), float(index)), index


def _other_pair(index):
    return torch.full((3,), float(index if index != 7 else 70)), index


def healthy():
    return Base(_pair)


def healthy_but_other():
    return Base(_other_pair)


def unequal_sizes():
    return Base(lambda index: {"x": torch.zeros(3, 10 + index), "y": index})


def a_none():
    return Base(lambda index: None if index == 3 else torch.zeros(3))


def several_nones():
    return Base(lambda index: None if 4 <= index < 8 else torch.zeros(3))


def a_none_in_a_field():
    return Base(lambda index: {"x": 1, "mask": None if index == 2 else torch.zeros(1)})


def _without_none(batch):
    return default_collate([sample for sample in batch if sample is not None])


def filtered_empty():
    return DataLoader(several_nones(), batch_size=4, collate_fn=_without_none)


def unnamed_key():
    return Base(lambda index: {"a": torch.zeros(2) if index % 2 == 0 else np.zeros(2)})


def first_decides():
    return Base(lambda index: 1 if index == 0 else 2.5)


def extra_key():
    return Base(lambda index: {"x": 1} if index == 0 else {"x": 1, "mask": 2})


def missing_key():
    return Base(lambda index: {"x": 1, "mask": 2} if index == 0 else {"x": 1})


def requires_grad():
    return Base(lambda index: torch.zeros(2, requires_grad=True))


def images():
    return Base(lambda index: (Image.new("RGB", (4, 3)), index))


def ragged():
    return Base(lambda index: list(range(index + 1)))


class Strings(Base):
    """Keeps a Python object for each sample."""

    def __init__(self):
        super().__init__()
        self.items = [str(index) for index in range(300000)]

    def __getitem__(self, index):
        return int(self.items[index])


def copy_on_write():
    return Strings()


def lambda_collate():
    return DataLoader(healthy(), collate_fn=lambda batch: batch)


class Connected(Base):
    """Holds what no worker should inherit."""

    def __init__(self):
        super().__init__()
        self.inner = {"db": sqlite3.connect(":memory:"), "f": open(os.devnull), "lock": threading.Lock()}

    def __getitem__(self, index):
        return index


def connection():
    return Connected()


class OwnGenerator(Base):
    """Augments from a generator that every worker gets a copy of."""

    def __init__(self):
        super().__init__()
        self.rng = np.random.default_rng(0)

    def __getitem__(self, index):
        return self.rng.random(3)


def own_generator():
    return OwnGenerator()


def module_generator():
    global GENERATOR
    GENERATOR = np.random.default_rng(0)
    return Base(lambda index: GENERATOR.random(3))


def _seed_worker(worker):
    random.seed(worker)


def seeded_workers():
    return DataLoader(Base(lambda index: random.random()), worker_init_fn=_seed_worker)


def augmented():
    return Base(_augmented)


def _augmented(index):
    return torch.rand(3) + random.random() + np.random.rand()


class InPlace(Base):
    """Changes the samples that it keeps."""

    def __init__(self):
        super().__init__()
        self.stored = [torch.zeros(2) for _ in range(12)]

    def __getitem__(self, index):
        self.stored[index] += 1
        return self.stored[index]


def other_in_workers():
    return Base(lambda index: index if get_worker_info() is None else -index)


def changed_in_place():
    return InPlace()


class Stream(IterableDataset):
    """Numbers, divided among workers in one of several ways."""

    def __init__(self, make):
        self.make = make

    def __iter__(self):
        worker = get_worker_info()
        return iter(self.make(worker.id if worker else 0, worker.num_workers if worker else 1))


def _whole(worker, workers):
    return range(20)


def _sharded(worker, workers):
    return range(worker, 20, workers)


def _endless(worker, workers):
    while True:
        yield worker
        worker += workers


def whole_stream():
    return Stream(_whole)


def _half(worker, workers):
    return range(worker, 20, 2 * workers) if workers > 1 else range(20)


def lossy_stream():
    return Stream(_half)


def sharded_stream():
    return Stream(_sharded)


def endless_stream():
    return Stream(_endless)


class Files(Base):
    """Keeps paths in the order of the file system."""

    def __init__(self):
        super().__init__(length=3)
        self.paths = ["/data/b/2.jpg", "/data/b/1.jpg", "/data/a/9.jpg"]

    def __getitem__(self, index):
        return index


def unsorted_files():
    return Files()


def _broken(index):
    if index == 5:
        raise ValueError("bad file")
    return index


def a_broken_sample():
    return Base(_broken)


def _unreadable(index):
    raise ValueError("bad file")


def nothing_readable():
    return Base(_unreadable)


def rarely_broken():
    return Base(_rarely, length=4000)


def _rarely(index):
    if index == 1500:
        raise ValueError("bad file")
    return torch.zeros(3, 8, 8)


def broken_factory():
    return undefined_name  # noqa: F821


def no_dataset():
    return 5


def _at_two(work):
    def make(index):
        if index == 2:
            work()
        return index

    return Base(make)


def _lock_twice():
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()


def deadlock():
    return _at_two(_lock_twice)


def worker_deadlock():
    return Base(lambda index: _lock_twice() if get_worker_info() else index)


def slow_worker_deadlock():
    return Base(lambda index: _lock_twice() if get_worker_info() else time.sleep(0.01) or index)


class NotInAFork(Dataset):
    """A handle that works in the process that made it and in workers started anew, as CUDA's and some clients' do."""

    def __init__(self):
        self.made = os.getpid()

    def __getstate__(self):
        return {}

    def __setstate__(self, state):
        self.made = os.getpid()

    def __len__(self):
        return 64

    def __getitem__(self, index):
        time.sleep(0.01)
        if os.getpid() != self.made:
            raise RuntimeError("cannot re-initialize in a forked subprocess")
        return torch.zeros(2)


def not_in_a_fork():
    return NotInAFork()


def factory_hangs():
    while True:
        time.sleep(1)


def leaves():
    return _at_two(lambda: os._exit(3))


def system_exit():
    return _at_two(lambda: exit(3))


def kills():
    return _at_two(lambda: os.kill(os.getpid(), signal.SIGSEGV))


def _eat(index):
    kept = []
    while index == 1:
        kept.append(bytearray(b"x") * (30 << 20))
    return index


def eats_memory():
    return Base(_eat)


def asks():
    return _at_two(input)


def on_gpu():
    return Base(lambda index: torch.zeros(2, device="cuda"))


def _slow(index):
    time.sleep(0.01)
    return None if index == 3 else torch.zeros(2)


def slow_loader():
    return DataLoader(Base(_slow), batch_size=4, num_workers=1, collate_fn=_without_none)


def a_model():
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.LazyLinear(4))


def a_function_of_a_batch():
    return lambda batch: batch[0].sum().item()


class TwoAndFour:
    """A sampler of batches of unequal length."""

    def __len__(self):
        return 8

    def __iter__(self):
        for number in range(8):
            yield [0, 1] if number % 2 else [0, 1, 2, 3]


def batches_of_two_and_four():
    return DataLoader(Base(_pair), batch_sampler=TwoAndFour())


def killed_workers():
    return Base(_killed_in_a_worker)


def _killed_in_a_worker(index):
    if torch.utils.data.get_worker_info() is not None:
        os.kill(os.getpid(), signal.SIGKILL)
    return torch.zeros(2)


def _many_tensors(index):
    time.sleep(0.01)
    return {str(number): torch.zeros(2) for number in range(14)}


def many_tensors():
    return Base(_many_tensors, length=512)


def _half_a_megabyte(index):
    time.sleep(0.01)
    return torch.zeros(1 << 17)


def half_a_megabyte():
    return Base(_half_a_megabyte, length=512)
