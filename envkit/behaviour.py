"""Two reports' cells in, their differences out: each with its class, its suspects and the known change behind it."""

import math
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

import msgspec

from envkit import cells
from envkit.cells import Cell, Difference, Kind
from envkit.report import Report, changed_versions
from envkit.transitions import Expected, Transition

_OWNERS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("collate.pil", ("torch", "pillow")),
    ("collate.numpy", ("torch", "numpy")),
    ("collate.", ("torch", "python")),
    ("convert.types/pil", ("torch", "pillow")),
    ("convert.", ("torch", "numpy")),
    ("worker.errors/unidentified_image", ("pillow", "torch")),
    ("worker.errors/pil_collate", ("torch", "pillow")),
    ("worker.seeding", ("torch", "numpy", "python")),
    ("worker.", ("torch", "python")),
    ("loader.", ("torch", "python")),
    ("mp.", ("python", "torch")),
    ("python.", ("python",)),
    ("rng.numpy", ("numpy",)),
    ("rng.python", ("python",)),
    ("num.numpy", ("numpy",)),
    ("numpy.", ("numpy",)),
    ("interop.", ("torch", "numpy")),
    ("env.import_torchvision", ("torchvision", "torch")),
    ("tv.io", ("torchvision", "torch")),
    ("tv.", ("torchvision", "torch", "pillow")),
    ("pil.api/fromarray", ("pillow", "numpy")),
    ("pil.api/asarray", ("pillow", "numpy")),
    ("pil.", ("pillow",)),
    ("load.", ("torch", "numpy", "python")),
    ("data/", ("torch", "torchvision", "pillow", "numpy", "python")),
    ("", ("torch",)),
)
"""The packages that own a probe, by the first matching start of its id. Source: the probe list, section 1."""

_KERNELS: tuple[str, ...] = (
    "threads",
    "cpu capability",
    "mkl",
    "cpu vendor",
    "machine",
    "MKL_CBWR",
    "MKL_ENABLE_INSTRUCTIONS",
)
_KERNELS += ("DNNL_MAX_CPU_ISA", "ONEDNN_MAX_CPU_ISA", "GLIBC_TUNABLES")
_NUMPY = ("numpy kernels", "cpu vendor", "machine", "OPENBLAS_CORETYPE", "NPY_DISABLE_CPU_FEATURES", "threads")
_VECTORS = ("cpu capability", "machine")
_STREAMS = ("mkl", "cpu vendor", "machine")

_TOLERANT: tuple[tuple[str, float, tuple[str, ...]], ...] = (
    ("num.full/*", 1e-5, _KERNELS),
    ("num.cpu/*", 1e-5, _KERNELS),
    ("num.train_step/*", 1e-3, _KERNELS),
    ("num.numpy/*", 1e-5, _NUMPY),
    ("rng.torch/*", 1e-5, _VECTORS),
    ("tv.*", 1e-5, _VECTORS),
    ("data/*", 1e-5, _KERNELS),
)
"""Cells whose floats are compared to a relative tolerance, and what moves their last digits. The floats of all others,
and everything that is no float, compare exactly. Source: the probe list, section 3."""

_KEYED: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("rng.torch/bernoulli_p", _STREAMS),
    ("rng.torch/dropout*", _STREAMS),
    ("rng.torch/exponential", _STREAMS),
    ("rng.torch/multinomial", _STREAMS),
    ("sampler.order/weighted_without", _STREAMS),
    ("rng.torch/trunc_normal", (*_VECTORS, "mkl")),
    ("num.numpy/argsort_ties", _NUMPY),
    ("tv.v2/*uint8", _VECTORS),
    ("tv.resize/uint8_*", _VECTORS),
    ("pil.jpeg/*", ("libjpeg",)),
    ("tv.io/same_as_pillow", ("libjpeg",)),
    ("data/*", ("libjpeg",)),
)
"""Cells whose values are other ones where a key differs. Source: the probe list, section 3."""

_COARSE = {"float16": 4e-3, "bfloat16": 3e-2}
"""What one step of rounding is worth in these types."""

_STATES = ("absent", "broken", "killed")
_FEW = 5
"""So many differences that say the same are still told one by one."""
ORDER: tuple[Kind, ...] = ("unexplained", "breaks", "results", "types", "message", "warning", "hardware")


class Behaviour(msgspec.Struct, frozen=True, kw_only=True):
    """How two reports behave: what differs, the loudest first, and what was expected to and does not."""

    differences: tuple[Difference, ...]
    unseen: tuple[Transition, ...]
    """Known changes that the versions predict, whose cells both reports have and of which none differs."""
    compared: int


def compare(before: Report, after: Report) -> Behaviour:
    """Compare the cells that both reports have."""
    judge = _Judge(before, after)
    old, new = _comparable(before.cells, after.cells), _comparable(after.cells, before.cells)
    ids = sorted(old.keys() & new.keys())
    found = [told for id in ids if (told := judge.difference(id, old[id], new[id])) is not None]
    return Behaviour(
        differences=tuple(sorted(found, key=lambda one: (ORDER.index(one.kind), one.id))),
        unseen=judge.unseen({one.id for one in found}, set(ids)),
        compared=len(ids),
    )


def _comparable(own: Mapping[str, Cell], other: Mapping[str, Cell]) -> dict[str, Cell]:
    """The cells to compare; where only the other report could not set a probe up, this one did: say so."""
    told = {id: cell for id, cell in own.items() if cell.compared}
    for id in other.keys() - own.keys():
        if id.endswith("/setup") and any(name.startswith(id.removesuffix("setup")) for name in own):
            told[id] = Cell(kind="ok", value="it can be probed")
    return told


def owners(id: str) -> tuple[str, ...]:
    """The modules whose change may change this cell, likely first."""
    return next(names for start, names in _OWNERS if id.startswith(start))


