"""The user's own data: which factory makes it, and the findings about it as sentences."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from envkit import codec
from envkit.errors import InputError
from envkit.finding import Finding

_SHOWN = 3
RECIPE = '''\
from torch.utils.data import default_collate

def robust_collate(batch):
    """Drop samples that are None; None for a batch of which nothing is left."""
    batch = [sample for sample in batch if sample is not None]
    return default_collate(batch) if batch else None

# DataLoader(dataset, collate_fn=robust_collate, ...), and in the loop: `if batch is None: continue`
'''


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """A function without arguments that returns a Dataset or a DataLoader: module, name, where modules are found."""

    text: str
    module: str
    factory: str
    paths: tuple[str, ...]


def source(text: str, folder: Path, python_path: Sequence[str]) -> Source:
    """`file.py:factory` or `module:factory`; raises InputError for anything else, and for a file that is not there."""
    place, colon, factory = text.rpartition(":")
    if not colon or not factory.isidentifier():
        raise InputError(
            f"{text!r} names no factory",
            hint="give file.py:function or package.module:function, a function without arguments",
        )
    if not place.endswith(".py"):
        if not all(part.isidentifier() for part in place.split(".")):
            raise InputError(f"{place!r} is neither a .py file nor the name of a module")
        return Source(text=text, module=place, factory=factory, paths=(str(folder), *python_path))
    file = Path(folder, place)
    if not file.is_file():
        raise InputError(f"{place}: no such file", hint="the path is relative to the working folder")
    if not file.stem.isidentifier():
        raise InputError(f"{place}: its name cannot be imported by workers", hint="use letters, digits and '_'")
    return Source(text=text, module=file.stem, factory=factory, paths=(str(file.parent), str(folder), *python_path))


def question(one: Source, timeout_s: float) -> dict[str, Any]:
    """What the payload is asked."""
    return {"module": one.module, "factory": one.factory, "paths": list(one.paths), "timeout_s": timeout_s}


def findings(events: Sequence[Mapping[str, Any]]) -> tuple[Finding, ...]:
    """The payload's findings, those about several samples as one, the gravest first."""
    groups: dict[tuple[str, ...], list[int]] = {}
    firsts: dict[tuple[str, ...], Mapping[str, Any]] = {}
    for event in events:
        told = event["finding"]
        key = (told["code"], told["severity"], told["message"], told.get("next", ""))
        firsts.setdefault(key, told)
        groups.setdefault(key, [])
        if event.get("index") is not None:
            groups[key].append(event["index"])
    found = [
        codec.convert(dict(firsts[key], message=_sentence(firsts[key]["message"], indices)), Finding, "the payload")
        for key, indices in groups.items()
    ]
    return tuple(sorted(found, key=lambda one: one.rank))


def _sentence(message: str, indices: Sequence[int]) -> str:
    several = len(set(indices)) > 1
    shown = ", ".join(str(index) for index in list(dict.fromkeys(indices))[:_SHOWN])
    more = len(set(indices)) - _SHOWN
    named = f"sample{'s' if several else ''} {shown}" + (f" and {more} more" if more > 0 else "")
    return message.replace("{is}", f"{named} {'are' if several else 'is'}").replace(
        "{has}", f"{named} {'have' if several else 'has'}"
    )


def needs_recipe(found: Sequence[Finding]) -> bool:
    """Whether samples are None."""
    return any(one.code == "data-none" for one in found)
