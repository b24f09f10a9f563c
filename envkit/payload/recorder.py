"""Recording one cell: what a piece of code gave, in a form that compares across versions and machines.

class    ok | error | absent        (hang and crash are seen from outside)
ok       structure with type, dtype, shape and layout; sha256 of the raw bytes; the values when they are few
error    type with two bases, the message with what varies taken out, its template, its cause
"""

import ctypes
import hashlib
import re
import struct
import warnings

FEW = 8
_DEPTH = 6


def record(work):
    """Run `work` and describe its outcome; warnings are kept apart and sorted."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            cell = {"class": "ok", "value": describe(work())}
        except ImportError as error:
            cell = {"class": "absent", "error": describe_error(error)}
        except Exception as error:
            cell = {"class": "error", "error": describe_error(error)}
    told = sorted({(w.category.__name__, normalise(str(w.message))[:400]) for w in caught if _kept(w)})
    if told:
        cell["warnings"] = [list(pair) for pair in told]
    return cell


def _kept(warning):
    # The fork warning of Python 3.12 depends on timing; ResourceWarnings on the garbage collector.
    if issubclass(warning.category, ResourceWarning):
        return False
    return "multi-threaded, use of fork()" not in str(warning.message)


def describe(value, depth=0):
    """The structure of a value, tensors and arrays by their raw bytes, never through NumPy."""
    if depth > _DEPTH:
        return {"type": type_name(value), "deep": True}
    for kind, describer in (("torch.Tensor", _tensor), ("numpy.ndarray", _array), ("numpy.generic", _array)):
        if _is_a(value, kind):
            return describer(value)
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes, bytearray)):
        return {"type": type_name(value), "value": _scalar(value)}
    if hasattr(value, "keys") and hasattr(value, "__getitem__"):
        items = [[_scalar(key), describe(value[key], depth + 1)] for key in value.keys()]
        return {"type": type_name(value), "items": items}
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
        "shape": list(tensor.shape),
        "layout": str(tensor.layout).replace("torch.", ""),
    }
    if told["layout"] == "strided" and tensor.device.type == "cpu":
        plain = tensor.detach().contiguous()
        data = ctypes.string_at(plain.data_ptr(), plain.numel() * plain.element_size()) if plain.numel() else b""
        told["sha256"] = hashlib.sha256(data).hexdigest()[:16]
        if plain.numel() <= FEW:
            told["values"] = [_scalar(value) for value in plain.reshape(-1).tolist()]
    return told


def _array(array):
    told = {"type": type_name(array), "dtype": str(array.dtype), "shape": list(array.shape)}
    if not array.dtype.hasobject:
        data = array.tobytes()
        told["sha256"] = hashlib.sha256(data).hexdigest()[:16]
        if array.size <= FEW and array.dtype.kind in "biuf":
            flat = array.reshape(-1).tolist() if array.shape else [array.item()]
            told["values"] = [_scalar(value) for value in flat]
    return told


def _scalar(value):
    """Text that gives the value back exactly; floats by repr, which is shortest and round-trips."""
    if isinstance(value, bool) or value is None:
        return repr(value)
    if isinstance(value, float):
        return repr(float(value))
    if isinstance(value, int):
        return repr(int(value))
    return normalise(repr(value))[:200]


def digest(values):
    """sha256 of a sequence of numbers, by their IEEE or two's complement bytes."""
    whole = hashlib.sha256()
    for value in values:
        if isinstance(value, float):
            whole.update(struct.pack("<d", value))
        else:
            whole.update(b"%d," % value)
    return whole.hexdigest()[:16]


