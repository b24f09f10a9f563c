"""torch.load's defaults: what it still loads, and what it refuses. Section 1.7 of the probe list."""

import collections
import datetime
import io
import pathlib
import re
import zipfile

from probe import Probe


class Custom:
    """A class of the user's own in a checkpoint."""

    def __init__(self):
        self.x = 1

    def __repr__(self):
        return "Custom"


Result = collections.namedtuple("Result", ["a"])


def _saved():
    """What people save, each as a function that makes it."""
    import torch

    def array():
        import numpy

        return numpy.ones(2)

    def scalar():
        import numpy

        return numpy.float64(1.5)

    return {
        "tensor": lambda: torch.arange(3),
        "state_dict": lambda: {"w": torch.ones(2), "step": 3, "lr": 0.1, "name": "a"},
        "parameter": lambda: torch.nn.Parameter(torch.ones(2)),
        "module": lambda: torch.nn.ReLU(),
        "optimizer": lambda: torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.1).state_dict(),
        "custom": Custom,
        "npscalar": scalar,
        "nparray": array,
        "date": lambda: datetime.date(2020, 1, 1),
        "path": lambda: pathlib.PurePosixPath("a"),
        "namedtuple": lambda: Result(1),
        "defaultdict": lambda: collections.defaultdict(int, a=1),
        "ordered": lambda: collections.OrderedDict(a=1),
        "counter": lambda: collections.Counter("a"),
        "set": lambda: {1, 2},
        "bytes": lambda: b"ab",
        "complex": lambda: 1j,
        "size": lambda: torch.Size([1, 2]),
        "device": lambda: torch.device("cpu"),
        "dtype": lambda: torch.float32,
        "generator_state": lambda: torch.Generator().manual_seed(3).get_state(),
        "none": lambda: None,
    }


def weights_only():
    """torch.load with its default, and with weights_only either way."""
    made = _saved()
    cells = [(name, lambda make=make: _loaded(make)) for name, make in made.items()]
    cells += [
        (name + "_true", lambda name=name: _loaded(made[name], weights_only=True))
        for name in ("tensor", "module", "custom", "nparray", "namedtuple")
    ]
    cells += [
        (name + "_false", lambda name=name: _loaded(made[name], weights_only=False)) for name in ("module", "custom")
    ]
    cells += [("zip_members", _members), ("not_a_checkpoint", _not_a_checkpoint), ("legacy_format", _legacy)]
    return cells


def _loaded(make, **options):
    import torch

    file = io.BytesIO()
    torch.save(make(), file)
    file.seek(0)
    loaded = torch.load(file, **options)
    return [type(loaded).__name__, loaded if isinstance(loaded, (dict, list, torch.Tensor)) else repr(loaded)]


def _members():
    import torch

    file = io.BytesIO()
    torch.save(torch.ones(2), file)
    # torch 1.8 names a member after an address.
    members = (name.partition("/")[2] for name in zipfile.ZipFile(file).namelist())
    return sorted(re.sub(r"\d{5,}", "N", name) for name in members)


def _not_a_checkpoint():
    import torch

    return torch.load(io.BytesIO(b"<html>404</html>"))


def _legacy():
    import torch

    file = io.BytesIO()
    torch.save(torch.ones(2), file, _use_new_zipfile_serialization=False)
    file.seek(0)
    return torch.load(file)


PROBES = [Probe("load.weights_only", weights_only)]
