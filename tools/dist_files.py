"""Check that the wheel and the sdist hold what they must, and nothing that they must not."""

import sys
import tarfile
import zipfile
from pathlib import Path

WANTED = (
    "envkit/py.typed",
    "envkit/_templates/compatibility.yml",
    "envkit/_templates/conda-forge-cpu.yml",
    "envkit/data/pypi-names.json",
    "envkit/data/rules.yml",
    "envkit/payload/__main__.py",
    "envkit/payload/fixtures/i16.png",
    "envkit/payload/probes/collate.py",
    "envkit/transitions.yml",
    "envkit/cli/create_command.py",
)
SOURCES = ("templates/compatibility.yml", "README.md", "LICENSE", "Makefile", "tests/conftest.py", "tools/demo.sh")


def main(folder: Path) -> int:
    """Look into dist/; the exit status tells whether all is well."""
    wheel = next(folder.glob("*.whl"))
    sdist = next(folder.glob("*.tar.gz"))
    with zipfile.ZipFile(wheel) as opened, tarfile.open(sdist) as unrolled:
        in_wheel = opened.namelist()
        in_sdist = [name.partition("/")[2] for name in unrolled.getnames()]
    problems = [f"{wheel.name} lacks {name}" for name in WANTED if name not in in_wheel]
    problems += [f"{wheel.name} holds {name}" for name in in_wheel if "__pycache__" in name or name.startswith("tests")]
    problems += [f"{sdist.name} lacks {name}" for name in SOURCES if name not in in_sdist]
    print("\n".join(problems) or f"{wheel.name}: {len(in_wheel)} files; {sdist.name}: {len(in_sdist)} files")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(Path("dist")))
