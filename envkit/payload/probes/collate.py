"""default_collate: what it makes of the samples that people really return. Section 1.1 of the probe list."""

import array
import collections
import datetime
import decimal
import fractions
import tempfile
import types
from pathlib import PurePosixPath

from loading import HANG_S, Samples, batches, both, first_batch, loader
from probe import WORKERS, Probe
from samples import Attributed, Data, Level, ListKind, OwnInit, Pair, ReadOnly, Row, TupleKind, Writable
from values import type_name_of


def _collate(samples):
    from torch.utils.data._utils.collate import default_collate

    return default_collate(samples)


def _direct(**cells):
    return [(name, lambda samples=samples: _collate(samples())) for name, samples in cells.items()]


def pil():
    """Images that nobody turned into tensors."""
    from PIL import Image

    def image():
        return Image.new("RGB", (4, 3))

    return _direct(
        bare=lambda: [image(), image()],
        in_tuple=lambda: [(image(), 0), (image(), 1)],
        in_dict=lambda: [{"x": image()}, {"x": image()}],
    ) + both("loader", lambda: [image(), image()])


def none():
    """Samples, or parts of them, that are None."""
    import torch

    zeros = torch.zeros
    return (
        both("all_none", lambda: [None, None])
        + both("later_none", lambda: [zeros(2), None])
        + both("dict_then_none", lambda: [{"a": 1}, None])
        + _direct(
            first_none=lambda: [None, zeros(2)],
            int_then_none=lambda: [1, None],
            str_then_none=lambda: ["a", None],
            inner_none=lambda: [{"m": None}, {"m": None}],
            empty=list,
        )
    )


def numbers():
    """Python numbers: the first one decides the dtype."""
    return _direct(
        int=lambda: [1, 2],
        float=lambda: [1.5, 2.5],
        bool=lambda: [True, False],
        int_float=lambda: [1, 2.5],
        float_int=lambda: [2.5, 1],
        complex=lambda: [1 + 2j, 3j],
        over_int64=lambda: [2**63, 1],
        int_enum=lambda: [Level.LOW, Level.HIGH],
        fraction=lambda: [fractions.Fraction(1, 3)] * 2,
        decimal=lambda: [decimal.Decimal("1.5")] * 2,
    ) + both("mixed", lambda: [1, 2.5])


def strings():
    """Text, bytes, paths and dates."""
    return _direct(
        str=lambda: ["abc", "ABC"],
        bytes=lambda: [b"abc", b"ABC"],
        bytes_ragged=lambda: [b"abc", b"AB"],
        bytearray=lambda: [bytearray(b"abc"), bytearray(b"ABC")],
        tuple_of_str=lambda: [("a", "b"), ("c", "d")],
        path=lambda: [PurePosixPath("a"), PurePosixPath("b")],
        date=lambda: [datetime.date(2020, 1, 1)] * 2,
    ) + both("loader", lambda: [b"abc", b"ABC"])


def shapes():
    """Tensors of unequal shapes and dtypes."""
    import torch

    zeros = torch.zeros
    return (
        both("unequal", lambda: [zeros(3, 4), zeros(3, 5)])
        + both("requires_grad", lambda: [zeros(2, requires_grad=True)] * 2)
        + _direct(
            scalar=lambda: [torch.tensor(1.0), torch.tensor(2.0)],
            dtype_mix=lambda: [zeros(2), zeros(2, dtype=torch.float64)],
            int_float=lambda: [zeros(2, dtype=torch.int64), zeros(2)],
            complex=lambda: [zeros(2, dtype=torch.complex64)] * 2,
            dimensions=lambda: [zeros(2), zeros(2, 1)],
            parameter=lambda: [torch.nn.Parameter(zeros(2))] * 2,
            in_dict=lambda: [{"x": zeros(2)}, {"x": zeros(3)}],
        )
    )


