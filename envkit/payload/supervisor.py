"""Each unit of work in a child process of its own, with a time limit and a memory limit; its process group is ended.

A child that hangs or dies costs the step that it was at: the rest is done by another child. On Linux children are
forked from this process, which has imported torch and started no thread of its own; elsewhere they are started anew.
"""

import faulthandler
import json
import os
import re
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time

MOST_DEATHS = 20
_POLL_S = 0.1
_MEMORY_EVERY_S = 0.1
_LEAVE_S = 0.3  # so long may a child that is ended early take to leave by itself


class Unit:
    """What one child does: `work(say, done)`, which tells each step's start and outcome.

    `question` starts the same work in a fresh interpreter, where children cannot be forked.
    """

    def __init__(self, id, work, question, timeout_s, most_deaths=MOST_DEATHS):
        self.id = id
        self.work = work
        self.question = question
        self.timeout_s = timeout_s
        self.most_deaths = most_deaths
        self.done = []
        self.died = []


class Limits:
    """How many children at once, how they start, and how much memory one of them may take, workers included."""

    def __init__(self, parallel=1, method=None, memory_bytes=None):
        self.parallel = max(1, parallel)
        self.method = method or ("fork" if sys.platform.startswith("linux") else "spawn")
        self.memory_bytes = memory_bytes


def run(units, limits, on_event, on_death):
    """Run all units: `on_event(unit, event)` gets what a child says, `on_death(unit, step, kind, detail)` its end."""
    waiting, running = list(units), []
    parent = os.getppid()
    restore = _leave_cleanly(running)
    try:
        while waiting or running:
            while waiting and len(running) < limits.parallel:
                running.append(_Child(waiting.pop(0), limits))
            _wait(running)
            for child in list(running):
                if not child.advance(on_event):
                    continue
                running.remove(child)
                if child.unit_goes_on(on_death):
                    waiting.insert(0, child.unit)
            if os.getppid() != parent:
                break
    finally:
        for child in running:
            child.end()
        restore()


def _wait(running):
    """Until a child says something or ends, but no longer than the limits may go unwatched."""
    if os.name == "posix":
        select.select([child.out for child in running if not child.silent], [], [], _POLL_S)
    else:
        time.sleep(_POLL_S)


def _leave_cleanly(running):
    """On SIGTERM end the children first: they are in process groups of their own."""
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "SIGTERM"):
        return lambda: None

    def leave(number, frame):
        for child in running:
            child.end()
        os._exit(128 + number)

    previous = signal.signal(signal.SIGTERM, leave)
    return lambda: signal.signal(signal.SIGTERM, previous)


