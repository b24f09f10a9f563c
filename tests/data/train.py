"""Toy trainings, each held back by something else: `python train.py KIND [SECONDS]`."""

import os
import sys
import threading
import time

import torch
from torch.utils.data import DataLoader, Dataset


class Samples(Dataset):
    def __init__(self, make):
        self.make = make

    def __len__(self):
        return 1 << 20

    def __getitem__(self, index):
        return self.make(index)


def waiting(index):
    time.sleep(0.02)
    return torch.zeros(3, 32, 32)


def computing(index):
    value = index
    for _ in range(60000):
        value = (value * 1103515245 + 12345) % 2147483648
    return torch.zeros(3, 32, 32)


def quick(index):
    return torch.zeros(3, 32, 32)


def busy(index):
    value = index
    for _ in range(15000):
        value = (value * 1103515245 + 12345) % 2147483648
    return torch.zeros(3, 32, 32)


HELD = []


def kept(index):
    HELD.append(bytearray(os.urandom(4096)) * 24)
    time.sleep(0.005)
    return torch.zeros(3, 32, 32)


def hungry(index):
    HELD.append(os.urandom(1 << 20) * 16)
    time.sleep(0.02)
    return torch.zeros(3, 32, 32)


LOCK = threading.Lock()


def deadlocked(index):
    if index == 40:
        LOCK.acquire()
        LOCK.acquire()
    return torch.zeros(3, 32, 32)


def threaded(index):
    import numpy

    matrix = numpy.ones((500, 500))
    for _ in range(4):
        matrix = matrix @ matrix * 1e-3
    return torch.zeros(3, 32, 32)


def on_one_core(worker_id):
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


def compute(seconds):
    """Work of the main process, of this wall time: on the CPU, as a step of a model is here."""
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        sum(range(1000))


def pause(seconds):
    """A step that another device takes."""
    time.sleep(seconds)


# name: sample, workers, step, seconds of a step, more arguments
KINDS = {
    "starved-waiting": (waiting, 2, pause, 0.005, {}),
    "starved-computing": (computing, 2, pause, 0.001, {}),
    "balanced": (waiting, 2, compute, 0.085, {}),
    "compute-bound": (quick, 1, compute, 0.05, {}),
    "one-core": (computing, 2, pause, 0.001, {"worker_init_fn": on_one_core}),
    "growing": (kept, 2, pause, 0.01, {}),
    "hungry": (hungry, 1, pause, 0.01, {}),
    "deadlocked": (deadlocked, 2, pause, 0.001, {}),
    "threads": (threaded, 2, pause, 0.001, {}),
    "alone": (busy, 0, pause, 0.002, {}),
    "killed": (quick, 1, pause, 0.01, {}),
}


def main(kind, seconds):
    make, workers, step, step_s, more = KINDS[kind]
    loader = DataLoader(Samples(make), batch_size=8, num_workers=workers, **more)
    begun = time.monotonic()
    for number, _batch in enumerate(loader):
        step(step_s)
        if kind == "killed" and number == 100:
            os.kill(os.getpid(), 9)
        if time.monotonic() - begun > seconds:
            break


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 6.0)
