"""A CPU build where a CUDA build was asked for.

It solves without an error where CPU builds are newer, or where there is no CUDA build for the Python asked for.
Sources: conda-forge/pytorch-cpu-feedstock#364, conda/conda#14761, pyg-team/pytorch_geometric#8948.
"""

import re
from collections.abc import Iterable
from typing import Protocol

PACKAGES = ("pytorch", "libtorch", "torchvision", "torchaudio")


class HasBuild(Protocol):
    """Anything with a name, a version and a build string."""

    @property
    def name(self) -> str: ...
    @property
    def version(self) -> str: ...
    @property
    def build(self) -> str: ...


def is_cuda(build: str) -> bool:
    """Whether a build string of the torch family is CUDA's: `py3.11_cuda11.8_..`, `py311_cu118`, `cuda_py312_..`."""
    return re.search(r"cuda|cu_?\d", build) is not None


def offenders(records: Iterable[HasBuild]) -> tuple[str, ...]:
    """The torch packages among `records` that are CPU builds, each as `name version build`."""
    return tuple(
        f"{one.name} {one.version} {one.build}" for one in records if one.name in PACKAGES and not is_cuda(one.build)
    )
