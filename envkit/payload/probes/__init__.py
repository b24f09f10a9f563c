"""The probes, in families of one module each; their modules import torch only when they run."""

from probes import (
    arrays,
    collate,
    convert,
    files,
    images,
    loaders,
    numerics,
    pillow,
    processes,
    rng,
    sampler,
    seeding,
    stores,
    workers,
)

_MODULES = (
    collate,
    convert,
    workers,
    loaders,
    stores,
    sampler,
    seeding,
    rng,
    processes,
    numerics,
    arrays,
    images,
    pillow,
    files,
)


def all_probes():
    """Every probe, in the order of the probe list."""
    return [probe for module in _MODULES for probe in module.PROBES]
