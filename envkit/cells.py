"""The outcome of one piece of a probe, and what it means when two of them differ."""

from collections.abc import Mapping
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
    notes: tuple[str, ...] = ()
    raw: str = ""


class Cell(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One outcome. `value` is the structure that the payload recorded: a tree of types, shapes and hashes.

    `detail` says how a child ended. A cell that is not `compared` depends on timing, or is a text for people.
    """

    kind: CellClass = msgspec.field(name="class")
    value: Any = None
    error: CellError | None = None
    warnings: tuple[tuple[str, str], ...] = ()
    detail: str = ""
    compared: bool = True


class Difference(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Two cells that differ: how, what each said, and the packages that may have caused it, likely first.

    `transition` names the known change that explains it, with its `sentence` and `source`.
    """

    id: str
    kind: Kind
    before: str
    after: str
    suspects: tuple[str, ...] = ()
    reason: str = ""
    transition: str = ""
    sentence: str = ""
    source: str = ""


def difference(a: Cell, b: Cell) -> tuple[Kind, str, str] | None:
    """The first level at which two cells differ, and both sides as text; None for equal ones."""
    if a.kind != b.kind:
        return "breaks", show(a), show(b)
    if a.kind == "absent":
        return None  # which of the missing modules was asked for first says nothing
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
    """Another type, unless the new one is a kind of the old: who caught the old one catches it too; or a message."""
    if _error_type(a) == _error_type(b):
        return "message" if (_text(a), a.template, a.cause) != (_text(b), b.template, b.cause) else None
    return "message" if _error_type(a) in b.bases else "types"


def _error_type(error: CellError) -> str:
    return error.worker.caught if error.worker else error.type


def _text(error: CellError) -> str:
    return error.worker.tail if error.worker else error.message


_CONTENTS = ("sha256", "values", "value", "sample", "l2")


def _types(value: Any) -> Any:
    """A value's tree of types, dtypes and shapes, without contents."""
    if isinstance(value, dict):
        return {key: _types(part) for key, part in value.items() if key not in _CONTENTS}
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