def numpy():
    """Arrays and scalars of NumPy."""
    import numpy as np
    import torch

    kinds = (
        "bool int8 uint8 int16 uint16 int32 uint32 int64 uint64 float16 float32 float64 complex64 longdouble".split()
    )
    cells = [
        ("arr_" + kind, lambda kind=kind: _collate([np.arange(3).astype(kind), np.arange(3).astype(kind)]))
        for kind in kinds
    ]
    cells += [("scalar_" + kind, lambda kind=kind: _collate([getattr(np, kind)(1)] * 2)) for kind in kinds[1:13]]
    return (
        cells
        + _direct(
            scalar_bool=lambda: [np.bool_(True), np.bool_(False)],
            str_array=lambda: [np.array(["a", "b"])] * 2,
            object_array=lambda: [np.array([1, None], dtype=object)] * 2,
            datetime=lambda: [np.array(["2020-01-01"], dtype="datetime64[D]")] * 2,
            big_endian=lambda: [np.arange(3, dtype=">f4")] * 2,
            negative_stride=lambda: [np.arange(3)[::-1]] * 2,
            readonly=lambda: [np.frombuffer(b"\x01\x02\x03", dtype="uint8")] * 2,
            structured=lambda: [np.zeros(2, dtype=[("a", "i4"), ("b", "f4")])] * 2,
            matrix=lambda: [np.array([[1, 2]]).view(np.matrix)] * 2,
            memmap=lambda: [_memmap(np)] * 2,
            masked=lambda: [np.ma.masked_array([1, 2, 3], mask=[0, 1, 0])] * 2,
            zero_dim=lambda: [np.array(1.5)] * 2,
            void=lambda: [np.zeros(1, dtype="V4")] * 2,
            np_str=lambda: [np.str_("a"), np.str_("b")],
            np_bytes=lambda: [np.bytes_(b"a"), np.bytes_(b"b")],
            unequal=lambda: [np.zeros((2, 3)), np.zeros((2, 4))],
            array_then_tensor=lambda: [np.zeros(2, dtype="float32"), torch.zeros(2)],
            tensor_then_array=lambda: [torch.zeros(2), np.zeros(2, dtype="float32")],
        )
        + both("loader_uint16", lambda: [np.arange(3).astype("uint16")] * 2)
    )


def _memmap(np):
    with tempfile.TemporaryFile() as file:
        file.write(bytes(range(8)))
        file.flush()
        return np.memmap(file, dtype="uint8", mode="r", shape=(8,))


def mappings():
    """dicts and what else has keys: the result's type, and what is lost on the way."""
    first = {"a": 1, "b": 2}
    second = {"a": 2, "b": 3}
    cells = _direct(
        dict=lambda: [dict(first), dict(second)],
        ordered=lambda: [collections.OrderedDict(first), collections.OrderedDict(second)],
        defaultdict=lambda: [collections.defaultdict(int, first), collections.defaultdict(int, second)],
        counter=lambda: [collections.Counter("a"), collections.Counter("aa")],
        userdict=lambda: [collections.UserDict(first), collections.UserDict(second)],
        chainmap=lambda: [collections.ChainMap(first), collections.ChainMap(second)],
        mappingproxy=lambda: [types.MappingProxyType(first), types.MappingProxyType(second)],
        mymapping=lambda: [ReadOnly(first), ReadOnly(second)],
        mymutable=lambda: [Writable(first), Writable(second)],
        mydictarg=lambda: [OwnInit(1, a=1), OwnInit(1, a=2)],
        missing_key=lambda: [dict(first), {"a": 2}],
        extra_key=lambda: [{"a": 1}, {"a": 2, "mask": 3}],
        nested=lambda: [{"x": {"y": 1}}, {"x": {"y": 2}}],
    )
    return [*cells, ("attr_kept", _attribute_kept)] + both("loader", lambda: [OwnInit(1, a=1), OwnInit(1, a=2)])


def _attribute_kept():
    samples = [Attributed(a=1), Attributed(a=2)]
    for sample in samples:
        sample.note = "keep"
    return getattr(_collate(samples), "note", None)


def input_mutated():
    """Whether collate writes into the samples that it was given."""
    return [
        ("mymutable", lambda: _after(Writable({"a": 1}), Writable({"a": 2}))),
        ("myrow", lambda: _after(Row([1, 2]), Row([3, 4]))),
        ("userdict", lambda: _after(collections.UserDict(a=1), collections.UserDict(a=2))),
        ("defaultdict", lambda: _after(collections.defaultdict(int, a=1), collections.defaultdict(int, a=2))),
        ("dict", lambda: _after({"a": 1}, {"a": 2})),
        ("list", lambda: _after([1, 2], [3, 4])),
        ("two_epochs", _two_epochs),
    ]


def _after(first, second):
    """The first sample as it is after it was collated."""
    _collate([first, second])
    return dict(first) if hasattr(first, "keys") else list(first)


