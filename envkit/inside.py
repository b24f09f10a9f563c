"""Asking the payload inside a target interpreter: each way to die is told apart and costs one step only."""

import contextlib
import os
import queue
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import msgspec

from envkit import host, places
from envkit.errors import BrokenEnvironmentError
from envkit.report import Death, DeathKind

Event = Mapping[str, Any]


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """The interpreter to ask, the activated variables to ask it in, and its prefix if it is a conda environment's."""

    python: Path
    environ: Mapping[str, str]
    prefix: Path | None = None
    name: str | None = None


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """How long one step may take, in seconds; the first one includes the start of the interpreter."""

    step_s: float = 120.0
    start_s: float = 120.0


def ask(
    python: Path,
    question: Mapping[str, Any],
    *,
    environ: Mapping[str, str],
    on_event: Callable[[Event], None],
    limits: Limits,
    reply: Callable[[], Mapping[str, Any] | None] | None = None,
) -> Death | None:
    """Run the payload to its end, handing on each event; the death it died, or None.

    `reply` gives the next question when the payload asks for one, None where there is no other.

    Raises BrokenEnvironmentError where the interpreter cannot even say hello.
    """
    kills_before = host.oom_kills()
    with tempfile.TemporaryFile() as stderr, _payload() as payload:
        child = _start([str(python), "-I", str(payload)], environ, stderr)
        _say(child, question)
        steps = _Steps(on_event, lambda: _say(child, reply() if reply is not None else None))
        try:
            finished = _read(child, steps, limits)
        finally:
            _kill_group(child, steps.ended)
        if steps.hello is False:
            raise BrokenEnvironmentError(
                f"{python}: the interpreter cannot start ({_how(child.returncode)})", details=_tail(stderr)
            )
        if steps.unsupported is not None:
            return Death(at=steps.current, kind="unsupported-python", detail=steps.unsupported)
        if steps.ended:
            return None
        kind, detail = _verdict(child.returncode, finished, kills_before)
        return Death(at=steps.current, kind=kind, detail=detail, said=_tail(stderr))


class _Steps:
    """Which step the payload is at."""

    def __init__(self, on_event: Callable[[Event], None], on_next: Callable[[], None]) -> None:
        self._on_event, self._on_next = on_event, on_next
        self.hello, self.ended = False, False
        self.current = "start"
        self.unsupported: str | None = None

    def take(self, event: Event) -> None:
        match event["event"]:
            case "hello":
                self.hello = True
            case "end":
                self.ended = True
            case "next":
                self._on_next()
            case "unsupported":
                self.unsupported = f"the payload needs Python {'.'.join(map(str, event['minimum']))} or newer"
            case "start":
                self.current = event["id"]
                self._on_event(event)
            case _:
                self._on_event(event)


@contextlib.contextmanager
def _payload() -> Iterator[Path]:
    """A copy of the payload: the target compiles what it imports beside it, and envkit's own files stay as they are."""
    with tempfile.TemporaryDirectory(prefix="envkit-payload-") as folder:
        copied = Path(folder, "payload")
        shutil.copytree(places.payload(), copied, ignore=shutil.ignore_patterns("__pycache__"))
        yield copied


def _start(command: Sequence[str], environ: Mapping[str, str], stderr: IO[bytes]) -> "subprocess.Popen[bytes]":
    try:
        return subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            env=dict(environ),
            cwd=tempfile.gettempdir(),
            start_new_session=True,
        )
    except OSError as error:
        raise BrokenEnvironmentError(f"{command[0]}: the interpreter cannot start: {error.strerror}") from error


def _say(child: "subprocess.Popen[bytes]", question: Mapping[str, Any] | None) -> None:
    """A question as one line, or the end of questions."""
    assert child.stdin is not None
    with contextlib.suppress(BrokenPipeError):
        if question is None:
            child.stdin.close()
            return
        child.stdin.write(msgspec.json.encode(question) + b"\n")
        child.stdin.flush()


def _read(child: "subprocess.Popen[bytes]", steps: _Steps, limits: Limits) -> bool:
    """Take events until the payload's stdout ends; False when a step took too long."""
    lines: queue.Queue[bytes | None] = queue.Queue()
    assert child.stdout is not None
    threading.Thread(target=_pump, args=(child.stdout, lines), daemon=True).start()
    allowed = limits.start_s
    while True:
        deadline = time.monotonic() + allowed
        try:
            line = lines.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            return False
        if line is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(timeout=10)
            return True
        steps.take(msgspec.json.decode(line))
        allowed = limits.step_s
        if steps.ended:
            return True


def _pump(stream: IO[bytes], lines: "queue.Queue[bytes | None]") -> None:
    for line in stream:
        lines.put(line)
    lines.put(None)


def _kill_group(child: "subprocess.Popen[bytes]", ended: bool) -> None:
    """End the payload and every worker that it left."""
    if hasattr(os, "killpg"):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if child.poll() is None:
                if not ended:
                    # It ends its own children, which are in groups of their own.
                    child.terminate()
                # A payload that has said its last word is given a moment to leave by itself.
                with contextlib.suppress(subprocess.TimeoutExpired):
                    child.wait(timeout=4)
            os.killpg(child.pid, signal.SIGKILL)
    else:
        child.kill()
    child.wait()
    for pipe in (child.stdin, child.stdout):
        if pipe is not None:
            with contextlib.suppress(BrokenPipeError):
                pipe.close()


def _verdict(status: int, finished: bool, kills_before: int | None) -> tuple[DeathKind, str]:
    if not finished:
        return "timeout", "it took too long and was ended"
    kills = host.oom_kills()
    if status == -signal.SIGKILL and kills is not None and kills_before is not None and kills > kills_before:
        return "out-of-memory", "the kernel killed it for memory"
    return ("signal" if status < 0 else "exit"), _how(status)


def _how(status: int) -> str:
    if status < 0:
        try:
            return f"killed by {signal.Signals(-status).name}"
        except ValueError:
            return f"killed by signal {-status}"
    return f"exit status {status}"


def _tail(stderr: IO[bytes]) -> tuple[str, ...]:
    stderr.seek(0, os.SEEK_END)
    stderr.seek(max(0, stderr.tell() - 4000))
    return tuple(line for line in stderr.read().decode(errors="replace").splitlines() if line.strip())[-8:]
