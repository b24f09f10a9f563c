"""Solve every template for every Python and platform that it claims, against the snapshot of real channel metadata.

usage: coverage_table.py SNAPSHOT          prints the table and counts; exit 1 when a solution is not what was promised
"""

import json
import os
import re
import sys
from collections import Counter
from pathlib import Path

from packaging.specifiers import SpecifierSet

from envkit import compatibility, engine, template
from envkit.compatibility import CPU, Row
from envkit.errors import EnvkitError
from envkit.rules import cpu_build
from envkit.spec import Spec

SOLVED, IMPOSSIBLE, UNANSWERABLE, WRONG = "solved", "impossible", "unanswerable", "WRONG"


def cell(row: Row, python: str, platform: str, snapshot: Path, *, variants: tuple[str, ...] = ()) -> tuple[str, str]:
    """The outcome of one cell, and what was solved or why not.

    unanswerable: the snapshot has no torch build for it, so nothing can be said. impossible: it has, and still no
    set of packages fits. WRONG: solved, but not to what the template promises.
    """
    choice = template.choose(Spec(cuda=row.cuda, python=python, variants=variants))
    try:
        records = engine.solve(
            choice.environment.spec_texts,
            channels=[one for one in choice.environment.channels if one != "nodefaults"],
            platform=platform,
            virtual_packages=compatibility.target_packages(platform, row.cuda),
        )
    except EnvkitError as error:
        # A spec without any record at all, or no torch build: a hole of the snapshot, not an answer.
        known = "match no package" not in error.message and _torch_builds(row, python, platform, snapshot)
        return (IMPOSSIBLE if known else UNANSWERABLE), (error.details or (error.message,))[0]
    held = {one.name: one for one in records}
    wrong = [] if row.cuda == CPU or platform.startswith("osx") else list(cpu_build.offenders(records))
    if not held["python"].version.startswith(f"{python}."):
        wrong.append(f"python {held['python'].version}")
    wrong += _unpaired(held) + _off_row(row, held["pytorch"].version, held["pytorch"].build)
    return (WRONG, ", ".join(wrong)) if wrong else (SOLVED, f"{held['pytorch'].version} {held['pytorch'].build}")


def _unpaired(held: dict) -> list[str]:  # type: ignore[type-arg]
    pair = compatibility.pair_for(held["pytorch"].version)
    if pair is None or "torchvision" not in held:
        return []
    same = held["torchvision"].version.split(".")[:2] == pair.torchvision.split(".")[:2]
    return [] if same else [f"torchvision {held['torchvision'].version} beside torch {held['pytorch'].version}"]


def _off_row(row: Row, version: str, build: str) -> list[str]:
    """A torch that the row does not speak of: its GPUs and its driver hold for these versions and this CUDA only."""
    number = re.escape(row.cuda).replace(r"\.", r"\.?")
    wrong = [] if SpecifierSet(row.torch).contains(version) else [f"torch {version}: the row says {row.torch}"]
    return wrong + ([] if row.cuda == CPU or re.search(rf"cuda{number}", build) else [f"torch is built as {build}"])


def _torch_builds(row: Row, python: str, platform: str, snapshot: Path) -> list[str]:
    """The builds of pytorch in the snapshot for a Python and a CUDA."""
    path = snapshot / row.channel / platform / "repodata.json"
    if not path.exists():
        return []
    index = json.loads(path.read_text())
    tag = rf"py{python.replace('.', '')}(?!\d)|py{re.escape(python)}_"
    flavour = "cpu" if row.cuda == CPU else rf"cuda{row.cuda.replace('.', '')}|cuda{re.escape(row.cuda)}"
    records = [*index.get("packages", {}).values(), *index.get("packages.conda", {}).values()]
    return [
        one["build"]
        for one in records
        if one["name"] == "pytorch" and re.search(tag, one["build"]) and re.search(flavour, one["build"])
    ]


def table(snapshot: Path) -> tuple[list[str], Counter]:  # type: ignore[type-arg]
    """The lines of the table, and the count of each outcome."""
    os.environ["CONDA_CHANNEL_ALIAS"] = snapshot.resolve().as_uri()
    counted: Counter[str] = Counter()
    lines = ["| template | platform | solved (torch) | impossible | the snapshot cannot say |", "|---|---|---|---|---|"]
    for row in compatibility.facts().templates:
        for platform in row.platforms:
            found = {python: cell(row, python, platform, snapshot) for python in row.python}
            counted.update(outcome for outcome, _ in found.values())
            solved = [f"{p} ({told.split(' ')[0]})" for p, (outcome, told) in found.items() if outcome == SOLVED]
            rest = [
                ", ".join(p for p, (outcome, _) in found.items() if outcome == one)
                for one in (IMPOSSIBLE, UNANSWERABLE)
            ]
            wrong = "; ".join(f"{p}: WRONG {told}" for p, (outcome, told) in found.items() if outcome == WRONG)
            lines.append(f"| {row.file} | {platform} | {', '.join(solved)} {wrong} | {rest[0]} | {rest[1]} |")
    return lines, counted


def main(snapshot: Path) -> int:
    """Print the table."""
    lines, counted = table(snapshot)
    print("\n".join(lines))
    print("\n" + ", ".join(f"{count} {outcome}" for outcome, count in sorted(counted.items())))
    sys.stdout.flush()
    return 1 if counted[WRONG] else 0


if __name__ == "__main__":
    # No ordinary exit: rattler's threads sometimes crash an interpreter that shuts down.
    os._exit(main(Path(sys.argv[1])))
