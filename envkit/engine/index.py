"""The index of a channel folder."""

import asyncio
from pathlib import Path


def index(folder: Path) -> None:
    """Write `repodata.json` (and its compressed forms) for every platform folder of a channel."""
    from rattler.index.index import index_fs

    # Every channel has a noarch folder, even an empty one: clients ask for it first.
    (folder / "noarch").mkdir(parents=True, exist_ok=True)
    # Without force a package that was replaced under the same name keeps its old entry.
    asyncio.run(index_fs(folder, force=True))
