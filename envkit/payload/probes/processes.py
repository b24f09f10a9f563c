"""How workers start, what cannot reach them, and how they die. Section 1.5 of the probe list."""

import collections
import io
import mmap
import multiprocessing
import os
import pickle
import signal
import sqlite3
import sys
import threading
import warnings
import weakref

from loading import HANG_S, Failing, Samples, batches, loader
from probe import DESTRUCTIVE, FAST, SPAWNS, WORKERS, Probe


def defaults():
    """The default start method, the methods there are, and how tensors are shared."""

    def sharing():
        import torch.multiprocessing

        return [
            torch.multiprocessing.get_sharing_strategy(),
            sorted(torch.multiprocessing.get_all_sharing_strategies()),
        ]

    return [
        ("start_method", lambda: multiprocessing.get_context().get_start_method()),
        ("start_methods", multiprocessing.get_all_start_methods),
        ("sharing", sharing),
    ]


class Holder:
    """A dataset that holds something in an attribute."""

    def __init__(self, held):
        self.held = held

    def __len__(self):
        return 1

    def __getitem__(self, index):
        return index


def _local_class():
    class Local:
        pass

    return Local()


def _generator():
    yield 1


def _lambda():
    return lambda batch: batch


def _held():
    """Things that datasets hold, each as a function that makes one."""
    return {
        "plain": lambda: [1, 2],
        "lambda": _lambda,
        "local_class": _local_class,
        "lock": threading.Lock,
        "rlock": threading.RLock,
        "condition": threading.Condition,
        "thread": lambda: threading.Thread(target=print),
        "open_file": lambda: open(os.devnull),
        "binary_file": lambda: open(os.devnull, "rb"),
        "bytes_io": lambda: io.BytesIO(b"a"),
        "sqlite": lambda: sqlite3.connect(":memory:"),
        "generator": _generator,
        "module": lambda: sys,
        "mmap": lambda: mmap.mmap(-1, 16),
        "memoryview": lambda: memoryview(b"a"),
        "weakref": lambda: weakref.ref(collections.OrderedDict()),
        "dict_keys": lambda: {"a": 1}.keys(),
        "mp_lock": multiprocessing.Lock,
        "mp_queue": multiprocessing.Queue,
        "logger": lambda: __import__("logging").getLogger("envkit"),
    }


def _torch_held():
    import torch

    return {
        "gen_torch": torch.Generator,
        "tensor": lambda: torch.arange(3),
        "leaf": lambda: torch.ones(2, requires_grad=True),
        "nonleaf": lambda: torch.ones(2, requires_grad=True) * 2,
        "loader": lambda: torch.utils.data.DataLoader([1]),
        "loader_iterator": lambda: iter(torch.utils.data.DataLoader([1])),
    }


def pickle_direct():
    """pickle.dumps of what datasets hold."""
    things = dict(_held())
    try:
        things.update(_torch_held())
    except Exception as error:
        things["torch"] = lambda error=error: _raise(error)
    return [(name, lambda make=make: bool(pickle.dumps(make()))) for name, make in things.items()]


def _raise(error):
    raise error


def pickling():
    """The same things held by a dataset, with a worker of each start method."""
    names = ("plain", "lambda", "local_class", "lock", "open_file", "sqlite", "generator", "module")
    methods = [
        method for method in ("fork", "spawn", "forkserver") if method in multiprocessing.get_all_start_methods()
    ]
    cells = [
        ("%s_%s" % (method, name), lambda method=method, name=name: _through(Holder(_held()[name]()), method))
        for method in methods
        for name in (names if method == "spawn" else names[:4])
    ]
    cells += [
        ("%s_lambda_collate" % method, lambda method=method: _through(Samples([1]), method, collate_fn=_lambda()))
        for method in methods
    ]
    return cells


def _through(dataset, method, **options):
    return batches(loader(dataset, 1, multiprocessing_context=method, **options))


def _kill(number):
    def work(index):
        os.kill(os.getpid(), number)

    return work


def _leave(index):
    os._exit(3)


def _sleep(index):
    threading.Event().wait(60)


def worker_death():
    """A worker that is killed, that leaves, and one that never answers."""
    works = {name: _kill(getattr(signal, name)) for name in ("SIGKILL", "SIGSEGV", "SIGBUS") if hasattr(signal, name)}
    works["exit_3"] = _leave
    cells = [(name.lower(), lambda work=work: batches(loader(Failing(work), 1))) for name, work in works.items()]
    cells.append(("timeout", lambda: batches(loader(Failing(_sleep), 1, timeout=2))))
    return cells


class Large:
    """Samples of 4 MiB."""

    def __len__(self):
        return 4

    def __getitem__(self, index):
        import torch

        return torch.ones(1024, 1024)


def shm_full():
    """Samples of 4 MiB where /dev/shm holds 1 MiB; needs a mount namespace of its own, that is: root on Linux."""
    return [("one_worker", _in_small_shm)]


def _in_small_shm():
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    new_mounts, private, recursive = 0x00020000, 1 << 18, 1 << 14
    if libc.unshare(new_mounts) or libc.mount(b"none", b"/", None, private | recursive, None):
        raise PermissionError("a mount namespace of its own needs root")
    if libc.mount(b"tmpfs", b"/dev/shm", b"tmpfs", 0, b"size=1m"):
        raise PermissionError("a tmpfs cannot be mounted over /dev/shm")
    return [list(batch.shape) for batch in batches(loader(Large(), 1))]


class Many:
    """Each sample is forty tensors: each takes a descriptor on its way."""

    def __len__(self):
        return 40

    def __getitem__(self, index):
        import torch

        return [torch.ones(2) for _ in range(40)]


def _one(batch):
    return batch[0]


def too_many_files():
    """Batches that are kept, where forty more files may be open."""
    return [("kept", _with_few_files)]


def _with_few_files():
    import resource

    used = len(os.listdir("/proc/self/fd"))
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (used + 40, hard))
    return len(batches(loader(Many(), 1, timeout=HANG_S, collate_fn=_one)))


def _exit(index):
    sys.exit(5)


def sysexit():
    """sys.exit in a sample: the outcome depends on timing, so it is recorded and never compared."""
    return [("w1", lambda: batches(loader(Failing(_exit), 1, timeout=HANG_S)))]


def fork_warning():
    """fork while a thread runs: Python 3.12 and newer warn, at times."""

    def warned():
        stop = threading.Event()
        thread = threading.Thread(target=stop.wait)
        thread.start()
        try:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                pid = os.fork()
                if not pid:
                    os._exit(0)
                os.waitpid(pid, 0)
        finally:
            stop.set()
            thread.join()
        return [warning.category.__name__ for warning in caught]

    return [("one_thread", warned)]


PROBES = [
    Probe("mp.defaults", defaults, FAST),
    Probe("mp.pickle_direct", pickle_direct, FAST),
    Probe("mp.pickling", pickling, WORKERS, patience=SPAWNS),
    Probe("mp.worker_death", worker_death, DESTRUCTIVE),
    Probe("mp.shm_full", shm_full, DESTRUCTIVE),
    Probe("mp.too_many_files", too_many_files, DESTRUCTIVE),
    Probe("mp.worker_sysexit_racy", sysexit, DESTRUCTIVE, compared=False),
    Probe("python.fork_warning", fork_warning, FAST, compared=False),
]
