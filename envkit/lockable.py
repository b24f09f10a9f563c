"""Whether conda-lock can lock what an environment.yml asks for, told before it is started."""

from pathlib import Path

from envkit import engine, environment
from envkit.environment import Environment
from envkit.errors import InputError


def check_readable(asked: Environment, source: Path) -> None:
    """Refuse specs and pip lines that nothing can read, all at once, each with its line."""
    from packaging.requirements import InvalidRequirement, Requirement

    bad = engine.bad_specs(asked.spec_texts)
    problems = [f"{source}:{item.line}: {item.text}: {bad[item.text]}" for item in asked.specs if item.text in bad]
    problems += _asked_twice(asked, source)
    for item in asked.pip:
        if item.text.startswith("-"):
            problems.append(f"{source}:{item.line}: {item.text}: an option of pip: conda-lock cannot lock it")
            continue
        try:
            Requirement(item.text)
        except InvalidRequirement as error:
            problems.append(f"{source}:{item.line}: {item.text}: {str(error).splitlines()[0]}")
    if problems:
        raise InputError(
            f"{len(problems)} line(s) cannot be locked",
            details=tuple(problems),
            hint="correct them; an index goes under `pip-repositories:`",
        )
    if not asked.specs and not asked.pip:
        raise InputError(f"{source}: there is nothing to lock", hint="list packages under `dependencies:`")


def _asked_twice(asked: Environment, source: Path) -> list[str]:
    """Specs of one package that say different things: conda-lock would keep the last one in silence."""
    problems = []
    for index, item in enumerate(asked.specs):
        others = [
            one for one in asked.specs[:index] if one.name == item.name and one.text != item.text and _meet(one, item)
        ]
        problems += [
            f"{source}:{item.line}: {item.text}: asked for as {one.text!r} in line {one.line}: write one spec, such as "
            f"{item.name}>=1,<2 (envkit check --fix makes one of plain versions)"
            for one in others[:1]
        ]
    return problems


def _meet(one: environment.Item, other: environment.Item) -> bool:
    """Whether two items are meant for a common platform."""
    return any(
        environment.applies(one.selector, platform) and environment.applies(other.selector, platform)
        for platform in environment.PLATFORMS
    )
