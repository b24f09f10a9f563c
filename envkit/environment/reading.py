"""Reading an environment.yml as people write them, with the right sentence for each thing that is wrong."""

import difflib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from envkit import codec, redact
from envkit.environment.record import Environment, Item
from envkit.environment.selectors import Selector
from envkit.finding import Finding, UnreadableFile

KEYS = ("name", "channels", "dependencies", "variables", "prefix", "platforms")
"""The keys that conda, conda-lock or micromamba read."""

_CONDA_KEYS = ("name", "channels", "dependencies", "variables", "prefix")
_EXTENSIONS = ("category", "pip-repositories", "allow-pypi-requests", "platforms")
_COMMENT_SELECTOR = re.compile(r"#[^\[\]]*\[\s*(?P<condition>\w+)\s*\]\s*$")
_SEL = re.compile(r"sel\(\s*(?P<condition>\w+)\s*\)")
_PLACEHOLDER = re.compile(r"\{\{.*?\}\}|%\(\w+\)s|<%.*?%>")


def read(path: Path) -> Environment:
    """Read an environment.yml; raises UnreadableFile with file and line for all that is wrong with it at once."""
    data = codec.read_bytes(path)
    return _Reader(codec.read_text(path), str(path), utf16=data[:2] in (b"\xff\xfe", b"\xfe\xff")).read()


def parse(text: str, where: str) -> Environment:
    """The environment in `text`; `where` names it in errors."""
    return _Reader(text, where).read()


