"""Names of one project on both sides: what the package index calls it and what conda channels call it.

The table holds the exceptions only; every other name is the same on both sides. It is the mapping that
conda-lock falls back to when its online one cannot be reached.
"""

import functools
import json
import re

from envkit import places


def canonical(name: str) -> str:
    """PEP 503 normal form."""
    return re.sub(r"[-_.]+", "-", name).lower()


@functools.cache
def _table() -> dict[str, str]:
    entries = json.loads(places.data("pypi-names.json").read_text(encoding="utf-8"))
    return {canonical(entry["pypi_name"]): entry["conda_name"] for entry in entries.values()}


def conda_name(pypi: str) -> str:
    """The conda package that carries this project of the package index."""
    name = canonical(pypi)
    return _table().get(name, name)
