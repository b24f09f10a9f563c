"""The fields of a sample, and which of them keeps samples from being one batch."""

from values import type_name


def fields(sample, path=""):
    """Pairs of a path and a leaf: `["image"]`, `[0]["boxes"]`; a sample that is no container has the path ''."""
    if _is_mapping(sample):
        parts = [("[%r]" % (key,), sample[key]) for key in sample.keys()]
    elif isinstance(sample, tuple) and hasattr(sample, "_fields"):
        parts = [("." + name, part) for name, part in zip(sample._fields, sample)]
    elif isinstance(sample, (list, tuple)) and len(sample) <= 64:
        parts = [("[%d]" % index, part) for index, part in enumerate(sample)]
    else:
        return [(path, sample)]
    return [leaf for name, part in parts for leaf in fields(part, path + name)]


def _is_mapping(value):
    return hasattr(value, "keys") and hasattr(value, "__getitem__")


def shown(path):
    """A path for people."""
    return "field %s" % path if path else "the sample"


def within(path):
    """Where in a sample, for a sentence about the sample."""
    return " in field %s" % path if path else ""


def kind(leaf):
    """A leaf's type and dtype, in short."""
    dtype = getattr(leaf, "dtype", None)
    name = type_name(leaf)
    return "%s of %s" % (name, str(dtype).replace("torch.", "")) if dtype is not None else name


def shape(leaf):
    """A leaf's shape as a list; None for what has none."""
    size = getattr(leaf, "shape", None)
    try:
        return None if size is None else [int(part) for part in size]
    except TypeError:
        return None


def culprits(samples):
    """Why samples do not collate: sentences that name the field, two indices, and the types or shapes.

    `samples` are pairs of an index and a sample.
    """
    found = {}
    first_index, first = samples[0]
    expected = dict(fields(first))
    for index, sample in samples[1:]:
        there = dict(fields(sample))
        for path in expected.keys() - there.keys():
            message = "%s is in sample %s and not in sample %s" % (shown(path), first_index, index)
            found.setdefault(path, message)
        for path, leaf in there.items():
            told = _against(path, (first_index, expected[path]), (index, leaf)) if path in expected else None
            if told:
                found.setdefault(path, told)
    for path, told in _unequal_lengths(samples):
        found.setdefault(path, told)
    for path, leaf in expected.items():
        if odd(leaf):
            found.setdefault(path, "%s is %s, which default_collate does not take" % (shown(path), kind(leaf)))
    return list(found.values())


def _unequal_lengths(samples):
    """Lists whose lengths differ, which collate compares before it looks into them."""
    (first_index, first), *others = samples
    expected = dict(_lists(first))
    for index, sample in others:
        for path, length in _lists(sample):
            if expected.get(path, length) != length:
                told = "%s has %d items at index %s and %d at index %s"
                yield path, told % (shown(path), expected[path], first_index, length, index)


def _lists(sample, path=""):
    if _is_mapping(sample):
        return [found for key in sample.keys() for found in _lists(sample[key], path + "[%r]" % (key,))]
    if isinstance(sample, (list, tuple)):
        deeper = [found for index, part in enumerate(sample[:64]) for found in _lists(part, path + "[%d]" % index)]
        return [(path, len(sample)), *deeper]
    return []


def _against(path, one, other):
    (i, a), (j, b) = one, other
    if type(a) is not type(b):
        return "%s is %s at index %s and %s at index %s" % (shown(path), kind(a), i, kind(b), j)
    if shape(a) != shape(b):
        return "%s has shape %s at index %s and %s at index %s" % (shown(path), shape(a), i, shape(b), j)
    if isinstance(a, (list, tuple)) and len(a) != len(b):
        return "%s has %d items at index %s and %d at index %s" % (shown(path), len(a), i, len(b), j)
    return None


_TAKEN = ("torch.", "numpy.")


def odd(leaf):
    """Whether default_collate takes no such leaf."""
    if isinstance(leaf, (bool, int, float, str, bytes)) and not isinstance(leaf, complex):
        return False
    layout = str(getattr(leaf, "layout", "torch.strided"))
    if any(base.__module__.startswith(_TAKEN) or base.__module__ == "torch" for base in type(leaf).__mro__):
        return layout != "torch.strided" or getattr(getattr(leaf, "dtype", None), "kind", "f") in "OUSVM"
    return True


def extra_keys(samples):
    """Keys of later samples that the first one has not: collate drops them. Pairs of an index and a path."""
    _, first = samples[0]
    known = {path for path, _ in fields(first)}
    return [
        (index, path)
        for index, sample in samples[1:]
        for path, _ in fields(sample)
        if path not in known and path.startswith("[") and _is_mapping(sample)
    ]


def tensors(value):
    """The tensors in a value, each with its path."""
    return [(path, leaf) for path, leaf in fields(value) if _is_tensor(leaf)]


def every_tensor(value):
    """All tensors in a batch, however many."""
    if _is_tensor(value):
        yield value
    elif _is_mapping(value) or isinstance(value, (list, tuple)):
        for part in (value[key] for key in value.keys()) if _is_mapping(value) else value:
            yield from every_tensor(part)


def _is_tensor(value):
    return type(value).__module__.startswith("torch") and hasattr(value, "device")


def outline(sample):
    """Each field with its type, dtype and shape: what stays equal over random augmentation."""
    return [[path, kind(leaf), shape(leaf)] for path, leaf in fields(sample)]
