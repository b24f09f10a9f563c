"""What is looked at in the user's data, one step each: reading, order, collate, workers, augmentation, pickling."""

import os
import sys
from collections import Counter

import holding
from recorder import record
from structure import culprits, extra_keys, fields, kind, outline, shown, tensors, within
from subject import BATCH, BATCHES, FIRST, brief, digest, failure, seed_all, taken
from values import describe, tree_digest, type_name

ROBUST = "drop samples that are None in a collate function: see the recipe below"
_STREAM = 64
_KEPT = 100
"""So many batches in memory at once are common: validation outputs, caches."""


def STEPS(subject):
    """The steps for this subject, in order: pairs of an id and a function of the subject and where to tell."""
    reading = [("data/sample.%d" % index, _sample(index)) for index in subject.indices()] if subject.mapped else []
    rest = [
        ("data/length", length),
        ("data/held", held),
        *reading,
        ("data/fields", same_fields),
        ("data/order", order),
        ("data/collate", collate),
        ("data/pairs", pairs),
        ("data/batches.w0", batches(0)),
        ("data/batches.w2", batches(2)),
    ]
    rest += [] if subject.mapped else [("data/stream", stream)]
    rest += [("data/pickle", pickled)]
    if "data/batches.w2" in subject.died:
        # Whatever else starts workers would hang or die too.
        return rest
    rest += [("data/augmentation", augmentation)] if subject.mapped else [("data/shards", shards)]
    rest += [("data/descriptors", descriptors)]
    return rest + [("data/spawn", started("spawn")), ("data/forkserver", started("forkserver"))]


def length(subject, tell):
    """len(dataset)."""
    if subject.mapped or hasattr(type(subject.dataset), "__len__"):
        tell.cell("data/length", record(lambda: len(subject.dataset)))


def held(subject, tell):
    """Things that workers should not inherit, and Python objects that grow in each worker."""
    for sort, _path, sentence in holding.held(subject.dataset):
        tell.find("data-held-" + sort, "warning", sentence)
    for path, sort, count, size in holding.large(subject.dataset):
        message = "%s is a %s of %d Python objects (about %d MiB), which every worker comes to copy as it reads it"
        following = "keep it in a NumPy array, a tensor or an Arrow table, or read it from disk"
        tell.find("data-copy-on-write", "warning", message % (path, sort, count, size >> 20), following)


def _sample(index):
    """Read one sample: twice with the same seeds, once with others."""

    def step(subject, tell):
        try:
            first = subject.read(index)
            cell = {"class": "ok", "value": describe(first)}
            again = describe(subject.read(index))
        except (Exception, SystemExit) as error:
            tell.cell("data/sample.%d" % index, failure(error))
            following = "mend the sample, or leave it out of the dataset"
            tell.find("data-sample-fails", "error", "sample %d raises %s" % (index, brief(error)), following)
            return
        tell.cell("data/sample.%d" % index, cell)
        _single(index, first, tell)
        if again != cell["value"]:
            message = "{is} different when read again with the same seeds"
            following = "do not change stored samples in place; seed every generator that the dataset uses"
            tell.find("data-rereads", "warning", message, following, index)

    return step


def _single(index, sample, tell):
    """What can be said of one sample alone."""
    for path, leaf in fields(sample):
        if leaf is None:
            what = "{is} None" + within(path)
            tell.find("data-none", "error", what + ", which default_collate refuses", ROBUST, index)
    for path, tensor in tensors(sample):
        if tensor.device.type != "cpu":
            message = "{is} on %s%s: workers cannot use the GPU of the main process"
            tell.find("data-on-gpu", "error", message % (tensor.device, within(path)), "return CPU tensors", index)
        if tensor.requires_grad:
            message = "{has} a tensor that requires grad%s: it works with 0 workers and fails with 1"
            tell.find("data-requires-grad", "error", message % within(path), "return tensor.detach()", index)


