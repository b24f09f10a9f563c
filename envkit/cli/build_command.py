"""envkit build."""

from pathlib import Path

import click

from envkit.cli import options, render


@click.command()
@click.argument("source", type=click.Path(path_type=Path), metavar="ENVIRONMENT.YML|CONDA-LOCK.YML")
@options.name_or_prefix
@click.option("--offline", is_flag=True, help="Use only what is in the caches.")
@click.option("--force", is_flag=True, help="Replace the environment that is there.")
@options.as_json
@options.talk
def command(
    source: Path,
    name: str | None,
    prefix: Path | None,
    offline: bool,
    force: bool,
    as_json: bool,
    quiet: bool,
    verbose: bool,
) -> None:
    """Build exactly what was locked: no solve, every package checked against its hash.

    The environment appears whole or not at all; an interrupted build is run again with the same command.

    \b
    Examples:
      envkit build environment.yml
      envkit build conda-lock.yml -p ./env
    """
    from envkit.cli import flow

    with render.Talk(quiet=quiet, verbose=verbose) as talk:
        asked, where, held, freshness = flow.request(source, None)
        flow.refuse_stale(freshness, source)
        place = options.prefix_from(name, prefix, asked.name if asked else None)
        built = flow.build_lock(place, held, where, asked, talk, offline=offline, force=force)
    if as_json:
        render.record(built)
    elif built.fresh:
        render.say(f"built {built.prefix}: {built.packages} packages")
    else:
        render.say(f"{built.prefix} is already built from this lock: {built.packages} packages")
