"""envkit list."""

import os
from pathlib import Path

import click
import msgspec

from envkit.cli import options, render


class Known(msgspec.Struct, frozen=True, kw_only=True):
    """One environment."""

    name: str
    prefix: str
    python: str | None
    torch: str | None
    made_by: str


@click.command()
@options.as_json
def command(as_json: bool) -> None:
    """List the environments in the environments folders and in conda's own list.

    \b
    Example:
      envkit list --json
    """
    found = [_known(prefix) for prefix in _prefixes()]
    if as_json:
        render.record({"environments": found})
    elif found:
        rows = [(one.name, one.python or "-", one.torch or "-", one.made_by, one.prefix) for one in found]
        render.table(("name", "python", "pytorch", "made by", "prefix"), rows)
    else:
        render.say("no environments yet: envkit create makes one")


def _prefixes() -> list[Path]:
    from envkit import places
    from envkit import prefix as prefixes

    listed = places.environments_list()
    told = [Path(line) for line in listed.read_text(encoding="utf-8").splitlines() if line] if listed.is_file() else []
    for folder in places.envs_directories(os.environ):
        told += sorted(folder.iterdir()) if folder.is_dir() else []
    return [one for one in dict.fromkeys(told) if not one.name.startswith(".") and prefixes.is_environment(one)]


def _known(prefix: Path) -> Known:
    from envkit import prefix as prefixes
    from envkit.errors import EnvkitError

    try:
        versions = {one.name: one.version for one in prefixes.records(prefix)}
        made_by = "envkit" if prefixes.completion(prefix) else "another tool"
    except EnvkitError:
        versions, made_by = {}, "damaged"
    return Known(
        name=prefix.name,
        prefix=str(prefix),
        python=versions.get("python"),
        torch=versions.get("pytorch"),
        made_by=made_by,
    )
