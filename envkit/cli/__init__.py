"""The command line: a table of contents, one door for errors. Commands are imported when they are called."""

import atexit
import importlib
import itertools
import os
import signal
import sys
from typing import Any

import click

import envkit
from envkit.errors import EnvkitError

CONTENTS = {
    "create": "Template, lock, build, probe: an environment from nothing.",
    "lock": "Write conda-lock.yml for an environment.yml, or check that it is fresh.",
    "templates": "List the templates: which fit, and why not.",
    "check": "Say all there is to say about an environment.yml, without solving.",
    "build": "Build the environment of a lock.",
    "verify": "Is the environment here the one that was locked, and does it behave the same?",
    "diff": "What differs between two reports, and what most likely caused it.",
    "probe": "Report what an environment is and how its data path behaves.",
    "explain": "Say all about a known change of behaviour that diff named.",
    "bench": "Measure how fast its DataLoader loads.",
    "tune": "Find the arguments of a DataLoader: fastest, with the fewest workers.",
    "watch": "Watch a training job and say what holds it back.",
    "doctor": "Find known trouble: in a file, a lock, an environment, this machine.",
    "host": "Show what this machine is and what it can run.",
    "run": "Run a command in an environment.",
    "shell": "Start a shell in an environment.",
    "activate": "Print shell code that activates an environment, for eval.",
    "list": "List the environments that are known here.",
    "remove": "Remove an environment.",
    "channel": "Make a local conda channel.",
    "completion": "Print the completion script of a shell.",
}


class Contents(click.Group):
    """Names and one-line helps without importing the commands."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(CONTENTS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in CONTENTS:
            return None
        module = importlib.import_module(f"envkit.cli.{cmd_name}_command")
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(CONTENTS.items()))


@click.group(cls=Contents, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(envkit.__version__, prog_name="envkit")
def group() -> None:
    """PyTorch conda environments that a whole team can rebuild, verify and compare.

    \b
    envkit create --cuda 11.8            from nothing to a probed environment
    envkit verify environment.yml        on a teammate's machine
    envkit diff hostA.json hostB.json    when results do not reproduce
    """


def main() -> None:
    """Run the command line; every expected failure leaves here with its own exit code."""
    signal.signal(signal.SIGTERM, _terminated)
    try:
        status = group.main(standalone_mode=False, prog_name="envkit")
    except EnvkitError as error:
        _show(error)
        status = error.exit_code
    except click.exceptions.Abort:
        click.echo("interrupted; what was finished is kept, run the command again to go on", err=True)
        status = 130
    except KeyboardInterrupt:
        click.echo("interrupted; what was finished is kept, run the command again to go on", err=True)
        status = 130
    except click.ClickException as error:
        error.show()
        status = error.exit_code
    except BrokenPipeError:
        # The reader of our output left: nothing more to say, and nothing to flush at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 141
    _leave(status if isinstance(status, int) else 0)


def _leave(status: int) -> None:
    """Exit, but not through an interpreter shutdown with rattler's threads in it: they sometimes crash it."""
    if "rattler" in sys.modules:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    sys.exit(status)


def _terminated(number: int, frame: object) -> None:
    """SIGTERM cleans up like Ctrl-C."""
    raise KeyboardInterrupt


def _show(error: EnvkitError) -> None:
    """The error for people on stderr; with --json also as a record on stdout."""
    click.echo(f"error: {error.message}", err=True)
    for line in error.details:
        click.echo(f"  {line}", err=True)
    if error.hint:
        click.echo(f"hint: {error.hint}", err=True)
    if "--json" in sys.argv or _json_format(sys.argv):
        from envkit import codec

        click.echo(codec.encode({"error": _record(error)}).decode(), nl=False)


def _json_format(arguments: list[str]) -> bool:
    return any(one == "--format" and two == "json" for one, two in itertools.pairwise(arguments))


def _record(error: EnvkitError) -> dict[str, Any]:
    return {
        "kind": error.kind,
        "exit_code": error.exit_code,
        "message": error.message,
        "details": list(error.details),
        "hint": error.hint,
    }
