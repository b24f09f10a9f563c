"""envkit templates."""

from typing import Any

import click

from envkit.cli import options, render


@click.command()
@click.option("--cuda", metavar="cpu|11.8", help="Only for this CUDA.")
@click.option("--python", "python", metavar="3.10", help="With this Python.")
@click.option("--torch", metavar="2.3", help="With this torch.")
@click.option("--gpu", metavar='"RTX 4090"', help="For this GPU.")
@click.option("--driver", metavar="535.104", help="For this driver.")
@click.option("--platform", metavar="P", help="For this platform; this machine's by default.")
@click.option("--explain", is_flag=True, help="The rows and their sources too.")
@options.as_json
def command(explain: bool, as_json: bool, **asked: Any) -> None:
    """List every template: whether it fits, and why not. The first that fits is the one to take.

    Without a driver and a GPU nothing is said against a template for their sake.

    \b
    Examples:
      envkit templates --driver 520.61 --gpu "RTX 3090"
      envkit templates --python 3.9 --explain
    """
    from envkit import compatibility, engine

    gpu = asked.pop("gpu")
    asked["platform"] = asked["platform"] or engine.platform()
    capability = compatibility.capability_of(gpu) if gpu else None
    told = compatibility.answers(compatibility.Wanted(**asked, capability=capability))
    if as_json:
        render.record({"templates": told})
        return
    rows = [(_fits(index, answer), answer.row.file, answer.row.cuda, _why(answer)) for index, answer in enumerate(told)]
    render.table(("fits", "template", "CUDA", "why"), rows)
    if explain:
        for answer in told:
            render.say(f"{answer.row.file} ({answer.row.status}): torch {answer.row.torch}; {answer.row.source}")


def _fits(index: int, answer: Any) -> str:
    return "no" if not answer.fits else "first choice" if index == 0 else "yes"


def _why(answer: Any) -> str:
    if answer.fits:
        return f"Python {answer.row.python[0]} to {answer.row.python[-1]}, torch {answer.row.torch}"
    return "; ".join(answer.against)
