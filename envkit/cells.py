"""The outcome of one piece of a probe, and what it means when two of them differ."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

CellClass = Literal["ok", "error", "hang", "crash", "absent"]
Kind = Literal["breaks", "results", "types", "message", "warning", "hardware", "unexplained"]
"""What a difference does: flips ok and error, changes values, changes types, changes a text, a warning; or it is
owed to the hardware; or no package that owns the probe differs, which is the loudest."""


class WorkerError(msgspec.Struct, frozen=True, kw_only=True):
    """An error that a DataLoader worker sent: the type it caught and the last line of its traceback."""

    caught: str
    tail: str


class Cause(msgspec.Struct, frozen=True, kw_only=True):
    """The `__cause__` of an error."""

    type: str
    message: str


class CellError(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An error, normalised; `raw` is for people and never compared."""

    type: str
    message: str
    bases: tuple[str, ...] = ()
    template: str = ""
    arguments: Mapping[str, str | None] = msgspec.field(default_factory=dict)
    worker: WorkerError | None = None
    cause: Cause | None = None
    raw: str = ""


class Cell(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One outcome. `value` is the structure that the payload recorded: a tree of types, shapes and hashes."""

    kind: CellClass = msgspec.field(name="class")
    value: Any = None
    error: CellError | None = None
    warnings: tuple[tuple[str, str], ...] = ()
    detail: str = ""


class Difference(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Two cells that differ: how, what each said, and the packages that may have caused it, likely first."""

    id: str
    kind: Kind
    before: str
    after: str
    suspects: tuple[str, ...] = ()
    reason: str = ""


_OWNERS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("collate.pil", ("torch", "pillow")),
    ("collate.numpy", ("torch", "numpy")),
    ("collate.", ("torch", "python")),
    ("worker.errors/unidentified_image", ("pillow", "torch")),
    ("worker.errors/pil_collate", ("torch", "pillow")),
    ("worker.errors", ("torch", "python")),
    ("robust.", ("torch",)),
    ("sampler.", ("torch",)),
    ("rng.torch", ("torch",)),
    ("rng.numpy", ("numpy",)),
    ("rng.python", ("python",)),
    ("num.", ("torch",)),
)
"""The packages that own a probe, by the longest matching start of its id. Source: the probe list, section 1."""

_FEW = 5
"""So many differences that say the same are still told one by one."""

_KEYED = ("rng.torch/bernoulli_p", "rng.torch/dropout", "rng.torch/exponential", "rng.torch/multinomial")
"""Streams that come from MKL where torch was built with it, and differ by CPU vendor: see the probe list, section 3."""


def owners(id: str) -> tuple[str, ...]:
    """The modules whose change may change this cell, likely first."""
    return next((names for start, names in _OWNERS if id.startswith(start)), ("torch", "python"))


def compare(
    before: Mapping[str, Cell],
    after: Mapping[str, Cell],
    *,
    changed: Mapping[str, str],
    keys_differ: bool = False,
) -> tuple[Difference, ...]:
    """The cells that both have and that differ, the loudest kind first.

    `changed` maps each module whose version differs to `old -> new`; `keys_differ` says that MKL or the CPU's
    vendor differ.
    """
    found = []
    for id in sorted(before.keys() & after.keys()):
        told = _difference(before[id], after[id])
        if told is not None:
            found.append(_explained(id, *told, changed, keys_differ=keys_differ))
    order: tuple[Kind, ...] = ("unexplained", "breaks", "results", "types", "message", "warning", "hardware")
    return tuple(sorted(found, key=lambda difference: (order.index(difference.kind), difference.id)))


def grouped(found: Sequence[Difference]) -> tuple[Difference, ...]:
    """Differences for people: many that say the same on the second side, for the same reason, become one.

    A torch that cannot be imported would else be told a hundred times.
    """
    groups: dict[tuple[str, ...], list[Difference]] = {}
    for one in found:
        groups.setdefault((one.kind, one.after, one.reason, *one.suspects), []).append(one)
    told: list[Difference] = []
    for several in groups.values():
        if len(several) <= _FEW:
            told += several
        else:
            told.append(msgspec.structs.replace(several[0], id=f"{several[0].id} and {len(several) - 1} more"))
    return tuple(told)


