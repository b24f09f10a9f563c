"""The user's factory, what it made, and how it is read: seeded, in this process or by workers."""

import importlib
import os
import random
import sys
import traceback

from loading import shut_down, start_method
from recorder import describe_error
from values import describe, tree_digest, type_name

FIRST = 16
BATCH = 4
BATCHES = 4


class Subject:
    """A dataset, with the settings of its DataLoader where the factory made one."""

    def __init__(self, question, died=frozenset()):
        self.question = question
        self.died = died
        self.timeout_s = question.get("timeout_s", 30)
        self.dataset = None
        self.loader = None
        self.collate_fn = None
        self.worker_init_fn = None

    def make(self, tell):
        """Import the file or module, and call the factory; False where that fails, with the finding told."""
        try:
            factory = imported(self.question)
            made = factory()
        except Exception as error:
            tell.find("data-factory", "error", "the factory fails: %s" % brief(error), "correct it, then probe again")
            return False
        self.loader = made if _is_loader(made) else None
        self.worker_init_fn = self.loader.worker_init_fn if self.loader is not None else None
        self.dataset = made.dataset if self.loader is not None else made
        if not self.mapped and not hasattr(self.dataset, "__iter__"):
            message = "the factory gives %s, which is no Dataset: it has neither __getitem__ nor __iter__"
            tell.find("data-factory", "error", message % type_name(made), "return a Dataset, or a DataLoader")
            return False
        return True

    @property
    def mapped(self):
        """Whether samples are read by index."""
        return hasattr(self.dataset, "__getitem__") and not _is_iterable_dataset(self.dataset)

    @property
    def length(self):
        """len(), None where there is none."""
        try:
            return len(self.dataset)
        except Exception:
            return None

    def indices(self, count=FIRST):
        """The first indices that can be read without harm: those that killed or hung a child are left out."""
        length = self.length
        wanted = range(min(count, length) if length is not None else count)
        return [index for index in wanted if "data/sample.%d" % index not in self.died]

    def samples(self, count=FIRST):
        """Pairs of an index and a sample, for those that can be read."""
        pairs = []
        for index in self.indices(count):
            try:
                pairs.append((index, self.read(index)))
            except (Exception, SystemExit):
                continue  # told by the step that reads it
        return pairs

    def read(self, index, seed=0):
        """One sample, after every generator was seeded."""
        seed_all(seed + 1000 * index)
        return self.dataset[index]

    @property
    def collate(self):
        """The collate function in use."""
        from torch.utils.data._utils.collate import default_collate

        own = self.loader.collate_fn if self.loader is not None else self.collate_fn
        return own or default_collate

    @property
    def own_collate(self):
        """Whether the user brought a collate function."""
        from torch.utils.data._utils import collate

        return self.loader is not None and getattr(self.loader.collate_fn, "__module__", "") != collate.__name__

    def batches(self, workers, method=None, dataset=None, seed=0, **options):
        """A loader over the first samples, in their order; the user's collate_fn and worker_init_fn are kept."""
        from torch.utils.data import DataLoader

        if self.loader is not None:
            options.setdefault("collate_fn", self.loader.collate_fn)
            options.setdefault("worker_init_fn", self.loader.worker_init_fn)
        options.setdefault("batch_size", BATCH)
        if self.mapped and dataset is None:
            options.setdefault("sampler", self.indices(BATCH * BATCHES))
        if workers:
            options.setdefault("multiprocessing_context", method or start_method())
            # Later than the time limit of the step, which tells where the worker hangs.
            options.setdefault("timeout", self.timeout_s + 5)
        seed_all(seed)
        return DataLoader(self.dataset if dataset is None else dataset, num_workers=workers, **options)


def taken(loader, count):
    """The first batches of a loader; its workers end here."""
    iterator = iter(loader)
    found = []
    try:
        for batch in iterator:
            found.append(batch)
            if len(found) >= count:
                break
    finally:
        shut_down(iterator)
    return found


def digest(value):
    """One hash for whatever a dataset or a loader gives."""
    return tree_digest(describe(value))


def seed_all(seed):
    """Seed torch, random and NumPy."""
    import torch

    torch.manual_seed(seed)
    random.seed(seed)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(seed % (1 << 32))


def brief(error):
    """An error with the user's line that raised it."""
    here = os.path.dirname(os.path.abspath(__file__))
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith(here)]
    own = [frame for frame in frames if "site-packages" not in frame.filename and "/lib/python" not in frame.filename]
    at = " (%s:%d, in %s)" % (os.path.basename(own[-1].filename), own[-1].lineno, own[-1].name) if own else ""
    return "%s: %s%s" % (type(error).__name__, str(error).strip()[:300], at)


def failure(error):
    """An error as a cell."""
    hang = "DataLoader timed out after" in str(error)
    return {"class": "hang" if hang else "error", "error": describe_error(error)}


def _is_loader(made):
    from torch.utils.data import DataLoader

    return isinstance(made, DataLoader)


def _is_iterable_dataset(dataset):
    from torch.utils.data import IterableDataset

    return isinstance(dataset, IterableDataset)


def imported(question):
    """The factory, imported by a name under which spawned workers find it too."""
    _leave_names()
    sys.path[:0] = question["paths"]
    module = importlib.import_module(question["module"])
    return getattr(module, question["factory"])


def _leave_names():
    """Give up the names of the payload's own modules: the user may have a `datasets` or a `samples` too."""
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [path for path in sys.path if os.path.abspath(path or ".") != here]
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if name != "__main__" and file and os.path.abspath(file).startswith(here + os.sep):
            del sys.modules[name]
