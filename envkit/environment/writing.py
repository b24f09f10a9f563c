"""Writing an environment.yml, and editing one with its comments kept."""

import io
from collections.abc import Sequence
from typing import Any

from envkit.environment.record import Environment, Item


def yaml() -> Any:
    """A YAML reader and writer that keeps comments, quotes and order."""
    from ruamel.yaml import YAML

    made = YAML()
    made.preserve_quotes = True
    made.width = 4096
    made.indent(mapping=2, sequence=4, offset=2)
    return made


def apply(text: str, environment: Environment) -> str:
    """`text` changed so that it asks for `environment`; comments, order and unknown keys stay.

    A spec replaces the one of the same package where it stands; specs that are not asked for any more go.
    """
    writer = yaml()
    document = writer.load(text) if text.strip() else {}
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
    return dumped(writer, document)


def dumped(writer: Any, document: Any) -> str:
    """A document as text."""
    out = io.StringIO()
    writer.dump(document, out)
    return out.getvalue()


def with_channels(text: str, channels: Sequence[str]) -> str:
    """`text` with other channels and all else as it is."""
    writer = yaml()
    document = writer.load(text)
    _replace(document, "channels", channels)
    return dumped(writer, document)


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
