"""Options that several commands share, and what they mean."""

import os
import re
import urllib.parse
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from envkit.errors import InputError

F = TypeVar("F", bound=Callable[..., Any])


def _names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Names of environments, for shell completion."""
    from envkit import places

    folders = [folder for folder in places.envs_directories(os.environ) if folder.is_dir()]
    found = {one.name for folder in folders for one in folder.iterdir() if (one / "conda-meta").is_dir()}
    return sorted(name for name in found if name.startswith(incomplete))


def name_or_prefix(function: F) -> F:
    """-n NAME or -p PREFIX."""
    function = click.option("-p", "--prefix", type=click.Path(path_type=Path), help="Path of the environment.")(
        function
    )
    return click.option("-n", "--name", shell_complete=_names, help="Name of the environment.")(function)


def python(function: F) -> F:
    """--python EXE."""
    return click.option(
        "--python", "python", type=click.Path(path_type=Path), metavar="EXE", help="Any interpreter instead."
    )(function)


def as_json(function: F) -> F:
    """--json."""
    return click.option("--json", "as_json", is_flag=True, help="The record on stdout, and nothing else.")(function)


def talk(function: F) -> F:
    """-q and -v; they decide what stderr says."""
    function = click.option("-v", "--verbose", is_flag=True, help="Say every step.")(function)
    return click.option("-q", "--quiet", is_flag=True, help="Say nothing on stderr but errors.")(function)


def yes(function: F) -> F:
    """-y."""
    return click.option("-y", "--yes", is_flag=True, help="Do not ask; replace what is there.")(function)


def prefix_from(name: str | None, prefix: Path | None, fallback: str | None = None) -> Path:
    """The prefix that -n and -p mean; `fallback` is the name in the file at hand."""
    from envkit import places

    if name is not None and prefix is not None:
        raise InputError("give -n or -p, not both")
    if prefix is not None:
        # Absolute but not resolved: a link to a prefix is a place of its own for conda too.
        return Path(os.path.abspath(prefix.expanduser()))  # noqa: PTH100
    chosen = name if name is not None else fallback
    if chosen is None:
        raise InputError("which environment?", hint="give -n NAME or -p PREFIX")
    return places.prefix_of(chosen, os.environ)


def channel(value: str) -> str:
    """A channel as it goes into a file: names and URLs as they are, a folder as its `file:` address.

    The home folder is written as `${HOME}`, which conda, conda-lock and envkit expand.
    """
    path = Path(value).expanduser()
    if "://" in value:
        return value
    if not value.startswith((".", "/", "~")) and not (path / "noarch").is_dir():
        if re.fullmatch(r"[\w.-]+(/[\w.-]+)*", value):
            return value
        raise InputError(f"--channel {value!r}: not a channel's name, URL or folder")
    if not (path / "noarch").is_dir():
        raise InputError(
            f"--channel {value}: no channel in this folder: it has no noarch/",
            hint="envkit channel make DIR makes one",
        )
    address, home = path.resolve().as_uri(), str(Path.home())
    if urllib.parse.quote(home) == home and address.startswith(f"file://{home}/"):
        return "file://${HOME}" + address.removeprefix(f"file://{home}")
    return address


def inside_target(name: str | None, prefix: Path | None, interpreter: Path | None) -> Any:
    """The target that -n, -p or --python mean; without any of them the active environment."""
    from envkit import activation
    from envkit import prefix as prefixes
    from envkit.inside import Target

    if interpreter is not None:
        if name is not None or prefix is not None:
            raise InputError("give --python or an environment, not both")
        return Target(python=_executable(interpreter), environ=dict(os.environ))
    if name is None and prefix is None:
        active = os.environ.get("CONDA_PREFIX")
        if not active:
            raise InputError("which environment?", hint="give -n NAME, -p PREFIX or --python EXE, or activate one")
        prefix = Path(active)
    place = prefix_from(name, prefix)
    return Target(
        python=prefixes.python(place),
        environ=activation.environ(place, os.environ),
        prefix=place,
        name=name,
    )


def data_source(text: str) -> Any:
    """The factory that --dataset or --loader names, with the folders where its modules are found."""
    from envkit import owndata

    python_path = [part for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part]
    return owndata.source(text, Path.cwd(), python_path)


def consumer(step_ms: float, model: str | None) -> Any:
    """What takes the batches: --step-ms, or --model with a bundled model's name or a factory."""
    from envkit import trials

    if step_ms and model is not None:
        raise InputError("give --step-ms or --model, not both")
    if model is None:
        return trials.Consumer(step_s=step_ms / 1000)
    if model in trials.BUNDLED:
        return trials.Consumer(bundled=model)
    if ":" not in model:
        raise InputError(
            f"--model {model!r}: no such model",
            hint=f"give {', '.join(trials.BUNDLED)}, or file.py:f, which returns a Module or a function of a batch",
        )
    return trials.Consumer(model=data_source(model))


def consumers(function: F) -> F:
    """--step-ms and --model: what computes between batches."""
    function = click.option(
        "--model", metavar="cnn|vit|FILE.py:F", help="Train this between batches: a bundled model, or what F returns."
    )(function)
    return click.option(
        "--step-ms", type=click.FloatRange(min=0), default=0.0, help="What training takes for a batch, in ms."
    )(function)


def seconds(option: str, text: str) -> float:
    """A time as people write it: 60s, 2m, 90."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(s|m|min)?", text.strip())
    if found is None or not float(found[1]):
        raise InputError(f"{option} {text!r} is no time", hint="write 60s or 2m")
    return float(found[1]) * (60 if (found[2] or "s").startswith("m") else 1)


def _executable(path: Path) -> Path:
    """An interpreter by path, or by name on PATH."""
    import shutil

    found = str(path) if path.is_file() else shutil.which(str(path))
    if found is None:
        raise InputError(f"--python {path}: no such program", hint="give the path of an interpreter")
    # Not resolved: an interpreter of a virtual environment is known by its own place.
    return Path(os.path.abspath(found))  # noqa: PTH100
