"""Locked records in, a prefix on disk out; the work is done by a child process.

rattler goes on in its own threads after an error or Ctrl-C. In a child they end with it, so that nothing writes
into a prefix that is being cleaned away.
"""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from envkit.errors import KINDS, BuildError
from envkit.progress import Step, Tell
from envkit.record import CondaRecord


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """What the child is to install. Files go to `folder` and mention `prefix`, where they will stand."""

    records: tuple[CondaRecord, ...]
    folder: str
    prefix: str
    platform: str
    specs: tuple[str, ...]
    offline: bool = False


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """An error of the child, with its kind from `errors.KINDS`."""

    kind: str
    message: str
    hint: str = ""
    details: tuple[str, ...] = ()


class Installed(msgspec.Struct, frozen=True, kw_only=True):
    """What the child says at the end."""

    link_scripts: tuple[str, ...] = ()
    clobbered: tuple[str, ...] = ()


class Line(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line of the child's answer: a step, a failure, or the end."""

    step: Step | None = None
    failure: Failure | None = None
    installed: Installed | None = None


def install(question: Question, tell: Tell) -> Installed:
    """Install records into a folder; raises the error that the child met. Link scripts are not run."""
    child = subprocess.Popen(
        [sys.executable, "-I", "-m", "envkit.engine.child"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=Path(sys.executable).parent,
    )
    try:
        lines = _talk(child, question, tell)
    finally:
        child.kill()
        child.wait()
    failure = next((line.failure for line in lines if line.failure), None)
    if failure is not None:
        raise KINDS[failure.kind](failure.message, hint=failure.hint, details=failure.details)
    installed = next((line.installed for line in lines if line.installed), None)
    if installed is None:
        said = child.stderr.read().decode(errors="replace").strip() if child.stderr else ""
        raise BuildError(f"the installer ended with status {child.returncode}", details=tuple(said.splitlines()[-5:]))
    return installed


def _talk(child: "subprocess.Popen[bytes]", question: Question, tell: Tell) -> Sequence[Line]:
    assert child.stdin is not None and child.stdout is not None
    # stdin stays open: when it ends, this process is gone, and the child leaves too.
    child.stdin.write(msgspec.json.encode(question) + b"\n")
    child.stdin.flush()
    kept = []
    for raw in child.stdout:
        line = msgspec.json.decode(raw, type=Line)
        if line.step is not None:
            tell(line.step)
        else:
            kept.append(line)
            break
    return kept