def _two_epochs():
    data = loader(Samples([Writable({"a": 1}), Writable({"a": 2})]), 0, batch_size=2)
    return [[dict(batch) for batch in batches(data)] for _ in range(2)]


def _ones(*shape):
    import torch

    return torch.ones(*shape)


def sequences():
    """Lists, tuples and other things in a row."""
    return _direct(
        list=lambda: [[1, 2], [3, 4]],
        tuple=lambda: [(1, 2), (3, 4)],
        namedtuple=lambda: [Pair(1, 2), Pair(3, 4)],
        list_subclass=lambda: [ListKind([1, 2]), ListKind([3, 4])],
        tuple_subclass=lambda: [TupleKind([1, 2]), TupleKind([3, 4])],
        userlist=lambda: [collections.UserList([1, 2]), collections.UserList([3, 4])],
        myrow=lambda: [Row([1, 2]), Row([3, 4])],
        batch_is_tensor=lambda: _ones(2, 3),
        deque=lambda: [collections.deque([1, 2]), collections.deque([3, 4])],
        range=lambda: [range(2), range(2)],
        array=lambda: [array.array("i", [1, 2]), array.array("i", [3, 4])],
        set=lambda: [{1}, {2}],
        generator=lambda: [iter([1]), iter([2])],
        dataclass=lambda: [Data(1), Data(2)],
        ragged=lambda: [[1, 2], [3]],
        nested=lambda: [([1, 2], {"a": 1}), ([3, 4], {"a": 2})],
    ) + [("loader_ragged.w1", lambda: first_batch([[1, 2], [3]], 1))]


def layouts():
    """Sparse, nested, quantized and meta tensors."""
    return _direct(**_layout_samples())


def _layout_samples():
    import torch

    def quantized():
        return torch.quantize_per_tensor(torch.ones(2), 0.5, 0, torch.quint8)

    return {
        "sparse_coo": lambda: [torch.eye(2).to_sparse()] * 2,
        "sparse_csr": lambda: [torch.eye(2).to_sparse_csr()] * 2,
        "nested": lambda: [torch.nested.nested_tensor([torch.ones(1), torch.ones(2)])] * 2,
        "quantized": lambda: [quantized()] * 2,
        "meta": lambda: [torch.ones(2, device="meta")] * 2,
        "channels_last": lambda: [torch.ones(1, 2, 3, 4).contiguous(memory_format=torch.channels_last)] * 2,
    }


def _same(batch):
    return batch


def layouts_worker():
    """The same tensors through a worker, collated there and handed on as they are."""
    # The first use of a meta tensor imports much; done here, no worker is slow at it.
    _quietly(lambda: _collate(_layout_samples()["meta"]()))
    cells = []
    for name, samples in _layout_samples().items():
        if name != "channels_last":
            cells.append((name, lambda samples=samples: _through_worker(samples)))
    cells.append(("sparse_id", lambda: _through_worker(_layout_samples()["sparse_coo"], collate_fn=_same)))
    cells.append(("meta_id", lambda: _through_worker(_layout_samples()["meta"], collate_fn=_same)))
    return cells


def _quietly(work):
    try:
        work()
    except Exception:
        pass  # recorded by the cell of the same samples


def _through_worker(samples, **options):
    # What hangs for ever in some releases is known, and is not waited for as long as the rest.
    return first_batch(samples(), 1, timeout=HANG_S if options else 3 * HANG_S, **options)


def extend_api():
    """What other libraries extend: the map of collate functions, and the public names."""

    def keys():
        from torch.utils.data._utils.collate import default_collate_fn_map

        named = [key if isinstance(key, tuple) else (key,) for key in default_collate_fn_map]
        return sorted(" ".join(map(type_name_of, key)) for key in named)

    def public():
        import torch.utils.data

        return [name for name in ("default_collate", "default_convert") if name in torch.utils.data.__all__]

    return [("map_keys", keys), ("public", public)]


PROBES = [
    Probe("collate.pil", pil),
    Probe("collate.none", none),
    Probe("collate.numbers", numbers),
    Probe("collate.strings", strings),
    Probe("collate.shapes", shapes),
    Probe("collate.layouts", layouts),
    Probe("collate.layouts_worker", layouts_worker, WORKERS),
    Probe("collate.numpy", numpy),
    Probe("collate.mappings", mappings),
    Probe("collate.input_mutated", input_mutated),
    Probe("collate.sequences", sequences),
    Probe("collate.extend_api", extend_api),
]