_ALIASES = {
    "numpy.bool": "numpy.bool_",
    "numpy.float128": "numpy.longdouble",
    "pathlib._local.PosixPath": "pathlib.PosixPath",
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
    if module.startswith("probes"):
        return "probe." + name
    return _ALIASES.get(module + "." + name, module + "." + name)


def describe_error(error):
    """An exception: type, bases, normalised message and its template; a worker's error by what it caught."""
    message = str(error)
    told = {
        "type": type_name(error),
        "bases": [type_name_of(base) for base in type(error).__mro__[1:3]],
        "message": normalise(message)[:1000],
        "raw": message[:4000],
    }
    worker = re.match(r"Caught (?P<caught>[\w.]+) in DataLoader worker process (?P<number>\d+)\.", message)
    if worker:
        tail = normalise(message.strip().splitlines()[-1])
        told["worker"] = {"caught": worker.group("caught"), "tail": tail[:1000]}
        told["message"] = "Caught %s in DataLoader worker process N." % worker.group("caught")
    told["template"], told["arguments"] = template(told["worker"]["tail"] if worker else told["message"])
    if error.__cause__ is not None:
        told["cause"] = {"type": type_name(error.__cause__), "message": normalise(str(error.__cause__))[:400]}
    return told


_TEMPLATES = (
    ("collate.unsupported_type", r"batch must contain .*found <class '(?P<type>[^']+)'>"),
    (
        "collate.stack_shape",
        r"equal size, but got (?P<a>\[[^\]]*\]) at entry 0 and (?P<b>\[[^\]]*\]) at entry (?P<entry>\d+)",
    ),
    ("collate.not_tensor", r"expected Tensor as element (?P<entry>\d+) in argument 0, but got (?P<type>\w+)"),
    ("collate.ragged", r"each element in list of batch should be of equal size"),
    ("collate.not_resizable", r"Trying to resize storage that is not resizable"),
    ("collate.infer_dtype", r"Could not infer dtype of (?P<type>[\w.]+)"),
    ("collate.numel", r"'(?P<type>\w+)' object has no attribute 'numel'"),
    ("collate.requires_grad", r"requires_grad"),
    ("numpy.unavailable", r"Numpy is not available"),
    ("numpy.dtype", r"can't convert np.ndarray of type (?P<type>[\w.]+)"),
    ("torch.overflow", r"Overflow when unpacking long"),
    ("loader.timeout", r"DataLoader timed out after"),
    ("worker.killed", r"is killed by signal: (?P<signal>[\w ]+)"),
    ("worker.exited", r"exited unexpectedly with exit code (?P<code>\d+)"),
    ("index", r"(?:list|tuple) index out of range"),
)


def template(message):
    """The id of the known sentence that a message is, with its variable parts; ('', {}) for an unknown one."""
    for name, pattern in _TEMPLATES:
        found = re.search(pattern, message)
        if found:
            return name, found.groupdict()
    return "", {}


_RULES = (
    (r"https?://[^\s'\")>\]]+", "<URL>"),
    (r"\x1b\[[0-9;]*m", ""),
    (r"\bat 0x[0-9a-fA-F]+|\b0x[0-9a-fA-F]{6,}", "0xADDR"),
    (r"\(pid\(s\) [\d, ]+\)", "PID"),
    (r"\bpid[ =]\d+", "PID"),
    (r"/torch_\d+_\d+_\d+", "torch_SHM"),
    (r"(/[^\s'\":,]+)?/(site|dist)-packages/", "<SITE>/"),
    (r"(/[^\s'\":,]+)?/lib/python3\.\d+/", "<PYLIB>/"),
    (r"/tmp/[^\s'\":,)]+", "<TMP>"),
    (r"(?<![\w<>])/[\w.+-]+(?:/[\w.+-]+)+", "<PATH>"),
    (r"\(Triggered internally at .*?\)\.?", ""),
    (r"\[enforce fail at [^\]]*\]", ""),
    (r"\b[\w.]+\.(?:cpp|cc|h|cu):\d+", "(SRC)"),
    (r", line \d+", ", line N"),
    (r"__(?:mp_)?main__\.|\bprobes\.\w+\.", "MAIN."),
    (r"\b\w+\.__init__\(\)", "__init__()"),
    (r"current system is \d+", "current system is N"),
    (r"np\.str_\(('[^']*')\)", r"\1"),
    (r"pathlib\._local\.", "pathlib."),
    (r"numpy\.float128", "numpy.longdouble"),
)


def normalise(text):
    """A message without what varies from run to run: addresses, paths, process ids, source lines."""
    for stop in ("Exception raised from", "C++ CapturedTraceback"):
        text = text.split(stop)[0]
    for pattern, replacement in _RULES:
        text = re.sub(pattern, replacement, text)
    return " ".join(text.split())
