"""envkit probe."""

from pathlib import Path

import click

from envkit.cli import options, render


@click.command()
@options.name_or_prefix
@options.python
@click.option("--no-bench", is_flag=True, help="Probe, but do not measure.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write the report here.")
@options.as_json
@options.talk
def command(
    name: str | None,
    prefix: Path | None,
    python: Path | None,
    no_bench: bool,
    output: Path | None,
    as_json: bool,
    quiet: bool,
    verbose: bool,
) -> None:
    """Report what an environment is, how its data path behaves, and how fast it loads.

    Works on any interpreter, of an envkit environment or not. A torch that is missing, broken or crashing is an
    outcome in the report. No secret is stored: logins, token-like variables and home paths are taken out.

    \b
    Examples:
      envkit probe -n t1 -o hostA.json
      envkit probe --python /usr/bin/python3 --no-bench
    """
    from envkit import host, probe, report
    from envkit.bench import plan
    from envkit.cli import summary

    target = options.inside_target(name, prefix, python)
    with render.Talk(quiet=quiet, verbose=verbose) as talk:
        told = probe.probe(target, bench=None if no_bench else plan(host.usable_cores()), tell=talk)
    if output is not None:
        report.write(output, told)
    if as_json:
        render.record(told)
        return
    for line in summary.lines(told):
        render.say(line)
    if output is not None:
        render.say(f"wrote {output}")