class _Child:
    """A running child: what it said so far, and its deadline."""

    def __init__(self, unit, limits):
        self.unit = unit
        self.limits = limits
        self.step = None
        self.ended = False
        self.silent = False
        self.verdict = None
        self.status = None
        self.lines = []
        self._rest = b""
        self._stacks = tempfile.TemporaryFile()
        start = _forked if limits.method == "fork" else _started
        self.pid, self.out, self._process = start(unit, self._stacks)
        os.set_blocking(self.out, False)
        self._deadline = time.monotonic() + unit.timeout_s
        self._next_weighing = 0.0

    def advance(self, on_event):
        """Take what was said; True once the child is over."""
        over = self._over()
        self._read()
        for event in self._take():
            on_event(self.unit, event)
        if self.ended or over:
            self.end()
            return True
        self.verdict = self._overrun()
        if self.verdict is not None:
            self.end()
            return True
        return False

    def _read(self):
        while True:
            try:
                data = os.read(self.out, 1 << 16)
            except OSError:
                return  # nothing more for now
            if not data:
                self.silent = True
                return
            self._rest += data
            *lines, self._rest = self._rest.split(b"\n")
            self.lines += lines

    def _take(self):
        lines, self.lines = self.lines, []
        for line in lines:
            event = json.loads(line.decode())
            self._deadline = time.monotonic() + self.unit.timeout_s
            if event["event"] == "start":
                self.step = event["id"]
                yield event
            elif event["event"] == "end":
                self.ended = True
            elif event["event"] == "done":
                self.unit.done.append(event["id"])
                self.step = None
            elif event["event"] not in ("hello", "unsupported"):
                yield event

    def _over(self):
        if self._process is not None:
            self.status = self._process.poll()
            return self.status is not None
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        if pid == 0:
            return False
        self.status = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
        return True

    def _overrun(self):
        now = time.monotonic()
        if now > self._deadline:
            return "timeout"
        if not self.limits.memory_bytes or now < self._next_weighing:
            return None
        held = group_memory(self.pid)
        # Where there are many processes this takes long, and what is measured shall not feel it.
        self._next_weighing = now + max(_MEMORY_EVERY_S, 50 * (time.monotonic() - now))
        return "out-of-memory" if held > self.limits.memory_bytes else None

    def unit_goes_on(self, on_death):
        """Tell a death; whether another child should do what is left of the unit."""
        if self.ended:
            return False
        self.unit.died.append(self.step)
        kind = self.verdict or ("signal" if (self.status or 0) < 0 else "exit")
        on_death(self.unit, self.step, kind, self._detail(kind))
        if self.step is None:
            return False
        self.unit.done.append(self.step)
        return len(self.unit.died) < self.unit.most_deaths

    def _detail(self, kind):
        if kind == "timeout":
            where = self._where()
            return "it took too long and was ended" + (", at " + where if where else "")
        if kind == "out-of-memory":
            return "it took more than %d MiB and was ended" % (self.limits.memory_bytes >> 20)
        if kind == "signal":
            return "killed by %s" % _signal_name(-self.status)
        return "exit status %s" % self.status

    def _where(self):
        """The innermost frame that is the user's, or any, from faulthandler's stacks: `file.py:3, in f`."""
        self._stacks.seek(0)
        text = self._stacks.read().decode(errors="replace")
        frames = re.findall(r'^\s*File "(/[^"]+)", line (\d+) in (.+)$', text, re.MULTILINE)
        here = os.path.dirname(os.path.abspath(__file__))
        own = [frame for frame in frames if "/lib/python" not in frame[0] and not frame[0].startswith(here)]
        return "%s:%s, in %s" % (os.path.basename((own or frames)[0][0]), *(own or frames)[0][1:]) if frames else ""

    def end(self):
        """End the child and whatever it left in its process group."""
        if self.out is None:
            return
        if self.verdict == "timeout" and hasattr(signal, "SIGUSR1"):
            # One after the other: they write their stacks to one file.
            for pid in members(self.pid) or [self.pid]:
                _send(os.kill, pid, signal.SIGUSR1)
                time.sleep(0.05)
        self._let_leave()
        self._let_trackers_clean_up()
        self._kill()
        if self._process is not None:
            self._process.wait()
        elif self.status is None:
            os.waitpid(self.pid, 0)
        os.close(self.out)
        self.out = None

    def _let_leave(self):
        """A child killed while the C library makes a semaphore for it would leave a file in /dev/shm."""
        if self._process is not None or self.status is not None or self.ended or self.verdict == "out-of-memory":
            return
        _send(os.kill, self.pid, signal.SIGTERM)
        deadline = time.monotonic() + _LEAVE_S
        while not self._over() and time.monotonic() < deadline:
            time.sleep(0.005)

    def _let_trackers_clean_up(self):
        """multiprocessing's tracker removes what spawned workers left in /dev/shm once all the others are gone."""
        processes = members(self.pid)
        trackers = [pid for pid in processes if b"resource_tracker" in _command(pid)]
        if not trackers:
            return
        for pid in processes:
            if pid not in trackers:
                _send(os.kill, pid, signal.SIGKILL)
        deadline = time.monotonic() + 2
        while time.monotonic() < deadline and any(b"resource_tracker" in _command(pid) for pid in trackers):
            time.sleep(0.01)

    def _kill(self):
        if hasattr(os, "killpg"):
            _send(os.killpg, self.pid, signal.SIGKILL)
        elif self._process is not None:
            self._process.kill()


