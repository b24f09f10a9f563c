"""Names that tests share."""

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SHARED = ROOT.parent / "shared"


@contextlib.contextmanager
def control_group(controller: str, limit: str, value: int) -> Iterator[Path]:
    """The `tasks` file of a control group (version 1) with a real limit; the test is skipped where none may be made."""
    group = Path("/sys/fs/cgroup", controller, "envkit-test")
    try:
        group.mkdir(exist_ok=True)
        (group / limit).write_text(str(value))
    except OSError:
        pytest.skip(f"NO CONTROL GROUP HERE that may be made: a real {limit} needs root and version 1")
    try:
        yield group / "tasks"
    finally:
        # The last processes of the group may still be leaving.
        for _ in range(50):
            try:
                group.rmdir()
                break
            except OSError:
                time.sleep(0.1)
