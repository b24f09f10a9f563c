"""The arguments of DataLoader: their defaults, what is refused, and what a loader warns of. Section 1.3."""

import inspect
import time

from loading import Samples, batches, loader, start_method
from probe import WORKERS, Probe


def signature():
    """Defaults, and names that come and go."""
    import torch.utils.data as data

    def defaults():
        return {
            name: repr(parameter.default)
            for name, parameter in inspect.signature(data.DataLoader.__init__).parameters.items()
            if name != "self" and parameter.default is not inspect.Parameter.empty
        }

    def exported():
        names = ("BufferedShuffleDataset", "ChainDataset", "DataLoader2", "StackDataset", "default_collate")
        return [name for name in names if hasattr(data, name)]

    def prefetch(workers):
        return data.DataLoader([1], num_workers=workers).prefetch_factor

    return [
        ("defaults", defaults),
        ("exported", exported),
        ("prefetch_default_w0", lambda: prefetch(0)),
        ("prefetch_default_w1", lambda: prefetch(1)),
        ("shuffle", lambda: defaults().get("shuffle")),
        ("in_order", lambda: defaults().get("in_order")),
    ]


def validation():
    """Combinations of arguments: which are taken, which are refused, and when."""
    import torch
    from torch.utils import data

    samples = Samples(list(range(10)))

    def made(dataset=samples, **options):
        return data.DataLoader(dataset, **options)

    combinations = dict(_arguments(), **_samplers(data))
    cells = [(name, lambda options=options: _settings(made(**options))) for name, options in combinations.items()]
    cells += [
        (name + "_iterated", lambda options=options: batches(made(**options)))
        for name, options in combinations.items()
        if name in ("batch_float", "batch_bool", "generator_int", "collate_not_callable", "no_length", "sampler_list")
    ]
    cells.append(("prefetch0_w1_iterated", lambda: batches(loader(samples, 1, prefetch_factor=0))))
    cells.append(("set_batch_size", lambda: setattr(made(), "batch_size", 3)))
    cells.append(("replace_worker_init", lambda: setattr(made(), "worker_init_fn", None)))
    cells.append(("torch_generator", lambda: _settings(made(generator=torch.Generator()))))
    return cells


def _arguments():
    return {
        "prefetch2_w0": {"prefetch_factor": 2},
        "prefetchNone_w0": {"prefetch_factor": None},
        "prefetchNone_w1": {"prefetch_factor": None, "num_workers": 1},
        "prefetch0_w1": {"prefetch_factor": 0, "num_workers": 1},
        "prefetch_negative_w1": {"prefetch_factor": -1, "num_workers": 1},
        "persistent_w0": {"persistent_workers": True},
        "workers_negative": {"num_workers": -1},
        "workers_float": {"num_workers": 1.5},
        "timeout_negative": {"timeout": -1},
        "timeout_w0": {"timeout": 5},
        "batch0": {"batch_size": 0},
        "batch_negative": {"batch_size": -1},
        "batch_float": {"batch_size": 2.5},
        "batch_bool": {"batch_size": True},
        "batch_none_drop_last": {"batch_size": None, "drop_last": True},
        "batch_none_shuffle": {"batch_size": None, "shuffle": True},
        "shuffle_none": {"shuffle": None},
        "shuffle_text": {"shuffle": "yes"},
        "generator_int": {"generator": 1},
        "context_w0": {"multiprocessing_context": start_method()},
        "context_unknown": {"multiprocessing_context": "thread", "num_workers": 1},
        "context_type": {"multiprocessing_context": 1, "num_workers": 1},
        "in_order": {"in_order": False},
        "unexpected": {"no_such_argument": 1},
        "collate_not_callable": {"collate_fn": 1},
        "empty": {"dataset": Samples([])},
        "empty_shuffle": {"dataset": Samples([]), "shuffle": True},
        "no_length": {"dataset": object()},
        "pin_device": {"pin_memory_device": "cpu"},
    }


def _samplers(data):
    ten = list(range(10))
    stream = _stream()(4)
    sampler, by_two = data.SequentialSampler(ten), data.BatchSampler(data.SequentialSampler(ten), 2, False)
    return {
        "sampler_shuffle": {"sampler": sampler, "shuffle": True},
        "sampler_list": {"sampler": [1, 0]},
        "batch_sampler_batch": {"batch_sampler": by_two, "batch_size": 2},
        "batch_sampler_shuffle": {"batch_sampler": by_two, "shuffle": True},
        "batch_sampler_sampler": {"batch_sampler": by_two, "sampler": sampler},
        "batch_sampler_drop_last": {"batch_sampler": by_two, "drop_last": True},
        "iterable_shuffle": {"dataset": stream, "shuffle": True},
        "iterable_shuffle_false": {"dataset": stream, "shuffle": False},
        "iterable_shuffle_none": {"dataset": stream, "shuffle": None},
        "iterable_sampler": {"dataset": stream, "sampler": sampler},
        "iterable_batch_sampler": {"dataset": stream, "batch_sampler": by_two},
    }


def _settings(made):
    return {
        "batch_size": made.batch_size,
        "sampler": type(made.sampler).__name__,
        "drop_last": made.drop_last,
    }


def _stream():
    """An IterableDataset class over a range, optionally with a length: its base is only known once torch is."""
    from torch.utils.data import IterableDataset

    class Stream(IterableDataset):
        def __init__(self, count, length=None):
            self.count = count
            self.length = length

        def __iter__(self):
            return iter(range(self.count))

        def __len__(self):
            if self.length is None:
                raise TypeError("this stream has no length")
            return self.length

    return Stream


def iterable_len():
    """Streams whose length is not what it says, and a stream that two workers read whole."""
    make = _stream()

    def through(workers, count, length):
        return [batch.tolist() for batch in batches(loader(make(count, length), workers, batch_size=2))]

    def length_of(count, length):
        return len(loader(make(count, length), 0, batch_size=2))

    return [
        ("shorter", lambda: through(0, 6, 4)),
        ("longer", lambda: through(0, 4, 6)),
        ("exact", lambda: through(0, 4, 4)),
        ("no_length", lambda: length_of(4, None)),
        ("shorter_w1", lambda: through(1, 6, 4)),
        ("duplicated_w2", lambda: through(2, 4, None)),
    ]


class SlowFirst:
    """A map-style dataset whose first sample takes its time."""

    def __len__(self):
        return 4

    def __getitem__(self, index):
        time.sleep(1.0 if index == 0 else 0.0)
        return index


def in_order():
    """Two workers, the first sample slow: in which order batches come."""

    def order(**options):
        return [int(batch[0]) for batch in batches(loader(SlowFirst(), 2, **options))]

    return [("default", order), ("first_when_false", lambda: order(in_order=False)[0] != 0)]


def too_many_workers():
    """The warning about more workers than cores."""
    from torch.utils.data import DataLoader

    return [("warning", lambda: DataLoader(Samples([1]), num_workers=4096).num_workers)]


PROBES = [
    Probe("loader.signature", signature),
    Probe("loader.validation", validation),
    Probe("loader.iterable_len", iterable_len),
    Probe("loader.in_order", in_order, WORKERS),
    Probe("loader.too_many_workers", too_many_workers),
]
