"""Rewriting an environment.yml so that it can be rebuilt elsewhere: line by line, so that all else stays as it is.

Done: the prefix line goes, `nodefaults` comes, build strings of another platform are cut off and its own packages
dropped, indexes move from the pip lines to `pip-repositories:`, the specs of one package become one, glued comments
get their blank, `pip` is listed where there is a pip section. Running it twice gives the same bytes.
"""

import re
from collections.abc import Iterator

from envkit.environment import Item
from envkit.errors import InputError
from envkit.rules.platform_rules import exported_on, platform_only
from envkit.rules.subject import Spec, Subject

_INDEX = re.compile(r"(?:-i|--index-url|--extra-index-url)(?:\s*=\s*|\s+)(?P<url>\S+)$")


def fix(text: str, subject: Subject) -> str:
    """`text` rewritten; the very same text where there is nothing to do.

    Raises InputError where an item to change does not stand on a line of its own.
    """
    lines = text.splitlines()
    changed = _changes(subject, lines)
    for item in changed:
        if item.line and not re.match(r"\s*-\s", lines[item.line - 1]):
            raise InputError(
                f"line {item.line}: {item.text}: --fix needs one item on a line", hint="write the lists in block style"
            )
    repositories = [found["url"] for one in subject.lines if (found := _INDEX.match(one.item.text))]
    dropped = {item.line for item, new in changed.items() if new is None} | {subject.environment.prefix_line}
    if subject.lines and all(one.item.line in dropped for one in subject.lines):
        dropped.add(subject.environment.pip_line)
    new = {item.line: _replaced(lines[item.line - 1], item, to) for item, to in changed.items() if to is not None}
    inserted = _inserted(lines, subject, removed_pip=subject.environment.pip_line in dropped)
    out: list[str] = []
    for number, line in enumerate(lines, 1):
        out += inserted.get(-number, [])
        if number not in dropped:
            out.append(new.get(number, line))
        out += inserted.get(number, [])
    out = _with_repositories(out, repositories)
    ending = "\r\n" if "\r\n" in text else "\n"
    return ending.join(out) + ending if out != lines else text


def _changes(subject: Subject, lines: list[str]) -> dict[Item, str | None]:
    """What becomes of items: another text, or None for one that goes."""
    return {
        **dict(_glued(subject)),
        **dict(_platform_changes(subject)),
        **dict(_duplicates(subject, lines)),
        **{one.item: None for one in subject.lines if _INDEX.match(one.item.text)},
    }


def _glued(subject: Subject) -> Iterator[tuple[Item, str | None]]:
    for one in subject.specs:
        if one.item.raw:
            comment = one.item.raw.partition("#")[2].strip()
            yield one.item, f"{one.item.text}  # {comment}"


def _platform_changes(subject: Subject) -> Iterator[tuple[Item, str | None]]:
    """Cut builds off and drop packages that the platforms asked for do not have.

    Nothing where no platform is asked for, or where the file was exported on that very one.
    """
    origin, wanted = exported_on(subject), set(subject.platforms)
    if wanted <= {origin} or not (subject.platforms_asked or origin):
        return
    for one in subject.specs:
        tied = platform_only(one.parsed.name)
        elsewhere = tied and not (wanted <= tied if origin else wanted & tied)
        if one.item.selector is not None:
            continue
        if one.parsed.name == "pytorch-gpu" and elsewhere:
            # Dropped, it would take torch along.
            yield one.item, one.item.text.replace("pytorch-gpu", "pytorch", 1).partition("=*")[0]
        elif elsewhere:
            yield one.item, None
        elif one.parsed.build and "*" not in one.parsed.build:
            yield one.item, "=".join(one.item.text.split("=")[:2])


def _duplicates(subject: Subject, lines: list[str]) -> Iterator[tuple[Item, str | None]]:
    """Several specs of one package become one that says the same; specs with different selectors stay."""
    groups: dict[tuple[str, object], list[Spec]] = {}
    for one in subject.specs:
        groups.setdefault((one.parsed.name, one.item.selector), []).append(one)
    for group in groups.values():
        kept: dict[str, Spec] = {}
        for one in group:
            kept.setdefault(one.item.text, one)
        distinct = list(kept.values())
        said = [one for one in distinct if one.item.text != one.parsed.name] or distinct
        text = said[0].item.text if len(said) == 1 else _merged(said)
        if text is None:
            # What cannot become one spec stays; only what says nothing new goes.
            yield from ((one.item, None) for one in group if not any(one is other for other in said))
            continue
        # The line that stays is one with a comment, so that no comment is lost where only one has any.
        survivor = next((one for one in group if "#" in lines[one.item.line - 1]), group[0])
        if survivor.item.text != text:
            yield survivor.item, text
        yield from ((one.item, None) for one in group if one is not survivor)


def _merged(specs: list[Spec]) -> str | None:
    """One spec for several; None where more than plain versions is asked for."""
    versions = []
    for one in specs:
        parsed = one.parsed
        if parsed.build or parsed.channel or parsed.subdir or not parsed.version or "|" in parsed.version:
            return None
        versions.append(parsed.version)
    text = ",".join(dict.fromkeys(",".join(versions).split(",")))
    return specs[0].parsed.name + (text if text[0] in "<>=!~" else f" {text}")


def _replaced(line: str, item: Item, new: str) -> str:
    """The line with the item's text changed and its indentation, quotes and comment kept."""
    old = item.raw or item.text
    return line.replace(old, new, 1) if old in line else re.sub(r"(-\s+)\S.*$", lambda found: found[1] + new, line)


def _inserted(lines: list[str], subject: Subject, *, removed_pip: bool) -> dict[int, list[str]]:
    """New lines by the number of the line that they follow (negative: that they precede)."""
    asked = subject.environment
    found: dict[int, list[str]] = {}
    if asked.channel_line and not {"nodefaults", "defaults"} & set(asked.channels):
        indent = re.match(r"\s*-\s+", lines[asked.channel_line - 1])
        if indent is not None:
            found[asked.channel_line] = [f"{indent[0]}nodefaults"]
    if asked.pip_line and not removed_pip and subject.spec("pip") is None:
        indent = re.match(r"\s*-\s+", lines[asked.pip_line - 1])
        if indent is not None:
            found[-asked.pip_line] = [f"{indent[0]}pip"]
    return found


def _with_repositories(lines: list[str], repositories: list[str]) -> list[str]:
    """Add indexes to `pip-repositories:`, after those that it has."""
    if not repositories:
        return lines
    start = next((number for number, line in enumerate(lines) if line.startswith("pip-repositories:")), None)
    if start is None:
        return [*lines, "pip-repositories:", *(f"  - {url}" for url in repositories)]
    return [*lines[: start + 1], *(f"  - {url}" for url in repositories), *lines[start + 1 :]]