def same_fields(subject, tell):
    """The fields of the samples: their types, dtypes and shapes."""
    found = [(index, sample) for index, sample in _some(subject) if sample is not None]
    if not found:
        return
    tell.cell("data/fields", {"class": "ok", "value": _plain(outline(found[0][1]))})
    for index, path in extra_keys(found):
        message = "{has} the field %s, which sample %s has not: collate silently drops it"
        following = "give every sample the same keys"
        tell.find("data-extra-key", "warning", message % (path, found[0][0]), following, index)


def _plain(rows):
    return {"type": "list", "items": [{"type": "str", "value": repr(row)} for row in rows]}


def _some(subject, count=FIRST):
    """The first samples with their indices, of a map-style dataset or of a stream."""
    if subject.mapped:
        return subject.samples(count)
    found = []
    seed_all(0)
    for number, sample in enumerate(subject.dataset):
        found.append((number, sample))
        if len(found) >= count:
            break
    return found


def order(subject, tell):
    """Of a dataset over files: the order of the files, and whether it is the file system's."""
    for path, files in _file_lists(subject.dataset):
        common = os.path.commonpath(files) if len(files) > 1 else os.path.dirname(files[0])
        relative = [os.path.relpath(file, common) if common else file for file in files]
        tell.cell(
            "data/order",
            {"class": "ok", "value": {"type": "list", "shape": [len(files)], "sha256": tree_digest(relative)}},
        )
        by_folder = {}
        for file in files:
            by_folder.setdefault(os.path.dirname(file), []).append(file)
        if any(names != sorted(names) and names != sorted(names, key=_natural) for names in by_folder.values()):
            message = "the %d files of %s are not sorted: os.listdir and glob give another order on another machine"
            tell.find("data-order", "warning", message % (len(files), path), "sort them when the dataset is made")
        return


def _natural(name):
    import re

    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)]


def _file_lists(dataset):
    """Lists of paths that the dataset keeps: strings, or tuples that start with one as ImageFolder's do."""
    for path, value in holding.parts(dataset):
        if isinstance(value, (list, tuple)) and value and len(value) < 10**7:
            files = [item[0] if isinstance(item, (tuple, list)) and item else item for item in value]
            if all(isinstance(file, (str, os.PathLike)) for file in files) and any(os.sep in str(f) for f in files[:5]):
                yield path, [str(file) for file in files]


