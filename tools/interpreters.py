"""Print the path of an interpreter of each version asked for, the newest patch release first found; else this one.

usage: interpreters.py 3.11 [3.10 ...]
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path


def find(minor: str) -> str | None:
    """A CPython of this minor version that can be packaged: pyenv's, or one on PATH that is no distribution's."""
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    versions = [path for path in root.glob(f"{minor}.*") if re.fullmatch(rf"{re.escape(minor)}\.\d+", path.name)]
    versions.sort(key=lambda path: int(path.name.rpartition(".")[2]), reverse=True)
    candidates = [str(path / "bin" / "python3") for path in versions]
    on_path = shutil.which(f"python{minor}")
    return next((one for one in [*candidates, *([on_path] if on_path else [])] if _suits(one, minor)), None)


def _suits(executable: str, minor: str) -> bool:
    question = (
        "import sys, sysconfig; ask = getattr(sysconfig, 'get_default_scheme', lambda: 'posix_prefix');"
        "print(*sys.version_info[:2], sep='.', end=' '); print(ask())"
    )
    try:
        told = subprocess.run([executable, "-I", "-c", question], capture_output=True, text=True, timeout=30).stdout
    except (OSError, subprocess.TimeoutExpired):
        return False
    return told.split() == [minor, "posix_prefix"]


if __name__ == "__main__":
    for asked in sys.argv[1:]:
        print(find(asked) or getattr(sys, "_base_executable", sys.executable))
