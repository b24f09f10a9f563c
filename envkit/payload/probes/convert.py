"""default_convert, and what pinning makes of a batch. Sections 1.1 and 1.2 of the probe list."""

import collections

from loading import Samples, batches, loader
from probe import Probe
from samples import ListKind, OwnInit, Pair, Pinnable, ReadOnly, TupleKind


def types():
    """default_convert, which loaders without batches use: what it keeps of a type."""
    import numpy as np
    from PIL import Image
    from torch.utils.data._utils.collate import default_convert

    values = {
        "array": lambda: np.arange(3),
        "uint16": lambda: np.arange(3).astype("uint16"),
        "scalar": lambda: np.float32(1),
        "np_str": lambda: np.str_("a"),
        "np_bytes": lambda: np.bytes_(b"a"),
        "object": lambda: np.array([None], dtype=object),
        "int": lambda: 1,
        "str": lambda: "a",
        "none": lambda: None,
        "list": lambda: [np.arange(2)],
        "tuple": lambda: (np.arange(2),),
        "tuple_of_str": lambda: ("a", "b"),
        "namedtuple": lambda: Pair(np.arange(2), 1),
        "mytup": lambda: TupleKind([np.arange(2)]),
        "dict": lambda: {"a": np.arange(2)},
        "dd": lambda: collections.defaultdict(int, a=np.arange(2)),
        "ordered": lambda: collections.OrderedDict(a=np.arange(2)),
        "mymapping": lambda: ReadOnly({"a": np.arange(2)}),
        "pil": lambda: Image.new("RGB", (2, 2)),
    }
    return [(name, lambda value=value: default_convert(value())) for name, value in values.items()]


def pin_types():
    """What the pinning thread makes of containers; without tensors in them no GPU is needed."""
    from torch.utils.data._utils.pin_memory import pin_memory

    values = {
        "tup": lambda: (1, 2),
        "mytup": lambda: TupleKind([1, 2]),
        "namedtuple": lambda: Pair(1, 2),
        "list": lambda: [1, 2],
        "mylist": lambda: ListKind([1, 2]),
        "dict": lambda: {"a": 1},
        "dd": lambda: collections.defaultdict(int, a=1),
        "ordered": lambda: collections.OrderedDict(a=1),
        "counter": lambda: collections.Counter("aa"),
        "mydictarg": lambda: OwnInit(1, a=1),
        "mymapping": lambda: ReadOnly({"a": 1}),
        "custom_map": lambda: Pinnable({"a": 1}),
        "str": lambda: "a",
        "bytes": lambda: b"a",
        "none": lambda: None,
    }
    return [(name, lambda value=value: pin_memory(value())) for name, value in values.items()]


def cpu_only():
    """pin_memory=True where there is no accelerator: what is said, and what comes out."""
    import torch

    if torch.cuda.is_available():
        return [("skipped", lambda: "this machine has a GPU")]

    def through(workers, **options):
        return batches(loader(Samples([(1, 2), (3, 4)]), workers, batch_size=2, pin_memory=True, **options))

    return [
        ("loader_w0", lambda: through(0)),
        ("loader_w1", lambda: through(1)),
        ("device_cuda", lambda: through(0, pin_memory_device="cuda")),
    ]


PROBES = [
    Probe("convert.types", types),
    Probe("pin.types", pin_types),
    Probe("pin.cpu_only", cpu_only),
]
