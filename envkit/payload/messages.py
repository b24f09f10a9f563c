"""Messages without what varies from run to run, and the known sentences among them. Section 4 of the probe list."""

import re

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
    ("collate.sparse", r"Batches of sparse tensors are not currently supported"),
    ("collate.nested", r"Batches of nested tensors are not currently supported"),
    ("collate.requires_grad", r"requires_grad"),
    ("numpy.unavailable", r"Numpy is not available"),
    ("numpy.dtype", r"can't convert np.ndarray of type (?P<type>[\w.]+)"),
    ("numpy.stride", r"strides? .*negative|negative strides"),
    ("numpy.removed", r"module 'numpy' has no attribute '(?P<name>\w+)'"),
    ("numpy.inhomogeneous", r"inhomogeneous shape"),
    ("numpy.out_of_bounds", r"Python integer (?P<value>-?\d+) out of bounds for (?P<type>\w+)"),
    ("torch.overflow", r"Overflow when unpacking long"),
    ("loader.timeout", r"DataLoader timed out after"),
    ("loader.unexpected_argument", r"got an unexpected keyword argument '(?P<name>\w+)'"),
    ("loader.prefetch_without_workers", r"prefetch_factor option could only be specified in multiprocessing"),
    ("loader.persistent_without_workers", r"persistent_workers option needs num_workers > 0"),
    ("loader.timeout_value", r"timeout option should be non-negative"),
    ("loader.exclusive", r"option is mutually exclusive|mutually exclusive with"),
    ("loader.workers_value", r"num_workers option should be non-negative"),
    ("sampler.num_samples", r"num_samples should be a positive integer value"),
    ("sampler.super", r"__init__\(\) takes exactly one argument"),
    ("dataset.split", r"Sum of input lengths does not equal"),
    ("dataset.size_mismatch", r"Size mismatch between tensors"),
    ("dataset.abstract", r"Can't instantiate abstract class (?P<name>\w+)"),
    ("dataset.process_group", r"Default process group has not been initialized"),
    ("worker.killed", r"is killed by signal: (?P<signal>[\w ]+)"),
    ("worker.exited", r"exited unexpectedly with exit code (?P<code>\d+)"),
    ("worker.gone", r"DataLoader worker .* exited unexpectedly"),
    ("pickle.cannot", r"cannot (?:pickle|serialize) '?(?P<type>[\w.]+)'? (?:object|instances)"),
    ("pickle.cannot", r"can't pickle (?P<type>[\w.]+) objects"),
    ("pickle.local", r"Can't (?:pickle local|get local) object '(?P<name>[^']+)'"),
    ("pickle.lookup", r"Can't pickle (?P<name>.+?): (?:attribute lookup|it's not|import of)"),
    ("pickle.state", r"has no attribute '__getstate__'|__reduce_ex__"),
    ("shm.full", r"unable to allocate shared memory.*\((?P<errno>\d+)\)"),
    ("files.too_many", r"Too many open files"),
    ("load.weights_only_blocked", r"Weights only load failed(?:.*?GLOBAL (?P<global>[\w.]+))?"),
    ("image.unidentified", r"cannot identify image file"),
    ("image.truncated", r"[Ii]mage file is truncated|truncated|premature end"),
    ("image.bomb", r"decompression bomb"),
    ("image.mode", r"Cannot handle this data type"),
    ("image.depth", r"At most 8-bit PNG"),
    ("attribute", r"(?:module|object) '?(?P<owner>[\w.]+)'? has no attribute '(?P<name>\w+)'"),
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
    (r"\bpid[ =:]+\d+", "PID"),
    (r"\b(?:Spawn|Fork|ForkServer)?(?:Process|PoolWorker)-\d+(?::\d+)*", "PROCESS"),
    (r"</?torch_\d+_\d+_\d+>|/torch_\d+_\d+_\d+", "torch_SHM"),
    (r"\bdecode_\w+, [^:,\s]+:\d+, ", ""),
    (r"(/[^\s'\":,]+)?/(site|dist)-packages/", "<SITE>/"),
    (r"(/[^\s'\":,]+)?/lib/python3\.\d+/", "<PYLIB>/"),
    (r"/tmp/[^\s'\":,)]+", "<TMP>"),
    (r"(?<![\w<>])/[\w.+-]+(?:/[\w.+-]+)+", "<PATH>"),
    (r"\s*\(Triggered internally at [^()]*(?:\([^()]*\)[^()]*)*\)\.?", ""),
    (r"\[enforce fail at [^\]]*\]", ""),
    (r"\b[\w.]+\.(?:cpp|cc|h|cu):\d+", "(SRC)"),
    (r", line \d+", ", line N"),
    (r"__(?:mp_)?main__\.|\b(?:probes\.\w+|samples|loading)\.(?=[A-Z_a-z])|\btypes\.(?=Data\b)", "MAIN."),
    (r"\b\w+\.__init__\(\)", "__init__()"),
    (r"current system is \d+", "current system is N"),
    (r"device_index=\d+", "device_index=N"),
    (r"\b[\d.]+ (?:bytes|[KMG]i?B)\b", "N BYTES"),
    (r"\b\d+(?:\.\d+)? ?(?:ms|µs|us)\b", "T"),
)

_ALIASES = (
    (r"\bnp\.(?:str_|bytes_)\((b?'[^']*')\)", r"\1"),
    (r"\bnp\.(?:float|int|uint)\d+\((-?[\d.]+)\)", r"\1"),
    (r"pathlib\._local\.", "pathlib."),
    (r"numpy\.float128", "numpy.longdouble"),
    (r"numpy\.bool\b", "numpy.bool_"),
    (
        r"(Can't instantiate abstract class \w+) (?:with(?:out an implementation for)? abstract methods?) '?(\w+)'?",
        r"\1 with abstract method \2",
    ),
)
"""Names that only changed between versions."""


def anonymous(text):
    """A text without what varies from run to run: addresses, paths, process ids, source lines."""
    for stop in ("Exception raised from", "C++ CapturedTraceback"):
        text = text.split(stop)[0]
    for pattern, replacement in _RULES:
        text = re.sub(pattern, replacement, text)
    return " ".join(text.split())


def normalise(text):
    """A message without what varies from run to run, nor in names alone from version to version."""
    text = anonymous(text)
    for pattern, replacement in _ALIASES:
        text = re.sub(pattern, replacement, text)
    return text
