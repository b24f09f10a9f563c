"""What a dataset holds: parts that cannot be pickled, that workers should not share, or that grow in every worker."""

import io
import pickle
import socket
import sqlite3
import sys
import threading

from recorder import brief
from values import type_name

_DEPTH = 4
_MANY = 200000
_SHARED = {
    "file": "is an open file: forked workers share its position, spawned ones cannot get it; open it in the worker",
    "connection": "is a database connection, which no other process may use; connect in the worker, at first use",
    "lock": "is a lock: a worker forked while it is held waits for ever, a spawned one cannot get it; make it there",
    "thread": "is a thread, which does not exist in workers; start it in the worker",
    "store": "is an open HDF5 or LMDB file, which forked workers corrupt; open it in the worker, at first use",
    "cuda": "is on a CUDA device: forked workers cannot use it; keep samples on the CPU and move batches",
    "generator": "is a random generator: every worker gets a copy in one state; seed it per worker in worker_init_fn",
}
_LOCKS = tuple(type(make()) for make in (threading.Lock, threading.RLock)) + (threading.Condition, threading.Event)


def parts(holder, name="dataset", depth=0, seen=None):
    """Pairs of a path and a value: attributes and items below an object, a few levels deep."""
    seen = set() if seen is None else seen
    if depth > _DEPTH or id(holder) in seen:
        return
    seen.add(id(holder))
    for label, value in _children(holder, name):
        yield label, value
        for deeper in parts(value, label, depth + 1, seen):
            yield deeper


def _children(holder, name):
    if isinstance(holder, dict):
        return [("%s[%r]" % (name, key), value) for key, value in list(holder.items())[:50]]
    if isinstance(holder, (list, tuple)):
        return [("%s[%d]" % (name, index), value) for index, value in enumerate(holder[:20])]
    if type(holder).__module__.split(".")[0] in ("torch", "numpy", "PIL") and not hasattr(holder, "__getitem__"):
        if type(holder).__module__.split(".")[0] != "torch" or not hasattr(holder, "__dict__"):
            return []
    try:
        attributes = vars(holder)
    except TypeError:
        return []
    return [("%s.%s" % (name, key), value) for key, value in attributes.items()]


def held(holder, name="dataset"):
    """Pairs of a path and a sentence for each thing that workers should not inherit."""
    found = []
    for path, value in parts(holder, name):
        sort = _sort(value)
        if sort is not None:
            found.append((sort, path, "%s (%s) %s" % (path, type_name(value), _SHARED[sort])))
    return found


def _sort(value):
    module = type(value).__module__.split(".")[0]
    if isinstance(value, (io.BytesIO, io.StringIO)):
        return None
    if isinstance(value, (io.IOBase, socket.socket)):
        return "file"
    if isinstance(value, sqlite3.Connection) or (type(value).__name__ in ("Connection", "connection", "Engine")):
        return "connection"
    if isinstance(value, _LOCKS):
        return "lock"
    if isinstance(value, threading.Thread):
        return "thread"
    if module in ("h5py", "lmdb", "tables") and type(value).__name__ in (
        "File",
        "Environment",
        "Dataset",
        "Transaction",
    ):
        return "store"
    if module == "torch" and getattr(getattr(value, "device", None), "type", "cpu") == "cuda":
        return "cuda"
    if type(value).__module__ == "random" and type(value).__name__ == "Random":
        return "generator"
    if module == "numpy" and type(value).__name__ in ("RandomState", "Generator"):
        return "generator"
    if module == "torch" and type(value).__name__ == "Generator":
        return "generator"
    return None


def generators(dataset):
    """Random generators that the dataset holds, or the module of its class: workers get copies in one state."""
    module = sys.modules.get(type(dataset).__module__)
    own = [value for _, value in parts(dataset)] + list(vars(module).values() if module else ())
    return [value for value in own if _sort(value) == "generator"]


def large(holder, name="dataset"):
    """Big Python lists and dicts: reading them changes reference counts, and so copies their pages in each worker."""
    found = []
    for path, value in parts(holder, name):
        if isinstance(value, (list, dict, set, tuple)) and len(value) >= _MANY:
            first = next(iter(value))
            size = sys.getsizeof(value) + len(value) * sys.getsizeof(first)
            found.append((path, type(value).__name__, len(value), size))
    return found


def unpicklable(value, name):
    """Why a value cannot be pickled, and the innermost part that is to blame: (error, path) or None."""
    error = _pickle_error(value)
    if error is None:
        return None
    path, blamed = name, value
    for _ in range(_DEPTH):
        inner = next(((label, part) for label, part in _children(blamed, path) if _pickle_error(part)), None)
        if inner is None:
            break
        path, blamed = inner
    return _pickle_error(blamed) or error, path, type_name(blamed)


def _pickle_error(value):
    try:
        pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
    except Exception as error:
        return brief(error)
    return None
