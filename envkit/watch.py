"""A running training job in, a verdict out: looked at from outside, with its DataLoader workers."""

import contextlib
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType

import msgspec

from envkit import driver, host, processes, verdict, watching
from envkit.errors import InputError
from envkit.processes import Doing, Process
from envkit.verdict import Ending, Machine, Verdict
from envkit.watching import Sample, Slow, Summary, Worker

EVERY_S = 0.2
_SLOW_S = 1.0
_FIND_S = 1.0
_STACK_S = 1.5
_PATIENCE_S = 10.0
_MOST_SAMPLES = 36000
"""Two hours; after that every other sample is left out, and again."""

Show = Callable[[Sample], None]


class Stack(msgspec.Struct, frozen=True, kw_only=True):
    """A thread of a process that hangs, the innermost frame first: `file.py:12, in function`."""

    pid: int
    thread: str
    frames: tuple[str, ...]


class Watched(msgspec.Struct, frozen=True, kw_only=True):
    """What was seen. `cost_cores` is what watching itself took; `status` the command's, None for one that goes on."""

    pid: int
    verdicts: tuple[Verdict, ...]
    summary: Summary
    samples: tuple[Sample, ...]
    stacks: tuple[Stack, ...] = ()
    notes: tuple[str, ...] = ()
    status: int | None = None
    interrupted: bool = False
    cost_cores: float = 0.0


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """How long to watch (None: to the end), and after how many seconds without any sign of life it is a hang."""

    duration_s: float | None = None
    hang_s: float = 20.0


class Job:
    """A process to watch: one that runs, or a command of ours, which is ended with us."""

    def __init__(self, pid: int, child: "subprocess.Popen[bytes] | None" = None) -> None:
        self.pid, self._child = pid, child

    def __enter__(self) -> "Job":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._child is not None and self._child.poll() is None:
            self.end()

    def over(self) -> bool:
        """Whether it has ended."""
        if self._child is not None:
            return self._child.poll() is not None
        seen = processes.look(self.pid)
        return seen is None or seen.state == "Z"

    @property
    def status(self) -> int | None:
        """The exit status of a command that has ended."""
        return self._child.poll() if self._child is not None else None

    @property
    def ours(self) -> bool:
        """Whether it is a command of ours."""
        return self._child is not None

    def end(self) -> None:
        """Ask the command to end, then end it with all that descend from it."""
        assert self._child is not None
        family = processes.tree(self.pid)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._child.terminate()
            self._child.wait(timeout=_PATIENCE_S)
        for pid in family:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        self._child.wait()


def attach(pid: int) -> Job:
    """A process that runs already; raises InputError where there is none."""
    if processes.look(pid) is None:
        raise InputError(f"--pid {pid}: no such process here", hint="ps -ef | grep python shows them")
    return Job(pid)


def start(words: Sequence[str], environ: Mapping[str, str], *, stdout_is_ours: bool) -> Job:
    """Start a command; what it prints goes to stderr where stdout is for the record."""
    program = shutil.which(words[0], path=environ.get("PATH"))
    if program is None:
        raise InputError(f"{words[0]}: no such program")
    out = sys.stderr.fileno() if stdout_is_ours else None
    child = subprocess.Popen([program, *words[1:]], env=dict(environ), stdout=out)
    return Job(child.pid, child)


def watch(job: Job, plan: Plan, *, show: Show = lambda sample: None) -> Watched:
    """Look at a job until it ends, until the time is up, until it hangs (a command of ours), or until Ctrl-C."""
    with _Eye(job) as eye:
        interrupted = False
        try:
            _follow(job, plan, eye, show)
        except KeyboardInterrupt:
            interrupted = True
        return eye.answer(plan, interrupted=interrupted)


def _follow(job: Job, plan: Plan, eye: "_Eye", show: Show) -> None:
    # Looks at even intervals could always meet a step of the job at the same place.
    uneven = random.Random(0)
    while not job.over():
        sample = eye.look()
        if sample is not None:
            show(sample)
            if plan.duration_s is not None and sample.at_s >= plan.duration_s:
                return
            if eye.hangs(plan.hang_s):
                return
        time.sleep(EVERY_S * uneven.uniform(0.7, 1.3))