def _explained(
    id: str, kind: Kind, before: str, after: str, changed: Mapping[str, str], *, keys_differ: bool
) -> Difference:
    named = [name for name in owners(id) if name in changed]
    # A patch release of Python is a suspect only where there is no better one.
    if len(named) > 1 and _patch_only(changed["python"] if "python" in named else ""):
        named.remove("python")
    suspects = tuple(f"{name} {changed[name]}" for name in named)
    if suspects:
        return Difference(id=id, kind=kind, before=before, after=after, suspects=suspects)
    if keys_differ and id in _KEYED:
        return Difference(id=id, kind="hardware", before=before, after=after, reason="MKL or the CPU vendor differs")
    reason = "same versions, different behaviour"
    return Difference(id=id, kind="unexplained", before=before, after=after, reason=reason)


def _patch_only(change: str) -> bool:
    """Whether `3.11.2 -> 3.11.7` stays within one minor version."""
    versions = [version.split(".")[:2] for version in change.split(" -> ")]
    return len(versions) == 2 and versions[0] == versions[1]


def _difference(a: Cell, b: Cell) -> tuple[Kind, str, str] | None:
    """The first level at which two cells differ, and both sides as text; None for equal ones."""
    if a.kind != b.kind:
        return "breaks", show(a), show(b)
    if a.error is not None and b.error is not None:
        kind = _error_level(a.error, b.error)
        if kind is not None:
            return kind, show(a), show(b)
    elif _types(a.value) != _types(b.value):
        return "types", show(a), show(b)
    elif a.value != b.value:
        return "results", show(a), show(b)
    if a.warnings != b.warnings:
        return "warning", _warnings(a), _warnings(b)
    return None


def _error_level(a: CellError, b: CellError) -> Kind | None:
    if _error_type(a) != _error_type(b):
        return "types"
    if (a.template, a.arguments, _text(a), a.cause) != (b.template, b.arguments, _text(b), b.cause):
        return "message"
    return None


def _error_type(error: CellError) -> str:
    return error.worker.caught if error.worker else error.type


def _text(error: CellError) -> str:
    return error.worker.tail if error.worker else error.message


def _types(value: Any) -> Any:
    """A value's tree of types, dtypes and shapes, without contents."""
    if isinstance(value, dict):
        return {key: _types(part) for key, part in value.items() if key not in ("sha256", "values", "value")}
    if isinstance(value, list):
        return [_types(part) for part in value]
    return value


def show(cell: Cell) -> str:
    """One line for people."""
    if cell.error is not None:
        where = "in a worker: " if cell.error.worker else ""
        text = _text(cell.error).removeprefix(f"{_error_type(cell.error)}: ")
        return f"{where}{_error_type(cell.error)}: {text}"[:160]
    if cell.kind == "ok":
        return show_value(cell.value)[:160]
    return f"{cell.kind}: {cell.detail}" if cell.detail else cell.kind


def show_value(value: Any) -> str:
    """A recorded value as one line: `Counter(a=tensor int64 [1, 2])`."""
    if not isinstance(value, dict):
        return str(value)
    name = str(value.get("type", "?")).rpartition(".")[2]
    if "dtype" in value:
        content = f"[{', '.join(value['values'])}]" if "values" in value else f"sha {value.get('sha256', '?')}"
        return f"{name.lower()} {value['dtype']} {value['shape']} {content}"
    if "items" in value:
        parts = [
            f"{item[0]}: {show_value(item[1])}" if isinstance(item, list) else show_value(item)
            for item in value["items"]
        ]
        return f"{name}({', '.join(parts)})"
    return str(value["value"]) if "value" in value else name


def _warnings(cell: Cell) -> str:
    return "; ".join(f"{category}: {text}" for category, text in cell.warnings)[:160] or "no warning"
