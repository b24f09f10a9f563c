"""envkit explain."""

import click

from envkit.cli import options, render


@click.command()
@click.argument("id", required=False, metavar="[ID]")
@options.as_json
def command(id: str | None, as_json: bool) -> None:
    """Say all about a known change of behaviour that diff or verify named; without ID, list them.

    \b
    Examples:
      envkit explain subset-override-ignored
      envkit explain
    """
    from envkit import transitions

    if id is None:
        found = transitions.everything()
        if as_json:
            render.record({"transitions": found})
        else:
            render.table(("id", "where it changed", "what changed"), [(t.id, t.where, t.sentence) for t in found])
        return
    entry = transitions.named(id)
    if as_json:
        render.record(entry)
        return
    render.say(f"{entry.id}: {entry.where}\n\n{entry.sentence}\n")
    for label, text in entry.rows():
        render.say(f"{label:<7} {text}")