class _Eye:
    """What was seen so far, and the counters of the last look."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._begun = time.monotonic()
        self._cost = time.process_time()
        self._kills = host.oom_kills()
        self._machine = host.usable_cores()
        self._meter = driver.Meter(EVERY_S)
        self._spy = _spy()
        self._spying_s = 0.0
        self._commands: dict[int, str] = {}
        self._family: tuple[int, ...] = ()
        self._main = job.pid
        self._workers: tuple[int, ...] = ()
        self._last: dict[int, tuple[float, Process]] = {}
        self._cores: tuple[tuple[float, float], ...] = ()
        self._pinned: tuple[float, float] | None = None
        self._affinities: list[int] = []
        self._next_find = self._next_slow = 0.0
        self._next_stack = _STACK_S
        self.samples: list[Sample] = []

    def __enter__(self) -> "_Eye":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._meter.close()

    def look(self) -> Sample | None:
        """One sample; None where the job has just gone, or no interval has passed yet."""
        at = time.monotonic() - self._begun
        if at >= self._next_find:
            self._next_find = at + _FIND_S
            self._find()
        main = self._use(self._main)
        workers = [(pid, self._use(pid)) for pid in self._workers]
        if main is None:
            return None
        slow = self._slow(at) if at >= self._next_slow else None
        busy = self._busy()
        sample = Sample(
            at_s=round(at, 3),
            main_cores=round(main, 3),
            main_doing=processes.doing(self._main),
            workers=tuple(self._worker(pid, cores, slow is not None) for pid, cores in workers if cores is not None),
            cores=busy,
            gpus=self._meter.read(),
            slow=slow,
        )
        self.samples.append(sample)
        if len(self.samples) > _MOST_SAMPLES:
            del self.samples[1::2]
        return sample

    def _find(self) -> None:
        """The main process and its workers: of several that have workers, the one with the most; else the busiest."""
        family = processes.tree(self._job.pid)
        # A process that was just forked shows its parent's command line until it runs its own program.
        lasting = [pid for pid in family if pid in self._family]
        self._family = family
        seen = [one for pid in lasting if (one := processes.look(pid)) is not None]
        self._commands = {one.pid: self._commands.get(one.pid) or processes.command(one.pid) for one in seen}
        owners = {one.pid: processes.worker_of(one, self._commands) for one in seen}
        counted = Counter(owner for owner in owners.values() if owner is not None)
        if counted:
            self._main = counted.most_common(1)[0][0]
        elif seen:
            self._main = max(seen, key=lambda one: one.cpu_s).pid
        self._workers = tuple(pid for pid, owner in owners.items() if owner is not None and owner == self._main)

    def _use(self, pid: int) -> float | None:
        """Cores that a process used since the last look; None for one that is gone or new."""
        now, seen = time.monotonic(), processes.look(pid)
        before = self._last.get(pid)
        if seen is None or seen.state == "Z":
            self._last.pop(pid, None)
            return None
        self._last[pid] = (now, seen)
        if before is None or before[1].started != seen.started or now <= before[0]:
            return None
        return (seen.cpu_s - before[1].cpu_s) / (now - before[0])

    def _worker(self, pid: int, cores: float, closely: bool) -> Worker:
        threads = processes.running_threads(pid) if closely else None
        return Worker(pid=pid, cores=round(cores, 3), doing=processes.doing(pid), running_threads=threads)

    def _busy(self) -> tuple[float, ...]:
        """The share of each core that was busy since the last look."""
        before, self._cores = self._cores, processes.core_times()
        if len(before) != len(self._cores):
            return ()
        pairs = zip(before, self._cores, strict=True)
        return tuple(round((new[0] - old[0]) / max(0.01, new[1] - old[1]), 2) for old, new in pairs)

    def _slow(self, at: float) -> Slow | None:
        begun = time.process_time()
        held = [one for pid in (self._main, *self._workers) if (one := processes.holdings(pid)) is not None]
        used = processes.shm()
        self._affinities.append(len(frozenset().union(*map(processes.affinity, self._workers))))
        slow = Slow(
            pss_bytes=sum(one.pss_bytes for one in held),
            workers_own_bytes=sum(one.own_bytes for one in held[1:]),
            open_files=max((one.files for one in held), default=0),
            open_files_limit=min((one.files_limit for one in held if one.files_limit), default=None),
            disk_read_bytes=sum(one.read_bytes for one in held),
            network_bytes=processes.network_bytes(),
            shm_bytes=used[0] if used else None,
            shm_limit_bytes=used[1] if used else None,
            pressure_s=_pressures(),
            pinning_cores=self._pinning(at),
            loading_in_main=self._loading(at),
        )
        # Looking at the memory of large processes takes long: then it is done less often.
        self._next_slow = at + max(_SLOW_S, 100 * (time.process_time() - begun))
        return slow

    def _pinning(self, at: float) -> float | None:
        spent = processes.pinning_cpu_s(self._main)
        before, self._pinned = self._pinned, (at, spent) if spent is not None else None
        if before is None or spent is None or at <= before[0]:
            return None
        return max(0.0, spent - before[1]) / (at - before[0])

    def _loading(self, at: float) -> float | None:
        """Whether the main process is in its DataLoader, by its stack; only asked where it has no workers."""
        if self._spy is None or self._workers or at < self._next_stack:
            return None
        self._next_stack = at + _STACK_S
        before = _children_s()
        stacks = _stacks(self._spy, self._main)
        self._spying_s += _children_s() - before
        main = next((one for one in stacks if one.thread == "MainThread"), None)
        if main is None:
            return None
        return float(any("torch/utils/data/" in frame for frame in main.frames))

    def hangs(self, hang_s: float) -> bool:
        """Whether nothing has moved for so long."""
        last = self.samples[-1] if self.samples else None
        if last is None or last.at_s < hang_s or last.main_cores > 0.01:
            return False
        return watching.summarise(self.samples[-int(2 * hang_s / EVERY_S) :]).still_s >= hang_s

    def answer(self, plan: Plan, *, interrupted: bool) -> Watched:
        """The verdict; stacks where it hangs."""
        spent = time.process_time() - self._cost + self._spying_s + self._meter.cpu_s()
        cost = spent / max(0.001, time.monotonic() - self._begun)
        if interrupted and self._job.ours:
            self._await_end()
        seen = watching.summarise(self.samples)
        kills, before = host.oom_kills(), self._kills
        ending = Ending(
            status=None if interrupted else self._job.status,
            oom_kills=kills - before if kills is not None and before is not None else 0,
        )
        # Workers set their affinity when they begin; before and after them there is none to read.
        seen_cores = [count for count in self._affinities if count]
        machine = Machine(cores=self._machine, worker_cores=statistics.mode(seen_cores) if seen_cores else None)
        found = verdict.verdicts(seen, machine, ending, hang_s=plan.hang_s)
        hangs = any(one.name == "hang" for one in found)
        return Watched(
            pid=self._main,
            verdicts=found,
            summary=seen,
            samples=tuple(self.samples),
            stacks=self._all_stacks() if hangs else (),
            notes=self._notes(hangs),
            status=self._job.status,
            interrupted=interrupted,
            cost_cores=cost,
        )

    def _await_end(self) -> None:
        """Ctrl-C reached the command too: it may leave in its own way."""
        deadline = time.monotonic() + _PATIENCE_S
        while not self._job.over() and time.monotonic() < deadline:
            time.sleep(0.05)

    def _all_stacks(self) -> tuple[Stack, ...]:
        if self._spy is None:
            return ()
        return tuple(stack for pid in (self._main, *self._workers) for stack in _stacks(self._spy, pid))

    def _notes(self, hangs: bool) -> tuple[str, ...]:
        blind: set[Doing] = {one.main_doing for one in self.samples}
        notes = []
        if blind == {"unknown"}:
            notes.append("what the processes are at could not be seen: another user's, or ptrace is restricted")
        if self._spy is None and (hangs or not self._workers):
            notes.append("py-spy is not there, so there are no stacks: pip install py-spy (or envkit[watch])")
        return tuple(notes)


def _pressures() -> dict[str, float]:
    told = {name: processes.pressure_s(name) for name in ("cpu", "io", "memory")}
    return {name: seconds for name, seconds in told.items() if seconds is not None}


def _children_s() -> float:
    """CPU seconds of our own children that have ended."""
    told = os.times()
    return told.children_user + told.children_system


def _spy() -> str | None:
    beside = Path(sys.executable).parent / "py-spy"
    return str(beside) if beside.is_file() else shutil.which("py-spy")


class _Frame(msgspec.Struct):
    name: str
    filename: str
    line: int


class _Thread(msgspec.Struct):
    os_thread_id: int
    thread_name: str | None
    frames: list[_Frame]


def _stacks(spy: str, pid: int) -> list[Stack]:
    """The stacks of a process by py-spy; none where it is not permitted."""
    try:
        told = subprocess.run(
            [spy, "dump", "--nonblocking", "--json", "--pid", str(pid)], capture_output=True, timeout=10, check=True
        )
        threads = msgspec.json.decode(told.stdout, type=list[_Thread])
    except (OSError, subprocess.SubprocessError, msgspec.DecodeError):
        return []
    return [_stack(pid, one) for one in threads]


def _stack(pid: int, thread: _Thread) -> Stack:
    name = "MainThread" if thread.os_thread_id == pid else thread.thread_name or str(thread.os_thread_id)
    frames = tuple(f"{one.filename}:{one.line}, in {one.name}" for one in thread.frames)
    return Stack(pid=pid, thread=name, frames=frames)
