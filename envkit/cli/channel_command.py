"""envkit channel."""

import sys
from pathlib import Path

import click

from envkit.cli import options, render


@click.group()
def command() -> None:
    """Make a local conda channel from this machine's interpreters and from wheels.

    For machines that reach a package index but no conda channel.
    """


@command.command()
@click.argument("folder", type=click.Path(path_type=Path), metavar="DIR")
@click.option(
    "--python", "pythons", multiple=True, type=click.Path(path_type=Path), metavar="EXE", help="An interpreter."
)
@click.option("--wheel", "wheels", multiple=True, metavar="REQ", help="A requirement, with all that it needs.")
@click.option("--wheel-python", "wheel_pythons", multiple=True, metavar="3.11", help="Only for this Python.")
@options.as_json
@options.talk
def make(
    folder: Path,
    pythons: tuple[Path, ...],
    wheels: tuple[str, ...],
    wheel_pythons: tuple[str, ...],
    as_json: bool,
    quiet: bool,
    verbose: bool,
) -> None:
    """Write packages and an index into DIR; what is there already stays, so that a channel can grow.

    An interpreter becomes a relocatable `python` package. Each requirement is resolved by itself, for each of the
    interpreters, and becomes packages under their conda names (torch: pytorch); pure ones are noarch.

    \b
    Example:
      envkit channel make ./channel --python python3.11 --wheel torch --wheel numpy==1.26.4 --wheel numpy==2.2.6
    """
    from envkit import channel
    from envkit.cli.options import _executable

    chosen = [_executable(path) for path in pythons] or [Path(sys.executable)]
    with render.Talk(quiet=quiet, verbose=verbose) as talk:
        made = channel.make(folder, pythons=chosen, wheels=wheels, wheel_pythons=wheel_pythons, tell=talk)
    if as_json:
        render.record(made)
    else:
        render.say(f"wrote {len(made.packages)} packages to {made.channel}")