def grouped(found: Sequence[Difference]) -> tuple[Difference, ...]:
    """Differences for people: those of one known change become one, and many that say the same on the second side.

    A torch that cannot be imported would else be told a hundred times.
    """
    groups: dict[tuple[str, ...], list[Difference]] = {}
    for one in found:
        same = (one.transition,) if one.transition else (one.after, one.reason)
        groups.setdefault((one.kind, *same, *one.suspects), []).append(one)
    told: list[Difference] = []
    for several in groups.values():
        if len(several) <= (1 if several[0].transition else _FEW):
            told += several
        else:
            told.append(msgspec.structs.replace(several[0], id=f"{several[0].id} and {len(several) - 1} more"))
    return tuple(told)


class _Judge:
    """What differs between two reports besides their cells: versions, keys, and the changes that these predict."""

    def __init__(self, before: Report, after: Report) -> None:
        self._changed = changed_versions(before, after)
        self._gone = {name for side in (before, after) for name, version in side.versions.items() if version in _STATES}
        old, new = before.keys, after.keys
        self._keys = {name: f"{old[name]} -> {new[name]}" for name in old.keys() & new.keys() if old[name] != new[name]}
        self._expected = Expected((before.versions, old), (after.versions, new))

    def difference(self, id: str, a: Cell, b: Cell) -> Difference | None:
        """How two cells differ, and why; None for equal ones."""
        level = cells.difference(a, b)
        if level is None:
            return None
        kind, before, after = level
        told = Difference(id=id, kind=kind, before=before, after=after)
        tolerance, keys = next(((t, k) for pattern, t, k in _TOLERANT if fnmatchcase(id, pattern)), (0.0, ()))
        if tolerance and kind == "results" and close(a.value, b.value, tolerance):
            reason = f"same up to hardware: {self._moved(keys) or 'the last digits of floats'}"
            return msgspec.structs.replace(told, kind="hardware", reason=reason)
        return self._explained(told)

    def _explained(self, told: Difference) -> Difference:
        known = self._expected.of(told.id)
        suspects = self._suspects(told.id, known)
        if known:
            return msgspec.structs.replace(
                told, suspects=suspects, transition=known[0].id, sentence=known[0].sentence, source=known[0].source
            )
        moved = self._moved(next((keys for pattern, keys in _KEYED if fnmatchcase(told.id, pattern)), ()))
        if moved and told.kind == "results":
            return msgspec.structs.replace(told, kind="hardware", reason=f"explained by {moved}", suspects=suspects)
        if suspects:
            return msgspec.structs.replace(told, suspects=suspects)
        return msgspec.structs.replace(told, kind="unexplained", reason="same versions, different behaviour")

    def _suspects(self, id: str, known: Sequence[Transition]) -> tuple[str, ...]:
        named = [name for name in owners(id) if name in self._changed]
        # A module that one side cannot import is suspect enough.
        named = [name for name in named if name in self._gone] or named
        # A patch release of Python is a suspect only where there is no better one.
        if len(named) > 1 and _patch_only(self._changed["python"] if "python" in named else ""):
            named.remove("python")
        first = [one.package for one in known if one.package in self._changed]
        return tuple(f"{name} {self._changed[name]}" for name in dict.fromkeys([*first, *named]))

    def _moved(self, keys: Sequence[str]) -> str:
        return ", ".join(f"{name} {_brief(self._keys[name])}" for name in keys if name in self._keys)

    def unseen(self, differing: set[str], compared: set[str]) -> tuple[Transition, ...]:
        """What the versions predict and no cell shows."""
        return tuple(
            one
            for one in self._expected.entries
            if one.always and any(map(one.covers, compared)) and not any(map(one.covers, differing))
        )


def _brief(change: str) -> str:
    return change if len(change) <= 60 else "differ"


def _patch_only(change: str) -> bool:
    """Whether `3.11.2 -> 3.11.7` stays within one minor version."""
    versions = [version.split(".")[:2] for version in change.split(" -> ")]
    return len(versions) == 2 and versions[0] == versions[1]


def close(a: Any, b: Any, tolerance: float) -> bool:
    """Whether two recorded values are equal up to the last digits of their floats.

    Hashes are left aside where there are samples; values that are not floats must be equal.
    """
    if isinstance(a, dict) and isinstance(b, dict):
        return _close_records(a, b, tolerance)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(close(x, y, tolerance) for x, y in zip(a, b, strict=True))
    return bool(a == b)


def _close_records(a: Mapping[str, Any], b: Mapping[str, Any], tolerance: float) -> bool:
    if a.keys() != b.keys():
        return False
    kind = str(a.get("dtype", a.get("type", "")))
    floats = {name for name in ("values", "value", "sample", "l2") if name in a} if "float" in kind else set()
    exact = a.keys() - floats - ({"sha256"} if floats else set())
    allowed = max(tolerance, _COARSE.get(kind, 0.0))
    return all(close(a[name], b[name], tolerance) for name in exact) and all(
        _near(_numbers(a[name]), _numbers(b[name]), allowed) for name in floats
    )


def _numbers(value: Any) -> list[float]:
    return [float(number) for number in (value if isinstance(value, list) else [value])]


def _near(xs: Sequence[float], ys: Sequence[float], tolerance: float) -> bool:
    """Relative to the largest number there: what cancels out leaves noise of the size of what it came from."""
    scale = max((abs(number) for number in (*xs, *ys) if math.isfinite(number)), default=0.0)
    return len(xs) == len(ys) and all(
        math.isclose(x, y, rel_tol=tolerance, abs_tol=tolerance * scale) or (math.isnan(x) and math.isnan(y))
        for x, y in zip(xs, ys, strict=True)
    )
