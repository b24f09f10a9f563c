"""environment.yml: reading it with the line of every item, writing it, and editing it with its comments kept."""

import difflib
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from envkit import codec
from envkit.errors import InputError

KEYS = ("name", "channels", "dependencies", "variables", "prefix", "platforms")
"""The keys that conda, conda-lock or micromamba read."""

_EXTENSIONS = ("category", "pip-repositories", "allow-pypi-requests")
_NAME = re.compile(r"^(?:.*::)?\s*(?P<name>[A-Za-z0-9_][A-Za-z0-9_.-]*)")


class Item(msgspec.Struct, frozen=True, kw_only=True):
    """A spec or pip line with its 1-based line in the file (0: not from a file)."""

    text: str
    line: int = 0

    @property
    def name(self) -> str:
        """The package's name, lower case."""
        match = _NAME.match(self.text)
        return match["name"].lower() if match else ""


class Environment(msgspec.Struct, frozen=True, kw_only=True):
    """What an environment.yml asks for."""

    name: str | None = None
    channels: tuple[str, ...] = ()
    specs: tuple[Item, ...] = ()
    pip: tuple[Item, ...] = ()
    platforms: tuple[str, ...] = ()
    pip_repositories: tuple[str, ...] = ()
    variables: Mapping[str, str] = msgspec.field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def spec_texts(self) -> tuple[str, ...]:
        """The conda specs as written."""
        return tuple(item.text for item in self.specs)


def read(path: Path) -> Environment:
    """Read an environment.yml; raises InputError with file and line for all that is wrong with it at once."""
    return parse(codec.read_text(path), str(path))


def parse(text: str, where: str) -> Environment:
    """The environment in `text`; `where` names it in errors."""
    document = _load(text, where)
    if not isinstance(document, dict):
        what = "empty" if document is None else f"a {_shape(document)}, not a mapping"
        raise InputError(
            f"{where}:1: the file is {what}",
            hint="an environment.yml starts with `name:`, `channels:` and `dependencies:`",
        )
    problems: list[str] = []
    notes: list[str] = []
    _check_keys(document, where, problems, notes)
    specs, pip = _dependencies(document, where, problems, notes)
    environment = Environment(
        name=_name(document, where, problems),
        channels=tuple(item.text for item in _strings(document, "channels", where, problems)),
        specs=specs,
        pip=pip,
        platforms=tuple(item.text for item in _strings(document, "platforms", where, problems)),
        pip_repositories=tuple(item.text for item in _strings(document, "pip-repositories", where, problems)),
        variables=_variables(document, where, problems),
        notes=tuple(notes),
    )
    if problems:
        raise InputError(f"{where}: {len(problems)} problem(s)", details=tuple(problems), hint="correct these lines")
    return environment


def _yaml() -> Any:
    from ruamel.yaml import YAML

    yaml = YAML()
    yaml.preserve_quotes = True
    yaml.width = 4096
    return yaml


