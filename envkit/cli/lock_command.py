"""envkit lock."""

from pathlib import Path

import click

from envkit.cli import options, render


@click.command()
@click.argument("source", type=click.Path(path_type=Path), metavar="ENVIRONMENT.YML")
@click.option(
    "--platform", "platforms", multiple=True, metavar="P", help="linux-64, osx-arm64, ...; this one by default."
)
@click.option("--update", multiple=True, metavar="PKG", help="Move only this package, as far as that can be.")
@click.option("--check", is_flag=True, help="Only tell whether the lock is fresh: exit 0 or 1, nothing is solved.")
@click.option("--cuda", metavar="cpu|11.8", help="CUDA of the target; read from the specs by default.")
@click.option(
    "--conda", type=click.Path(path_type=Path), metavar="EXE", help="Solve with this conda, mamba or micromamba."
)
@click.option("--lock", "lock_path", type=click.Path(path_type=Path), help="The lock; conda-lock.yml beside the file.")
@options.as_json
@options.talk
def command(
    source: Path,
    platforms: tuple[str, ...],
    update: tuple[str, ...],
    check: bool,
    cuda: str | None,
    conda: Path | None,
    lock_path: Path | None,
    as_json: bool,
    quiet: bool,
    verbose: bool,
) -> None:
    """Write conda-lock.yml for an environment.yml, with conda-lock and no conda.

    The virtual packages are those of the target, never of this machine: a lock made where there is no GPU is the
    same lock. A CUDA target that solves to a CPU build of pytorch, torchvision or torchaudio is an error.

    \b
    Examples:
      envkit lock environment.yml --platform linux-64 --platform osx-arm64
      envkit lock environment.yml --update numpy
      envkit lock environment.yml --check
    """
    from envkit.cli import lock_flow

    with render.Talk(quiet=quiet, verbose=verbose) as talk:
        if check:
            told = lock_flow.check(source, lock_path, platforms)
        else:
            told = lock_flow.write(source, lock_path, platforms, update, cuda, conda, talk)
    render.record(told) if as_json else render.say(told.sentence)
    raise SystemExit(0 if told.fresh else 1)
