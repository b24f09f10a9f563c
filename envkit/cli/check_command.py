"""envkit check."""

from pathlib import Path

import click

from envkit.check import Checked
from envkit.cli import options, render


@click.command()
@click.argument("source", type=click.Path(path_type=Path), metavar="ENVIRONMENT.YML")
@click.option("--platform", "platforms", multiple=True, metavar="P", help="Look at it for this platform.")
@click.option("--fix", "fixing", is_flag=True, help="Rewrite the file, comments kept, and show the change.")
@options.as_json
@click.option("-q", "--quiet", is_flag=True, help="Errors and warnings only.")
def command(source: Path, platforms: tuple[str, ...], fixing: bool, as_json: bool, quiet: bool) -> None:
    """Say all there is to say about an environment.yml at once, without solving.

    Each finding has a stable code, a line and a next step. Exit 0 without errors, 1 with errors, 2 when there is
    no such file.

    \b
    Examples:
      envkit check environment.yml --platform linux-64 --platform osx-arm64
      envkit check environment.yml --platform osx-arm64 --fix
    """
    from envkit import check

    checked = check.check(source, platforms=platforms)
    change = _fix(source, checked) if fixing else ""
    if change:
        checked = check.check(source, platforms=platforms)
    if as_json:
        render.record({"findings": checked.findings, "change": change})
    else:
        click.echo(change, nl=False)
        shown = [one for one in checked.findings if not quiet or one.severity != "info"]
        for one in shown:
            render.say(one.told(f"{source}:{max(one.line, 1)}"))
        errors = sum(one.severity == "error" for one in checked.findings)
        render.say(f"{source}: {len(shown)} finding(s), {errors} error(s)" if shown else f"{source}: nothing to say")
    raise SystemExit(0 if checked.good else 1)


def _fix(source: Path, checked: Checked) -> str:
    """Rewrite the file where there is something to do; the change as a unified diff."""
    import difflib

    from envkit import codec, fix, redact

    if checked.subject is None:
        return ""
    before = codec.read_text(source)
    after = fix.fix(before, checked.subject)
    if after.encode() != codec.read_bytes(source):
        codec.write(source, after.encode())
    lines = difflib.unified_diff(
        before.splitlines(keepends=True), after.splitlines(keepends=True), str(source), str(source)
    )
    return redact.assignments(redact.url("".join(lines)))
