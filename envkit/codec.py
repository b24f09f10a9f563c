"""Records to JSON and back, strictly, with all problems at once; whole-file atomic writes."""

import os
import tempfile
import typing
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from envkit.errors import InputError, StorageError

T = TypeVar("T")


def encode(record: Any) -> bytes:
    """Indented JSON with keys in the order of the record's fields, ending in a newline."""
    return msgspec.json.format(msgspec.json.encode(record, enc_hook=_plain), indent=2) + b"\n"


def _plain(value: Any) -> Any:
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")


def load_yaml(text: str) -> Any:
    """A YAML document as plain values; raises yaml.YAMLError."""
    import yaml

    return yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))


def read_yaml(path: Path, kind: type[T]) -> T:
    """A YAML file that is shipped with envkit, as `kind`."""
    return convert(load_yaml(read_text(path)), kind, str(path))


def convert(value: Any, kind: type[T], where: str) -> T:
    """`value` as `kind`; raises InputError that lists every offending path in `where` at once."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        problems = tuple(_problems(value, kind, "$")) or (str(error),)
        raise InputError(f"{where}: {len(problems)} field(s) do not fit the format", details=problems) from error


def _problems(value: Any, kind: Any, path: str) -> list[str]:
    """Every place below `path` where `value` does not fit `kind`, each with its path."""
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        deeper = [problem for child, sub, at in _children(value, kind, path) for problem in _problems(child, sub, at)]
        deeper += _missing(value, kind, path)
        return deeper or [str(error).replace("`$", f"`{path}") if "`$" in str(error) else f"{error} - at `{path}`"]
    return []


def _missing(value: Any, kind: Any, path: str) -> list[str]:
    """The required fields that a mapping lacks."""
    if not (isinstance(kind, type) and issubclass(kind, msgspec.Struct) and isinstance(value, dict)):
        return []
    required = [field.encode_name for field in msgspec.structs.fields(kind) if field.required]
    return [f"the field `{name}` is missing - at `{path}`" for name in required if name not in value]


def _children(value: Any, kind: Any, path: str) -> list[tuple[Any, Any, str]]:
    """The parts of `value` that have a type of their own in `kind`: (part, type, path)."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct) and isinstance(value, dict):
        fields = msgspec.structs.fields(kind)
        return [(value[f.encode_name], f.type, f"{path}.{f.encode_name}") for f in fields if f.encode_name in value]
    if origin in (list, tuple) and isinstance(value, list):
        return [(item, arguments[0], f"{path}[{index}]") for index, item in enumerate(value)]
    if origin is dict and isinstance(value, dict):
        return [(item, arguments[1], f"{path}[{key!r}]") for key, item in value.items()]
    return []


def read_text(path: Path) -> str:
    """The file as text: UTF-8 with or without a byte order mark, or UTF-16 with one."""
    data = read_bytes(path)
    encoding = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise InputError(
            f"{path}:{line}: byte 0x{data[error.start]:02x} is not {encoding.removesuffix('-sig').upper()}",
            hint="save the file as UTF-8",
        ) from error


def read_bytes(path: Path) -> bytes:
    """The file's bytes, or an InputError that says why not."""
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such file", hint="check the path, or create the file first") from error
    except IsADirectoryError as error:
        raise InputError(f"{path}: is a folder, not a file") from error
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error


def read_json(path: Path) -> Any:
    """The JSON document in a file, or an InputError with line and column."""
    return decode_json(read_bytes(path), str(path))


def decode_json(data: bytes, where: str) -> Any:
    """The JSON document in `data`, or an InputError that names `where`."""
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{where}: not JSON: {error}") from error


def write(path: Path, data: bytes) -> None:
    """Write a whole file: a temporary one in the same folder, then `os.replace`. Never half a file."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise unwritable(path, error) from error
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).chmod(0o666 & ~_umask())
        Path(temporary).replace(path)
    except OSError as error:
        raise unwritable(path, error) from error
    finally:
        Path(temporary).unlink(missing_ok=True)


def unwritable(path: Path, error: OSError) -> StorageError:
    """The error for a path that could not be written, with the next action for the usual reasons."""
    hints = {
        28: "free some space, or choose another place",
        30: "choose a folder that is not on a read-only file system",
        13: "choose a folder that you may write to",
    }
    return StorageError(f"{path}: cannot be written: {error.strerror}", hint=hints.get(error.errno or 0, ""))


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
