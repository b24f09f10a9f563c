"""Errors that come out of workers, and the recipe that drops samples that are None. Section 1.2 of the probe list."""

import json
import pickle

from loading import HANG_S, Failing, Samples, batches, both, loader
from probe import DESTRUCTIVE, Probe


class TwoArguments(Exception):
    """An exception that cannot be made from one text."""

    def __init__(self, first, second):
        super().__init__("%s and %s" % (first, second))


def _key_error(index):
    return {}["missing"]


def _runtime_error(index):
    raise RuntimeError("sample %d is broken" % index)


def _json_error(index):
    return json.loads("{bad")


def _unicode_error(index):
    return b"\xff".decode("utf-8")


def _two_arguments(index):
    raise TwoArguments("one", "two")


def _stop_iteration(index):
    raise StopIteration


def _failing_init(worker):
    raise ValueError("worker_init_fn failed")


def _unidentified_image(index):
    import io

    from PIL import Image

    return Image.open(io.BytesIO(b"not an image"))


def _pil_sample(index):
    from PIL import Image

    return Image.new("RGB", (4, 3))


def errors():
    """The same error at 0 workers and at 1."""
    works = {
        "key_error": _key_error,
        "runtime_error": _runtime_error,
        "json_error": _json_error,
        "unicode_error": _unicode_error,
        "two_arguments": _two_arguments,
        "stop_iteration": _stop_iteration,
        "unidentified_image": _unidentified_image,
        "pil_collate": _pil_sample,
    }
    cells = [
        ("%s.w%d" % (name, workers), lambda work=work, workers=workers: batches(loader(Failing(work), workers)))
        for name, work in works.items()
        for workers in (0, 1)
    ]
    failing_init = ("worker_init_fn.w1", lambda: batches(loader(Samples([1, 2]), 1, worker_init_fn=_failing_init)))
    return [*cells, failing_init]


def _naive(batch):
    from torch.utils.data._utils.collate import default_collate

    return default_collate([sample for sample in batch if sample is not None])


def _safe(batch):
    kept = [sample for sample in batch if sample is not None]
    return _naive(kept) if kept else None


def filter_none():
    """A collate function that drops None, over a batch that is partly None and one that is wholly None."""
    import torch

    samples = [torch.zeros(1), None, None, None]
    return [
        (
            "%s.w%d" % (name, workers),
            lambda collate=collate, workers=workers: batches(
                loader(Samples(samples), workers, batch_size=2, collate_fn=collate)
            ),
        )
        for name, collate in (("naive", _naive), ("safe", _safe))
        for workers in (0, 1)
    ]


def unequal_desc():
    """The larger sample first: a worker that collates in shared memory says something else than the main process."""
    import torch

    return both("larger_first", lambda: [torch.zeros(3, 5), torch.zeros(3, 4)])


def error_raw():
    """One whole error of a worker, as a person sees it."""

    def text():
        try:
            return batches(loader(Failing(_key_error), 1))
        except Exception as error:
            return str(error)

    return [("key_error", text)]


class UnpicklableSample:
    """A sample that cannot leave its process."""

    def __reduce__(self):
        raise pickle.PicklingError("this sample cannot be pickled")


def _unpicklable_error(index):
    """Raise an error of a class that no other process can find: it is sent with its class."""

    class Unpicklable(Exception):
        pass

    raise Unpicklable("no way out")


def _unpicklable_sample(index):
    return UnpicklableSample()


def _first(batch):
    return batch[0]


def unpicklable_exception():
    """What cannot be pickled never reaches the main process, which waits."""
    return [
        ("exception", lambda: batches(loader(Failing(_unpicklable_error), 1, timeout=HANG_S))),
        ("sample", lambda: batches(loader(Failing(_unpicklable_sample), 1, timeout=HANG_S, collate_fn=_first))),
    ]


PROBES = [
    Probe("worker.errors", errors),
    Probe("worker.unequal_desc", unequal_desc),
    Probe("worker.error_raw", error_raw, compared=False),
    Probe("worker.unpicklable_exception", unpicklable_exception, DESTRUCTIVE),
    Probe("robust.filter_none", filter_none),
]
