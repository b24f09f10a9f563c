"""One line of a `pip:` section: what kind it is, and whether pip can read it.

Sources: pip's requirements file format, PEP 508, and conda's idiom `-r file:requirements.txt`.
"""

import re
import urllib.parse
from typing import Literal

import msgspec

Kind = Literal[
    "pep508",
    "option",
    "vcs",
    "editable-vcs",
    "editable-path",
    "path",
    "url",
    "file-url",
    "include",
    "constraint",
    "INVALID",
]

_VCS = re.compile(r"(git|hg|svn|bzr)\+")
_WITH_VALUE = re.compile(
    r"(?P<option>-e|--editable|-r|--requirement|-c|--constraint)(?:\s*=\s*|\s+|(?<=-[erc])(?=\S))(?P<value>\S.*)?$"
)
_NAMED_URL = re.compile(r"(?P<name>[A-Za-z0-9][\w.-]*)\s*(?P<extras>\[[^\]]*\])?\s*@\s*(?P<url>\S+)$")
_WHEEL = re.compile(
    r"(?P<name>[\w.]+)-(?P<version>[\w.!+]+)(-\d\w*)?-(?P<python>[\w.]+)-(?P<abi>[\w.]+)-(?P<platform>[\w.]+)\.whl$"
)


class PipLine(msgspec.Struct, frozen=True, kw_only=True):
    """A line taken apart. `spec` is the version specifier of a PEP 508 line; `problem` says why pip refuses it."""

    kind: Kind
    text: str
    name: str = ""
    spec: str = ""
    extras: tuple[str, ...] = ()
    value: str = ""
    problem: str = ""

    @property
    def wheel(self) -> dict[str, str] | None:
        """The parts of the file name of a wheel that an address names; None for other addresses."""
        path = urllib.parse.unquote(urllib.parse.urlsplit(self.value).path).rpartition("/")[2]
        found = _WHEEL.match(path)
        return found.groupdict() if found else None

    @property
    def ref(self) -> str | None:
        """The commit, tag or branch of a line from version control; None where there is none."""
        path = self.value.partition("#")[0].partition("://")[2].partition("/")[2]
        return path.rpartition("@")[2] if "@" in path else None


def parse(text: str) -> PipLine:
    """Take a line apart; never raises."""
    if text.startswith("-"):
        return _option(text)
    named = _NAMED_URL.match(text)
    if named is not None:
        return _address(text, named["url"], named["name"])
    if _VCS.match(text) or "://" in text.partition(" ")[0] or text.startswith("file:"):
        return _address(text, text, "")
    if text.startswith((".", "/", "~")) or text.endswith((".whl", ".tar.gz", ".zip")):
        return PipLine(kind="path", text=text, value=text)
    return _requirement(text)


def _option(text: str) -> PipLine:
    found = _WITH_VALUE.match(text)
    if found is None:
        return PipLine(kind="option", text=text, value=text)
    option, value = found["option"], (found["value"] or "").strip()
    if option in ("-r", "--requirement"):
        return PipLine(kind="include", text=text, value=value)
    if option in ("-c", "--constraint"):
        return PipLine(kind="constraint", text=text, value=value)
    # pip reads `--editable= x` as an option with an empty value and a stray word.
    problem = "there is a blank after '='" if re.match(r"--editable=\s", text) else ""
    kind: Kind = "editable-vcs" if _VCS.match(value) else "editable-path"
    egg = re.search(r"[#&]egg=([\w.-]+)", value)
    return PipLine(kind=kind, text=text, value=value, name=egg[1] if egg else "", problem=problem)


def _address(text: str, url: str, name: str) -> PipLine:
    if _VCS.match(url):
        egg = re.search(r"[#&]egg=([\w.-]+)", url)
        return PipLine(kind="vcs", text=text, value=url, name=name or (egg[1] if egg else ""))
    return PipLine(kind="file-url" if url.startswith("file:") else "url", text=text, value=url, name=name)


def _requirement(text: str) -> PipLine:
    from packaging.requirements import InvalidRequirement, Requirement

    try:
        requirement = Requirement(text)
    except InvalidRequirement as error:
        return PipLine(kind="INVALID", text=text, value=text, problem=_why(text, str(error).splitlines()[0]))
    return PipLine(
        kind="pep508",
        text=text,
        name=requirement.name,
        spec=str(requirement.specifier),
        extras=tuple(sorted(requirement.extras)),
    )


def _why(text: str, said: str) -> str:
    if re.search(r"[^=!<>~ ]=[^=]", text):
        return "a single '=' is conda's; did you mean '=='?"
    if re.search(r"\S#", text):
        return "pip does not cut off a comment that is glued to the line: put a space before '#'"
    return said