class _Reader:
    """One reading: the document, its lines, and what was found on the way."""

    def __init__(self, text: str, where: str, *, utf16: bool = False) -> None:
        self._text, self._where = text, where
        self._lines = text.splitlines()
        self._findings: list[Finding] = []
        if utf16:
            self._warn("encoding-utf16", 1, "", "the file is UTF-16, which many tools cannot read", "save it as UTF-8")

    def read(self) -> Environment:
        document = self._mapping(self._load())
        self._keys(document)
        specs, pip, pip_line = self._dependencies(document)
        channels = tuple(self._strings(document, "channels"))
        environment = Environment(
            name=self._name(document),
            channels=tuple(item.text for item in channels),
            specs=specs,
            pip=pip,
            platforms=tuple(item.text for item in self._strings(document, "platforms")),
            pip_repositories=tuple(item.text for item in self._strings(document, "pip-repositories")),
            variables=self._variables(document),
            prefix=self._prefix(document),
            pip_line=pip_line,
            channel_line=channels[-1].line if channels else 0,
            prefix_line=line_of(document, "prefix") if "prefix" in document else 0,
        )
        self._stop_on_errors(environment)
        return msgspec.structs.replace(environment, findings=tuple(self._findings))

    def _say(self, severity: Any, code: str, line: int, item: str, message: str, following: str = "") -> None:
        self._findings.append(
            Finding(
                code=code,
                severity=severity,
                line=line,
                item=redact.url(item),
                message=redact.url(message),
                next=following,
            )
        )

    def _error(self, code: str, line: int, item: str, message: str, following: str = "") -> None:
        self._say("error", code, line, item, message, following)

    def _warn(self, code: str, line: int, item: str, message: str, following: str = "") -> None:
        self._say("warning", code, line, item, message, following)

    def _stop_on_errors(self, partial: Environment | None = None) -> None:
        if any(one.severity == "error" for one in self._findings):
            raise UnreadableFile(self._where, self._findings, partial)

    def _stop(self, code: str, line: int, message: str, following: str = "") -> None:
        self._error(code, line, "", message, following)
        self._stop_on_errors()

    def _load(self) -> Any:
        """The YAML document; anything that is not YAML stops here, with what it probably is."""
        from ruamel.yaml.error import MarkedYAMLError, YAMLError

        from envkit.environment.writing import yaml

        self._not_yaml_at_all()
        try:
            return yaml().load(self._text)
        except MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            line, column = (mark.line + 1, mark.column + 1) if mark is not None else (1, 1)
            self._yaml_error(line, column, str(error.problem or error.context))
        except (YAMLError, ValueError, RecursionError, AttributeError, TypeError, NotImplementedError) as error:
            self._stop("yaml", 1, f"not YAML: {str(error).splitlines()[0] if str(error) else type(error).__name__}")

    def _not_yaml_at_all(self) -> None:
        """Files that are something else: an explicit list, a template."""
        for number, line in enumerate(self._lines, 1):
            if line.strip() == "@EXPLICIT":
                self._stop(
                    "not-an-environment-file",
                    number,
                    "this is an explicit list of packages, not an environment.yml",
                    "conda create --file reads it; write an environment.yml and lock that",
                )
            found = _PLACEHOLDER.search(line.partition(" #")[0])
            if found is not None:
                self._stop("template", number, f"{found[0]!r} is a placeholder of a template: fill it in first")

    def _yaml_error(self, line: int, column: int, problem: str) -> None:
        tab = next((number for number, text in enumerate(self._lines, 1) if re.match(r" *\t", text)), None)
        if tab is not None:
            self._stop("yaml", tab, "a tab is used for indentation", "use spaces")
        self._stop("yaml", line, f"not YAML (column {column}): {problem}")

    def _mapping(self, document: Any) -> Any:
        if isinstance(document, dict):
            return document
        what = "empty" if document is None else f"a {shape(document)}, not a mapping"
        hint = "an environment.yml starts with `name:`, `channels:` and `dependencies:`"
        self._stop("not-an-environment-file", 1, f"the file is {what}", hint)
        return {}

    def _keys(self, document: Any) -> None:
        """Misspelt keys are errors, since conda ignores them and makes an empty environment; others are told."""
        unknown = [str(key) for key in document if key not in _CONDA_KEYS and key not in _EXTENSIONS]
        near = {key: difflib.get_close_matches(key, KEYS, n=1, cutoff=0.7) for key in unknown}
        for key in unknown:
            line = line_of(document, key)
            if near[key] and near[key][0] not in document:
                self._error("misspelt-key", line, key, f"unknown key {key!r}: did you mean {near[key][0]!r}?")
            else:
                self._warn("unknown-key", line, key, f"no tool reads the key {key!r}; it is left alone")
        for key in document:
            if key in _EXTENSIONS:
                message = f"the key {key!r} is read by conda-lock and some others, not by conda"
                self._say("info", "extra-top-level-key", line_of(document, key), key, message)
        if "dependencies" not in document:
            at = next((line_of(document, key) for key in unknown if near[key] == ["dependencies"]), 1)
            following = "conda would make an empty environment from this file"
            self._error("missing-dependencies", at, "", "the key 'dependencies' is missing", following)

    def _name(self, document: Any) -> str | None:
        name = document.get("name")
        if name is None:
            self._warn("name-missing", 1, "", "the environment has no name", "add `name:`, or give -n")
            return None
        if not isinstance(name, str):
            line = line_of(document, "name")
            self._error("bad-name", line, repr(name), f"YAML reads this name as {name!r}, not as text: quote it")
        return str(name)

    def _prefix(self, document: Any) -> str | None:
        prefix = document.get("prefix")
        if prefix is None:
            return None
        line = line_of(document, "prefix")
        message = "the line `prefix:` says where it was on its author's machine; it is never used"
        self._warn("prefix-line", line, str(prefix), message, "remove the line")
        return str(prefix)

    def _strings(self, document: Any, key: str) -> Iterator[Item]:
        values = document.get(key)
        if values is None:
            if key in document:
                self._warn("null-section", line_of(document, key), key, f"{key!r} is empty")
            return
        if not isinstance(values, list):
            line = line_of(document, key)
            self._error("bad-section", line, key, f"{key!r} must be a list, not a {shape(values)}")
            return
        for index, value in enumerate(values):
            line = line_of(values, index)
            if isinstance(value, str):
                yield self._item(value, line)
            elif value is None:
                self._warn("null-item", line, key, f"an empty item in {key!r} is left out")
            else:
                self._error(
                    "bad-item", line, repr(value), f"{value!r} in {key!r} must be text, not a {shape(value)}: quote it"
                )

    def _item(self, value: str, line: int) -> Item:
        """An item with its comment selector. Text is one line: a folded one is joined."""
        source = self._lines[line - 1] if 0 < line <= len(self._lines) else ""
        found = _COMMENT_SELECTOR.search(source)
        selector = Selector(found["condition"], "comment") if found else None
        quoted = source.strip().removeprefix("-").strip().startswith(("'", '"'))
        return Item(text=" ".join(value.split()), line=line, selector=selector, quoted=quoted)

    def _dependencies(self, document: Any) -> tuple[tuple[Item, ...], tuple[Item, ...], int]:
        values = document.get("dependencies")
        if values is None:
            if "dependencies" in document:
                self._warn("null-section", line_of(document, "dependencies"), "", "'dependencies' is empty")
            return (), (), 0
        if not isinstance(values, list):
            line = line_of(document, "dependencies")
            self._error("bad-section", line, "", f"'dependencies' must be a list, not a {shape(values)}")
            return (), (), 0
        specs: list[Item] = []
        pip: list[Item] = []
        for index, value in enumerate(values):
            self._dependency(value, line_of(values, index), specs, pip)
        sections = [index for index, value in enumerate(values) if isinstance(value, dict) and "pip" in value]
        return tuple(specs), tuple(pip), line_of(values, sections[0]) if sections else 0

    def _dependency(self, value: Any, line: int, specs: list[Item], pip: list[Item]) -> None:
        if isinstance(value, str):
            specs.append(self._spec(self._item(value, line)))
        elif isinstance(value, dict):
            for key, inner in value.items():
                self._mapping_item(str(key), value, inner, line, specs, pip)
        elif value is None:
            self._warn("null-dependency", line, "", "an empty dependency is left out")
        else:
            # The source text: YAML has read 3.10 as 3.1.
            source = self._source(line)
            what = f"{source} is a {shape(value)}" if not isinstance(value, list) else "a list inside the list"
            self._error("bad-dependency-type", line, "", f"{what}, not a spec: write one text per line")

    def _source(self, line: int) -> str:
        """The text of a line, without the dash of its list and its comment."""
        text = self._lines[line - 1] if 0 < line <= len(self._lines) else ""
        return text.partition(" #")[0].strip().removeprefix("-").strip()

    def _spec(self, item: Item) -> Item:
        """A conda spec without the comment that is glued to it: conda cuts it off, conda-lock does not."""
        if re.match(r"pip\s+-", item.text):
            self._error("pip-colon-missing", item.line, item.text, "':' is missing after 'pip'")
        clean = item.text if "://" in item.text else item.text.partition("#")[0].strip()
        if clean == item.text:
            return item
        message = f"the comment is glued to the spec: conda cuts it off ({clean}), other tools do not"
        self._warn("comment-glued", item.line, item.text, message, "put a space before '#'")
        return Item(text=clean, line=item.line, raw=item.text, selector=item.selector)

    def _mapping_item(self, key: str, section: Any, inner: Any, line: int, specs: list[Item], pip: list[Item]) -> None:
        sel = _SEL.fullmatch(key)
        if key == "pip":
            pip += self._pip(section, line)
        elif sel is not None and isinstance(inner, str):
            specs.append(Item(text=inner, line=line, selector=Selector(sel["condition"], "sel")))
        else:
            source = self._source(line)
            wanted = source.replace(": ", "=", 1)
            self._error(
                "bad-dependency-type",
                line,
                source,
                f"{key!r} is a mapping here (YAML read {inner!r}): write the spec as one text, '{wanted}'",
            )

    def _pip(self, section: Any, line: int) -> list[Item]:
        values = section["pip"]
        if values is None:
            self._warn("empty-pip-section", line, "pip", "'pip:' is empty")
            return []
        if not isinstance(values, list):
            self._error("bad-dependency-type", line, "pip", f"'pip:' must be a list, not a {shape(values)}")
            return []
        return list(self._strings(section, "pip"))

    def _variables(self, document: Any) -> dict[str, str]:
        values = document.get("variables")
        if values is None:
            return {}
        if not isinstance(values, dict):
            self._error("bad-section", line_of(document, "variables"), "", "'variables' must be a mapping")
            return {}
        for key, value in values.items():
            line = line_of(values, key)
            if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", str(key)):
                self._error("bad-variable", line, str(key), f"{key!r} cannot be the name of a variable")
            if value is not None and not isinstance(value, str):
                message = f"the variable {key} is a {shape(value)}; it becomes the text {str(value)!r}"
                self._warn("non-string-variable", line, str(key), message, "quote the value")
        return {str(key): "" if value is None else str(value) for key, value in values.items()}


def shape(value: Any) -> str:
    """What YAML made of something, in a word."""
    kinds: tuple[tuple[type, str], ...] = (
        (bool, "true/false"),
        (list, "list"),
        (dict, "mapping"),
        (str, "text"),
        (int, "number"),
        (float, "number"),
    )
    return next((name for kind, name in kinds if isinstance(value, kind)), type(value).__name__)


def line_of(container: Any, key: Any) -> int:
    """The 1-based line of a key of a mapping or an index of a list."""
    try:
        marks = container.lc
        position = marks.key(key) if isinstance(container, dict) else marks.item(key)
    except (AttributeError, KeyError, TypeError):
        return int(getattr(getattr(container, "lc", None), "line", 0) or 0) + 1
    return int(position[0]) + 1
