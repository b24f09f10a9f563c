"""envkit create."""

import shlex
from pathlib import Path
from typing import Any

import click

from envkit.cli import options, render

STAGES = ("spec", "lock", "build")


@click.command()
@options.name_or_prefix
@click.option("--cuda", default="auto", show_default=True, metavar="auto|cpu|11.8", help="CUDA to build for.")
@click.option("--python", "python_version", metavar="3.10", help="Python version.")
@click.option("--torch", "torch_version", metavar="2.3|none", help="torch version; none leaves it out.")
@click.option(
    "--channel", "channels", multiple=True, metavar="NAME|URL|DIR", help="Channels, instead of the template's."
)
@click.option("--with", "variants", multiple=True, metavar="VARIANT", help="vision, audio, jupyter, lightning, ...")
@click.option("--add", multiple=True, metavar="SPEC", help="A further conda package.")
@click.option("--pip", multiple=True, metavar="REQ", help="A package from the package index.")
@click.option("--mirror", metavar="tuna|ustc|sjtug|URL", help="Write DIR/condarc for a mirror, and use it.")
@click.option("-d", "--directory", type=click.Path(path_type=Path), default=Path(), help="Where the files go.")
@click.option("--stop-after", type=click.Choice(STAGES), help="Stop after this step.")
@click.option("--no-bench", is_flag=True, help="Probe, but do not measure.")
@click.option("--report", "report_path", type=click.Path(path_type=Path), help="Where the report goes.")
@options.as_json
@options.yes
@options.talk
def command(**given: Any) -> None:
    """Make an environment from nothing: choose a template, write environment.yml, lock it, build, activate, probe.

    Writes environment.yml, conda-lock.yml and environment.report.json, the three files that a team commits.
    Running it again goes on where it stopped. An existing environment.yml that differs needs -y; its comments stay.

    \b
    Examples:
      envkit create --cuda 11.8
      envkit create -n t1 --cuda cpu --python 3.11 --channel ./channel -d t1
    """
    from envkit.cli import create_flow

    with render.Talk(quiet=given.pop("quiet"), verbose=given.pop("verbose")) as talk:
        made = create_flow.create(create_flow.Wish(**given), talk)
    if given["as_json"]:
        render.record(made)
        return
    for path in (made.environment_file, made.lock_file, made.report_file):
        if path is not None:
            render.say(f"wrote {path}")
    if made.prefix is not None:
        render.say(f"environment {made.prefix}")
        render.say(f'use it with: envkit run {made.selector} -- python, or: eval "$(envkit activate {made.selector})"')
    for line in made.summary:
        render.say(line)


def selector(name: str | None, prefix: Path | None) -> str:
    """`-n NAME` or `-p PREFIX` as a person types it."""
    return f"-n {shlex.quote(name)}" if prefix is None and name else f"-p {shlex.quote(str(prefix))}"