def _send(kill, pid, number):
    try:
        kill(pid, number)
    except (ProcessLookupError, PermissionError):
        pass


def _signal_name(number):
    try:
        return signal.Signals(number).name
    except ValueError:
        return "signal %d" % number


def _forked(unit, stacks):
    reading, writing = os.pipe()
    pid = os.fork()
    if pid:
        # Both sides set it: neither may be later than the first signal to the group.
        try:
            os.setpgid(pid, pid)
        except OSError:
            pass
        os.close(writing)
        return pid, reading, None
    status = 70
    try:
        os.setpgid(0, 0)
        _leave_between_calls()
        os.close(reading)
        _die_with_parent()
        show_stacks(stacks)
        serve(unit.work, writing, unit.done)
        status = 0
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        # No clean-up of this process: what it inherited is its parent's.
        os._exit(status)


def _leave_between_calls():
    """On SIGTERM leave as soon as no call into C is under way; what is forked from here ends by it as usual."""
    signal.signal(signal.SIGTERM, lambda number, frame: os._exit(128 + number))
    os.register_at_fork(after_in_child=lambda: signal.signal(signal.SIGTERM, signal.SIG_DFL))


def _die_with_parent():
    """On Linux the kernel ends this child if its parent is killed outright."""
    if sys.platform.startswith("linux"):
        import ctypes

        ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def show_stacks(file):
    """On SIGUSR1 write the stacks of all threads; workers forked from here do the same."""
    if hasattr(faulthandler, "register"):
        faulthandler.register(signal.SIGUSR1, file=file, all_threads=True)


def serve(work, writing, done):
    """In the child: run the work, and write each event whole."""

    def say(**event):
        data = json.dumps(event, allow_nan=False).encode() + b"\n"
        while data:
            data = data[os.write(writing, data) :]

    work(say, frozenset(done))
    say(event="end")


def _started(unit, stacks):
    """A fresh interpreter that runs the payload with the unit's question."""
    process = subprocess.Popen(
        [sys.executable, "-I", os.path.dirname(os.path.abspath(__file__))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=hasattr(os, "setsid"),
    )
    process.stdin.write(json.dumps(dict(unit.question, done=unit.done, died=unit.died)).encode())
    process.stdin.close()
    # A descriptor of our own: the file object would close its number once more, when it may be another file's.
    out = os.dup(process.stdout.fileno())
    process.stdout.close()
    return process.pid, out, process


def members(group):
    """The processes of a group, the youngest first; none where /proc does not tell."""
    found = []
    try:
        names = [name for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return []
    for name in names:
        try:
            with open("/proc/%s/stat" % name, "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
        except OSError:
            continue
        if int(fields[2]) == group:
            found.append(int(name))
    return sorted(found, reverse=True)


def _command(pid):
    """The command line of a process; empty for one that is gone or not yet waited for."""
    try:
        with open("/proc/%d/cmdline" % pid, "rb") as file:
            return file.read()
    except OSError:
        return b""


def group_memory(group):
    """Bytes that the processes of a group hold for themselves; 0 where unknown."""
    return sum(map(own_memory, members(group)))


def peak_memory():
    """Bytes that this process held at its peak; 0 where unknown."""
    try:
        with open("/proc/self/status", "rb") as file:
            found = re.search(rb"^VmHWM:\s*(\d+) kB", file.read(), re.MULTILINE)
    except OSError:
        return 0
    return int(found.group(1)) * 1024 if found else 0


def own_memory(pid):
    """Bytes that a process holds for itself: resident and not shared."""
    try:
        with open("/proc/%d/statm" % pid, "rb") as file:
            _, resident, shared = (int(part) for part in file.read().split()[:3])
    except (OSError, ValueError):
        return 0
    return (resident - shared) * os.sysconf("SC_PAGE_SIZE")
