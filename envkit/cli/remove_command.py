"""envkit remove."""

from pathlib import Path

import click

from envkit.cli import options, render


@click.command()
@click.argument("environment", required=False, metavar="NAME")
@options.name_or_prefix
@options.as_json
@options.yes
@options.talk
def command(
    environment: str | None, name: str | None, prefix: Path | None, as_json: bool, yes: bool, quiet: bool, verbose: bool
) -> None:
    """Remove an environment. Anything that is not an environment is refused.

    \b
    Example:
      envkit remove -n t1
    """
    from envkit import build
    from envkit import prefix as prefixes

    place = options.prefix_from(environment or name, prefix)
    prefixes.check(place)
    if not yes:
        click.confirm(f"remove {place}?", abort=True, err=True)
    with render.Talk(quiet=quiet, verbose=verbose) as talk:
        build.remove(place, talk)
    render.record({"removed": str(place)}) if as_json else render.say(f"removed {place}")