def collate(subject, tell):
    """One batch of the first samples; where it fails, the field, the indices, and the types or shapes."""
    found = _some(subject, BATCH * BATCHES)
    for start in range(0, len(found), BATCH):
        part = found[start : start + BATCH]
        try:
            batch = subject.collate([sample for _, sample in part])
        except Exception as error:
            _collate_fails(start // BATCH, part, error, subject, tell)
            return
        if start == 0:
            tell.cell("data/types", {"class": "ok", "value": _plain([[type_name(part[0][1]), type_name(batch)]])})
            _container(part[0][1], batch, tell)


def _container(sample, batch, tell):
    if type(sample) is not type(batch) and isinstance(sample, (tuple, list)) != isinstance(batch, (tuple, list)):
        return
    if isinstance(sample, (dict, tuple, list)) and type(sample) is not type(batch) and type(sample) is not tuple:
        message = "samples are %s and batches are %s: which of the two depends on the version of torch"
        tell.find("data-container", "info", message % (type_name(sample), type_name(batch)))


def _collate_fails(number, part, error, subject, tell):
    whole = [(index, sample) for index, sample in part if sample is not None]
    why = [] if len(whole) < len(part) or len(whole) < 1 else culprits(whole)
    if subject.own_collate and isinstance(error, IndexError) and not why:
        message = "the collate function gives an empty list for batch %d: all its samples were filtered out" % number
        tell.find("data-empty-batch", "error", message, "return None for an empty batch, and skip it in the loop")
        return
    if not why and len(whole) < len(part):
        if subject.own_collate:
            tell.find("data-collate", "error", "the collate function fails on batch %d: %s" % (number, brief(error)))
        return
    message = "batch %d does not collate: %s" % (number, "; ".join(why[:4]) or brief(error))
    pictures = any("PIL." in one for one in why)
    following = "turn images into tensors, as torchvision's ToTensor does" if pictures else ""
    following = following or "bring the samples to one shape and type, or pass a collate_fn"
    tell.find("data-collate", "error", message, following)


def pairs(subject, tell):
    """Both orders of pairs: the dtype of a batch is that of its first sample for numbers."""
    found = [pair for pair in _some(subject, 8) if pair[1] is not None]
    for (i, one), (j, other) in zip(found[:-1], found[1:]):
        try:
            forth, back = subject.collate([one, other]), subject.collate([other, one])
        except Exception:
            continue
        there = dict(fields(back))
        for path, leaf in fields(forth):
            if path in there and kind(leaf) != kind(there[path]):
                message = "%s becomes %s or %s, depending on which of the samples %s and %s comes first"
                told = message % (shown(path), kind(leaf), kind(there[path]), i, j)
                tell.find("data-first-decides", "warning", told, "return one type for every sample, such as float(x)")
                return


def batches(workers):
    """The first batches in the order of the samples, for a seed."""

    def step(subject, tell):
        name = "data/batches.w%d" % workers
        cell = record(lambda: _digests(subject, workers))
        tell.cell(name, cell)
        if not workers:
            return
        alone = record(lambda: _digests(subject, 0))
        if cell["class"] == "hang" or (cell["class"] != "ok" and alone["class"] == "ok"):
            _worker_fails(workers, cell, tell)
        elif subject.mapped and cell["class"] == "ok" and cell["value"] != alone.get("value"):
            _others(subject, workers, alone, tell)

    return step


def _digests(subject, workers, seed=0):
    return [digest(batch) for batch in taken(subject.batches(workers, seed=seed), BATCHES)]


def _others(subject, workers, alone, tell):
    """Other batches from workers are a fault only where they do not follow the seeds, which differ in workers."""
    again = record(lambda: _digests(subject, 0, seed=1))
    if again.get("value") == alone.get("value"):
        message = (
            "with %d workers the first batches are others than with 0, though the samples follow no seed" % workers
        )
        tell.find("data-worker-differs", "error", message, "look for what the dataset keeps from sample to sample")


def _said(error):
    """The text of a recorded error; of a worker's, what it caught."""
    return (error["worker"]["tail"] if error.get("worker") else error["message"])[:300]


def _worker_fails(workers, cell, tell):
    error = cell["error"]
    if cell["class"] == "hang":
        message = "with %d workers no batch comes: %s; with 0 workers the samples are read" % (
            workers,
            error["message"],
        )
        tell.find("data-worker-hangs", "error", message, "look for locks, queues and open files in the dataset")
        return
    message = "it works with 0 workers and fails with %d: %s" % (workers, _said(error))
    tell.find("data-worker-fails", "error", message, "see the finding about what the samples or the dataset hold")


class _Same:
    """A dataset that gives one sample again and again, with the worker that read it."""

    def __init__(self, dataset, index, count):
        self.dataset, self.index, self.count = dataset, index, count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        from torch.utils.data import get_worker_info

        return get_worker_info().id, digest(self.dataset[self.index])


def augmentation(subject, tell):
    """One sample read by two workers over two epochs: random augmentation must differ."""
    index = next(iter(subject.indices()), None)
    if index is None or sys.platform == "win32":
        return
    try:
        follows_seeds = len({digest(subject.read(index, seed)) for seed in range(3)}) > 1
        if not follows_seeds or (_own_state(subject, index) and not holding.generators(subject.dataset)):
            return
    except Exception:
        return
    loader = subject.batches(2, dataset=_Same(subject.dataset, index, 4), batch_size=1, collate_fn=list)
    first, second = [[read for batch in taken(loader, 4) for read in batch] for _ in range(2)]
    firsts = [dict(reversed(epoch)) for epoch in (first, second)]
    if firsts[0].get(0) == firsts[0].get(1):
        message = "the augmentation of sample %d is the same in both workers: they draw the same random numbers" % index
        following = (
            "draw from torch or random, or seed the dataset's generator in worker_init_fn with torch.initial_seed()"
        )
        tell.find("data-same-in-workers", "error", message, following)
    elif firsts[0].get(0) == firsts[1].get(0):
        message = "the augmentation of sample %d is the same in every epoch: its generator starts anew" % index
        tell.find("data-same-in-epochs", "error", message, "seed it in worker_init_fn with torch.initial_seed()")


def _own_state(subject, index):
    """Whether the sample changes from read to read although every global generator is seeded alike."""
    return len({digest(subject.read(index, 0)) for _ in range(3)}) > 1


def descriptors(subject, tell):
    """How many files a batch that came from a worker keeps open, against the limit."""
    if not os.path.isdir("/proc/self/fd"):
        return
    import resource

    before = len(os.listdir("/proc/self/fd"))
    try:
        kept = taken(subject.batches(2), BATCHES)
    except Exception:
        return  # told by the step that loads
    each = (len(os.listdir("/proc/self/fd")) - before) / max(1, len(kept))
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if limit != resource.RLIM_INFINITY and each * _KEPT > limit:
        message = "each batch that is kept holds %d open files, and %d may be open: about %d batches can be kept"
        following = "keep no batches, raise `ulimit -n`, or torch.multiprocessing.set_sharing_strategy('file_system')"
        tell.find("data-open-files", "warning", message % (each, limit, (limit - before) / each), following)


def stream(subject, tell):
    """The first samples of a stream."""
    found = _some(subject, FIRST)
    tell.cell(
        "data/samples",
        {"class": "ok", "value": {"type": "list", "shape": [len(found)], "sha256": digest([s for _, s in found])}},
    )
    for index, sample in found:
        _single(index, sample, tell)


def shards(subject, tell):
    """The samples of a stream with no workers and with two, counted."""
    if subject.loader is not None and subject.own_collate:
        subject.loader.collate_fn = list
    alone = _counted(subject, 0, _STREAM)
    workers = record(lambda: _counted(subject, 2, 2 * _STREAM) and None)
    if workers["class"] != "ok":
        return
    shared = _counted(subject, 2, 2 * _STREAM)
    again = [sample for sample, count in shared.items() if count > max(1, alone[sample])]
    if again:
        message = "with 2 workers %d of %d samples come more than once: every worker reads the whole stream"
        following = "give each worker its part: use get_worker_info() in __iter__"
        tell.find("data-duplicates", "error", message % (len(again), len(shared)), following)
    missing = [sample for sample in alone if sample not in shared]
    if missing and sum(alone.values()) < _STREAM:
        message = "with 2 workers %d of %d samples never come" % (len(missing), len(alone))
        tell.find("data-missing", "error", message, "check how __iter__ divides the stream among workers")


def _counted(subject, workers, most):
    found = taken(subject.batches(workers, batch_size=1, collate_fn=list), most)
    return Counter(digest(sample) for batch in found for sample in batch)


def pickled(subject, tell):
    """What spawn and forkserver need: the dataset and its functions, pickled."""
    things = [("dataset", subject.dataset)]
    if subject.loader is not None:
        things += [(name, getattr(subject.loader, name)) for name in ("collate_fn", "worker_init_fn")]
    for name, thing in things:
        told = holding.unpicklable(thing, name)
        cell = {"class": "ok", "value": {"type": "str", "value": "picklable" if told is None else told[0]}}
        tell.cell("data/pickle.%s" % name, cell)
        if told is not None:
            message = "%s (%s) cannot be pickled, so workers cannot be spawned: %s" % (told[1], told[2], told[0])
            following = "needed on Python 3.14, macOS and Windows: define it at module level, or make it in the worker"
            tell.find("data-pickle", "warning", message, following)


def started(method):
    """One batch by a worker of another start method."""

    def step(subject, tell):
        import multiprocessing

        if method not in multiprocessing.get_all_start_methods():
            return
        if any(holding.unpicklable(thing, "") for thing in (subject.dataset, subject.collate)):
            return
        cell = record(lambda: len(taken(subject.batches(1, method=method), 1)))
        tell.cell("data/%s" % method, cell)
        if cell["class"] != "ok" and record(lambda: len(taken(subject.batches(1), 1)))["class"] == "ok":
            tell.find("data-" + method, "warning", "a worker started by %s fails: %s" % (method, _said(cell["error"])))

    return step
