"""A value as plain data: types, shapes and hashes of raw bytes. Nothing goes through NumPy unless it is NumPy's."""

import ctypes
import hashlib
import math
import re
import struct

from messages import anonymous

FEW = 8
SAMPLED = 16
_DEPTH = 6
_MOST = 200000


def describe(value, depth=0):
    """The structure of a value: a tree of types, dtypes, shapes, hashes and small values."""
    if depth > _DEPTH:
        return {"type": type_name(value), "deep": True}
    for kind, describer in _DESCRIBERS:
        if _is_a(value, kind):
            return describer(value)
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes, bytearray)):
        return {"type": type_name(value), "value": _scalar(value)}
    if hasattr(value, "keys") and hasattr(value, "__getitem__"):
        items = [[_scalar(key), describe(value[key], depth + 1)] for key in value.keys()]
        return {"type": type_name(value), "items": items}
    if isinstance(value, (set, frozenset)):
        return {"type": type_name(value), "items": [describe(item, depth + 1) for item in sorted(value, key=repr)]}
    if isinstance(value, (list, tuple)) or hasattr(value, "_fields"):
        return {"type": type_name(value), "items": [describe(item, depth + 1) for item in value]}
    if isinstance(value, type):
        return {"type": "type", "value": type_name_of(value)}
    return {"type": type_name(value)}


def _is_a(value, name):
    return any(base.__module__.split(".")[0] + "." + base.__name__ == name for base in type(value).__mro__)


def _tensor(tensor):
    told = {
        "type": type_name(tensor),
        "dtype": str(tensor.dtype).replace("torch.", ""),
        "shape": [int(size) for size in tensor.shape] if not getattr(tensor, "is_nested", False) else ["nested"],
        "layout": str(tensor.layout).replace("torch.", ""),
    }
    if told["layout"] == "strided" and tensor.device.type == "cpu" and told["shape"] != ["nested"]:
        told.update(_content(tensor.detach()))
    elif tensor.device.type != "cpu":
        told["device"] = tensor.device.type
    return told


def _content(tensor):
    """Hash and values of a dense tensor; floats that are many also by samples, for comparison with a tolerance."""
    if tensor.is_quantized:
        tensor = tensor.int_repr()
    if tensor.is_complex() and hasattr(tensor, "resolve_conj"):
        tensor = tensor.resolve_conj()
    plain = tensor.contiguous()
    size = plain.numel() * plain.element_size()
    told = {"sha256": hashlib.sha256(ctypes.string_at(plain.data_ptr(), size) if size else b"").hexdigest()[:16]}
    if plain.numel() <= FEW:
        told["values"] = [_scalar(value) for value in plain.reshape(-1).tolist()]
    elif plain.is_floating_point() and plain.numel() <= _MOST:
        told.update(_sampled(plain.reshape(-1).tolist()))
    return told


def _sampled(numbers):
    """Some of the numbers and the root of the sum of squares, added exactly: no order of adding shows in it."""
    step = max(1, len(numbers) // SAMPLED)
    finite = [number for number in numbers if math.isfinite(number)]
    total = math.fsum(number * number for number in finite if abs(number) < 1e150)
    return {"sample": [repr(number) for number in numbers[::step][:SAMPLED]], "l2": repr(math.sqrt(total))}


def _array(array):
    told = {"type": type_name(array), "dtype": str(array.dtype), "shape": list(array.shape)}
    if array.dtype.hasobject:
        return told
    told["sha256"] = hashlib.sha256(array.tobytes()).hexdigest()[:16]
    flat = array.reshape(-1).tolist() if array.shape else [array.item()]
    if array.size <= FEW and array.dtype.kind in "biufSU":
        told["values"] = [_scalar(value) for value in flat]
    elif array.dtype.kind == "f" and array.size <= _MOST:
        told.update(_sampled([float(number) for number in flat]))
    return told


def _picture(image):
    """A Pillow image: its mode and size, and the hash of its pixels."""
    return {
        "type": "PIL.Image",
        "dtype": image.mode,
        "shape": list(image.size),
        "sha256": hashlib.sha256(image.tobytes()).hexdigest()[:16],
    }


_DESCRIBERS = (
    ("torch.Tensor", _tensor),
    ("numpy.ndarray", _array),
    ("numpy.generic", _array),
    ("PIL.Image", _picture),
)


def _scalar(value):
    """Text that gives the value back exactly; floats by repr, which is shortest and round-trips."""
    if isinstance(value, bool) or value is None:
        return repr(value)
    if isinstance(value, float):
        return repr(float(value))
    if isinstance(value, int):
        return repr(int(value))
    return anonymous(repr(value))[:200]


def digest(values):
    """sha256 of a sequence of numbers, by their IEEE or two's complement bytes."""
    whole = hashlib.sha256()
    for value in values:
        if isinstance(value, float):
            whole.update(struct.pack("<d", value))
        else:
            whole.update(b"%d," % value)
    return whole.hexdigest()[:16]


def tree_digest(described):
    """sha256 of a described value: its types, shapes and contents."""
    return hashlib.sha256(repr(described).encode()).hexdigest()[:16]


_ALIASES = {
    "numpy.bool": "numpy.bool_",
    "numpy.float128": "numpy.longdouble",
    "pathlib._local.PosixPath": "pathlib.PosixPath",
    "pathlib._local.PurePosixPath": "pathlib.PurePosixPath",
    "_thread._ThreadHandle": "_thread.lock",
}


def type_name(value):
    """The qualified name of a value's type."""
    return type_name_of(type(value))


def type_name_of(kind):
    """The qualified name of a type, with the names that only moved between versions made equal."""
    module = kind.__module__
    name = kind.__qualname__.split("<locals>.")[-1]
    if module == "builtins":
        return name
    if re.match(r"(probes|samples|loading)\b", module):
        return "probe." + name
    return _ALIASES.get(module + "." + name, module + "." + name)
