"""Spec + facts + template -> Environment."""

import msgspec

from envkit import compatibility, environment, places
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
    path = places.templates() / row.file
    text = path.read_text(encoding="utf-8")
    wanted = environment.parse(text, row.file)
    specs = {item.name: item.text for item in wanted.specs}
    if spec.python is not None:
        specs["python"] = f"python={spec.python}"
    if spec.torch == NO_TORCH:
        specs = {name: text for name, text in specs.items() if name not in _TORCH_FAMILY}
    if torch is not None:
        specs["pytorch"] = _with_version(specs["pytorch"], torch)
    for pin in compatibility.pins_for(torch):
        specs[Item(text=pin).name] = pin
    for added in spec.add:
        specs[_name(added, "--add")] = added
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
