"""Spec + facts + template -> Environment."""

from collections.abc import Iterator

import msgspec

from envkit import compatibility, environment, places
from envkit.compatibility import CPU, Row
from envkit.environment import Environment, Item
from envkit.errors import InputError
from envkit.spec import NO_TORCH, Spec

_TORCH_FAMILY = ("pytorch", "pytorch-gpu", "pytorch-cuda", "cuda-version", "cudatoolkit", "mkl")


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """An environment, with where it came from."""

    environment: Environment
    template: str
    text: str
    reasons: tuple[str, ...]


def choose(spec: Spec) -> Choice:
    """The environment for a spec: its template with the asked versions, channels and packages put in."""
    torch = None if spec.torch == NO_TORCH else spec.torch
    row = compatibility.row_for(spec.cuda, python=spec.python, torch=torch)
    text = (places.templates() / row.file).read_text(encoding="utf-8")
    wanted = environment.parse(text, row.file)
    specs = {item.name: item.text for item in wanted.specs}
    specs["python"] = f"python={spec.python}" if spec.python else specs["python"]
    if spec.torch == NO_TORCH:
        specs = {name: text for name, text in specs.items() if name not in _TORCH_FAMILY}
    if torch is not None:
        specs["pytorch"] = _with_version(specs["pytorch"], torch)
    specs |= {Item(text=pin).name: pin for pin in compatibility.pins_for(torch)}
    for variant in spec.variants:
        specs |= {Item(text=added).name: added for added in _variant(variant, row, specs.get("pytorch", ""))}
    specs |= {_name(added, "--add"): added for added in spec.add}
    if spec.pip:
        specs.setdefault("pip", "pip")
    chosen = msgspec.structs.replace(
        wanted,
        name=spec.name or wanted.name,
        channels=(*spec.channels, "nodefaults") if spec.channels else wanted.channels,
        specs=tuple(Item(text=text) for text in specs.values()),
        pip=tuple(Item(text=text) for text in spec.pip),
    )
    reasons = [f"CUDA {spec.cuda}: {row.file} ({row.status}; {row.source})"]
    if spec.channels:
        reasons.append(f"channels of the template replaced by {', '.join(spec.channels)}")
    return Choice(environment=chosen, template=row.file, text=text, reasons=tuple(reasons))


def _variant(name: str, row: Row, pytorch: str) -> Iterator[str]:
    """The specs of a variant; torchvision and torchaudio in the version and the build that fit torch's."""
    table = compatibility.facts().variants
    if name not in table:
        raise InputError(f"--with {name}: there is no such variant", hint=f"there are: {', '.join(table)}")
    parts = pytorch.split("=")
    version = parts[1].removesuffix(".*") if len(parts) > 1 else "*"
    pair = compatibility.pair_for(version) if version != "*" else None
    for spec in table[name]:
        yield spec.format(
            vision=f"={pair.torchvision}" if pair else "=*",
            audio=f"={pair.torchaudio}" if pair else "=*",
            build=_build(row),
        )


def _build(row: Row) -> str:
    """The build pin of torch's companions: `=*cu118` on the pytorch channel, `=cuda129*` and `=cpu*` on conda-forge."""
    if row.cuda == CPU:
        return "=cpu*"
    number = row.cuda.replace(".", "")
    return f"=*cu{number}" if row.channel == "pytorch" else f"=cuda{number}*"


def _with_version(spec: str, version: str) -> str:
    """`pytorch=*=cpu*` -> `pytorch=2.3=cpu*`; a version of two parts becomes `2.3.*`."""
    name, _, build = spec.split("=") if spec.count("=") == 2 else (spec.split("=")[0], "", "")
    exact = version if version.count(".") > 1 else f"{version}.*"
    return f"{name}={exact}={build}" if build else f"{name}={version}"


def _name(spec: str, option: str) -> str:
    name = Item(text=spec).name
    if not name:
        raise InputError(f"{option} {spec!r}: not a package spec", hint="write it as `scipy` or 'scipy>=1.10'")
    return name