def _load(text: str, where: str) -> Any:
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    tab = re.search(r"^[ ]*\t", text, re.MULTILINE)
    try:
        return _yaml().load(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark is not None else (1, 1)
        if tab is not None:
            line = text[: tab.start()].count("\n") + 1
            raise InputError(f"{where}:{line}: a tab is used for indentation", hint="use spaces") from error
        raise InputError(f"{where}:{line}:{column}: not YAML: {error.problem or error.context}") from error
    except (YAMLError, ValueError) as error:
        raise InputError(f"{where}: not YAML: {str(error).splitlines()[0]}") from error


def _shape(value: Any) -> str:
    return {list: "list", str: "text", int: "number", float: "number"}.get(type(value), _base_shape(value))


def _base_shape(value: Any) -> str:
    kinds: tuple[tuple[type, str], ...] = (
        (bool, "true/false"),
        (list, "list"),
        (dict, "mapping"),
        (str, "text"),
        (int, "number"),
        (float, "number"),
    )
    return next((name for kind, name in kinds if isinstance(value, kind)), type(value).__name__)


def _line(container: Any, key: Any) -> int:
    """The 1-based line of a key of a mapping or an index of a list."""
    try:
        marks = container.lc
        position = marks.key(key) if isinstance(container, dict) else marks.item(key)
    except (AttributeError, KeyError, TypeError):
        return int(getattr(getattr(container, "lc", None), "line", 0)) + 1
    return int(position[0]) + 1


def _check_keys(document: Any, where: str, problems: list[str], notes: list[str]) -> None:
    """Misspelt keys are errors, since conda ignores them and makes an empty environment; others are told."""
    for key in document:
        if key in KEYS or key in _EXTENSIONS:
            continue
        near = difflib.get_close_matches(str(key), KEYS, n=1, cutoff=0.7)
        where_line = f"{where}:{_line(document, key)}"
        if near and near[0] not in document:
            problems.append(f"{where_line}: unknown key {key!r}: did you mean {near[0]!r}?")
        else:
            notes.append(f"{where_line}: key {key!r} is not one that conda reads; it is left alone")
    if "dependencies" not in document:
        problems.append(f"{where}:1: the key 'dependencies' is missing")


def _name(document: Any, where: str, problems: list[str]) -> str | None:
    name = document.get("name")
    if name is not None and not isinstance(name, str):
        problems.append(f"{where}:{_line(document, 'name')}: YAML reads this name as {name!r}, not as text: quote it")
    return str(name) if name is not None else None


def _strings(document: Any, key: str, where: str, problems: list[str]) -> Iterator[Item]:
    values = document.get(key)
    if values is None:
        return
    if not isinstance(values, list):
        problems.append(f"{where}:{_line(document, key)}: {key!r} must be a list, not a {_shape(values)}")
        return
    for index, value in enumerate(values):
        if isinstance(value, str):
            yield Item(text=value.strip(), line=_line(values, index))
        else:
            problems.append(f"{where}:{_line(values, index)}: {value!r} in {key!r} must be text, not a {_shape(value)}")


def _dependencies(
    document: Any, where: str, problems: list[str], notes: list[str]
) -> tuple[tuple[Item, ...], tuple[Item, ...]]:
    values = document.get("dependencies")
    if values is None:
        if "dependencies" in document:
            notes.append(f"{where}:{_line(document, 'dependencies')}: 'dependencies' is empty")
        return (), ()
    if not isinstance(values, list):
        line = _line(document, "dependencies")
        problems.append(f"{where}:{line}: 'dependencies' must be a list, not a {_shape(values)}")
        return (), ()
    specs: list[Item] = []
    pip: list[Item] = []
    for index, value in enumerate(values):
        line = _line(values, index)
        if isinstance(value, str):
            specs.append(Item(text=value.strip(), line=line))
            if re.match(r"pip\s+-", value):
                problems.append(f"{where}:{line}: ':' is missing after 'pip'")
        elif isinstance(value, dict):
            pip += _pip_section(value, line, where, problems, notes)
        elif value is None:
            notes.append(f"{where}:{line}: an empty dependency is left out")
        else:
            problems.append(f"{where}:{line}: {value!r} is a {_shape(value)}, not a spec: write it as one text")
    return tuple(specs), tuple(pip)


def _pip_section(section: Any, line: int, where: str, problems: list[str], notes: list[str]) -> list[Item]:
    items: list[Item] = []
    for key, values in section.items():
        if key != "pip":
            problems.append(f"{where}:{line}: {key!r} is a mapping here: write the spec as one text, '{key}={values}'")
        elif values is None:
            notes.append(f"{where}:{line}: 'pip:' is empty")
        elif not isinstance(values, list):
            problems.append(f"{where}:{line}: 'pip:' must be a list, not a {_shape(values)}")
        else:
            items += _strings(section, "pip", where, problems)
    return items


def _variables(document: Any, where: str, problems: list[str]) -> dict[str, str]:
    values = document.get("variables")
    if values is None:
        return {}
    if not isinstance(values, dict):
        problems.append(f"{where}:{_line(document, 'variables')}: 'variables' must be a mapping")
        return {}
    for key in values:
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", str(key)):
            problems.append(f"{where}:{_line(values, key)}: {key!r} cannot be the name of a variable")
    return {str(key): "" if value is None else str(value) for key, value in values.items()}


def dump(environment: Environment) -> str:
    """The environment as the text of a new file."""
    return apply("", environment)


def apply(text: str, environment: Environment) -> str:
    """`text` changed so that it asks for `environment`; comments, order and unknown keys stay.

    A spec replaces the one of the same package where it stands; specs that are not asked for any more go.
    """
    yaml = _yaml()
    yaml.indent(mapping=2, sequence=4, offset=2)
    document = yaml.load(text) if text.strip() else {}
    if environment.name is not None and document.get("name") != environment.name:
        document["name"] = environment.name
    _replace(document, "channels", environment.channels)
    dependencies = document.setdefault("dependencies", [])
    section = next((value for value in dependencies if isinstance(value, dict) and "pip" in value), None)
    _merge(dependencies, environment.specs)
    if environment.pip:
        if section is None:
            section = {"pip": []}
            dependencies.append(section)
        _merge(section["pip"], environment.pip)
    held = {str(key): str(value) for key, value in (document.get("variables") or {}).items()}
    if environment.variables and held != environment.variables:
        document["variables"] = dict(environment.variables)
    if environment.pip_repositories:
        _replace(document, "pip-repositories", environment.pip_repositories)
    out = io.StringIO()
    yaml.dump(document, out)
    return out.getvalue()


def _replace(document: Any, key: str, values: Sequence[str]) -> None:
    if list(document.get(key) or []) != list(values):
        document[key] = list(values)


def _merge(items: Any, wanted: Sequence[Item]) -> None:
    """Make the texts in `items` those of `wanted`, each at the place of the same package's present one."""
    new = {item.name: item.text for item in wanted}
    for index in range(len(items) - 1, -1, -1):
        if not isinstance(items[index], str):
            continue
        name = Item(text=items[index]).name
        if name not in new:
            del items[index]
        elif items[index] != new.pop(name):
            items[index] = next(item.text for item in wanted if item.name == name)
    at = next((index for index, value in enumerate(items) if not isinstance(value, str)), len(items))
    for offset, item in enumerate(item for item in wanted if item.name in new):
        items.insert(at + offset, item.text)
