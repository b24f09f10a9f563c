"""envkit run."""

import os
from pathlib import Path

import click

from envkit.cli import options


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@options.name_or_prefix
@click.argument("words", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- CMD...")
def command(name: str | None, prefix: Path | None, words: tuple[str, ...]) -> None:
    """Run a command in the activated environment: activation scripts have run, `variables:` are set.

    The words go to the command as they are, through no shell; the exit status is the command's.

    \b
    Example:
      envkit run -n t1 -- python -c "import torch; print(torch.__version__)"
    """
    import shutil

    from envkit import activation
    from envkit.errors import InputError

    place = options.prefix_from(name, prefix)
    environ = activation.environ(place, os.environ)
    program = shutil.which(words[0], path=environ.get("PATH"))
    if program is None:
        raise InputError(f"{words[0]}: no such program in {place}")
    os.execve(program, list(words), environ)
