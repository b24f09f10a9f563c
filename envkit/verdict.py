"""From what was seen of a training job to what holds it back: sentences, each with its evidence and the next step."""

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from envkit.watching import Summary

Name = Literal[
    "killed-by-memory-limit",
    "died",
    "hang",
    "shm",
    "open-files",
    "memory-growth",
    "one-core",
    "threads",
    "cpu-bound-loading",
    "storage",
    "too-few-workers",
    "no-workers",
    "pinning",
    "main-process",
    "host-to-device",
    "gpu-bound",
    "balanced",
    "compute-bound",
    "unclear",
]

_STARVED = 0.15
"""The main process waits for batches for more than this share of the time."""
_AHEAD = 0.5
"""Workers that wait for orders for more than this share of the time are ahead of the main process."""
_BUSY = 0.7
_GPU_BUSY = 80.0
_FULL = 0.8
_GROWN_BYTES = 48 << 20
_PCIE_SHARE = 0.6
_ENOUGH = 10
_STACKS = 5
"""So few looks at a stack say nothing of shares of time."""
_SURE_STACKS = 10
"""So many are needed before it is said that loading takes little: of five, none may meet it by chance."""


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """How the job ended, where it did: its exit status, and processes that the kernel killed for memory meanwhile."""

    status: int | None = None
    oom_kills: int = 0


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """Cores that the job may use, and those of them that its workers may."""

    cores: int
    worker_cores: int | None = None


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What holds the job back: a sentence, the figures that show it, and what to do next."""

    name: Name
    sentence: str
    evidence: tuple[str, ...]
    next: str = ""


def verdicts(seen: Summary, machine: Machine, ending: Ending, *, hang_s: float) -> tuple[Verdict, ...]:
    """What holds the job back: what ends it first, then what will, then what slows it; `unclear` where nothing fits."""
    found = [*_ends(seen, ending, hang_s), *_dangers(seen)]
    if not any(one.name == "hang" for one in found):
        slows = _slows(seen, machine)
        found += [slows] if slows is not None else []
    return tuple(found) or (_unclear(seen),)


def _unclear(seen: Summary) -> Verdict:
    told = f"{seen.samples} looks in {seen.seconds:.1f} s"
    return Verdict(name="unclear", sentence="there was too little to see", evidence=(told,), next="watch it for longer")


def _ends(seen: Summary, ending: Ending, hang_s: float) -> list[Verdict]:
    found = []
    if ending.oom_kills:
        found.append(
            Verdict(
                name="killed-by-memory-limit",
                sentence="the kernel killed a process of the job: the memory limit of its control group was reached",
                evidence=(f"oom_kill went up by {ending.oom_kills}", f"memory grew by {_mb(seen.grown_bytes)}"),
                next="ask for more memory, or use fewer workers: it is no fault of the DataLoader",
            )
        )
    elif ending.status:
        found.append(
            Verdict(
                name="died",
                sentence=f"the command ended with {_ended(ending.status)}",
                evidence=(f"after {seen.seconds:.0f} s",),
                next="its own messages say why",
            )
        )
    if seen.still_s >= hang_s:
        found.append(
            Verdict(
                name="hang",
                sentence=f"nothing has moved for {seen.still_s:.0f} s: main process and workers wait for each other",
                evidence=(_doing("main", seen.main_doing), _doing("workers", seen.workers_doing)),
                next="the stacks say where; envkit probe --dataset finds what deadlocks in workers",
            )
        )
    return found


def _ended(status: int) -> str:
    return f"signal {-status}" if status < 0 else f"exit status {status}"


def _dangers(seen: Summary) -> list[Verdict]:
    found = []
    if seen.shm_share is not None and seen.shm_share >= _FULL:
        found.append(
            Verdict(
                name="shm",
                sentence=f"/dev/shm was {seen.shm_share:.0%} full: when it is full, workers die by a bus error",
                evidence=(f"{seen.workers:.0f} workers hand their batches over through it",),
                next="docker run --shm-size=8g (or --ipc=host), fewer workers, or a smaller prefetch_factor",
            )
        )
    if seen.files_share is not None and seen.files_share >= _FULL:
        found.append(
            Verdict(
                name="open-files",
                sentence=f"{seen.files_share:.0%} of the files that a process may open were open",
                evidence=("every tensor that waits in a queue or is kept from a batch holds one",),
                next='ulimit -n 65536, torch.multiprocessing.set_sharing_strategy("file_system"), or keep no batches',
            )
        )
    if seen.growth_bytes_per_s is not None and seen.grown_bytes > _GROWN_BYTES:
        found.append(
            Verdict(
                name="memory-growth",
                sentence=f"the job's memory grows by {_mb(seen.growth_bytes_per_s)} per second",
                evidence=(f"by {_mb(seen.grown_bytes)} in the later part of {seen.seconds:.0f} s (sum of PSS)",),
                next="large lists or dicts in the dataset are copied by every worker that reads them: use arrays; "
                "look for batches or losses that are kept",
            )
        )
    return found


_TUNE = "envkit tune --dataset FILE.py:FACTORY --step-ms T"


def _slows(seen: Summary, machine: Machine) -> Verdict | None:
    if seen.samples < _ENOUGH:
        return None
    for rule in (_by_gpu, _by_link, _by_main_alone, _by_loading, _by_main, _by_compute):
        told = rule(seen, machine)
        if told is not None:
            return told
    return None


def _by_gpu(seen: Summary, machine: Machine) -> Verdict | None:
    if seen.gpu_percent is None or seen.gpu_percent < _GPU_BUSY:
        return None
    told = (f"GPU utilisation {seen.gpu_percent:.0f} %", _doing("workers", seen.workers_doing))
    return Verdict(name="gpu-bound", sentence="the GPU is busy: loading keeps up", evidence=told)


def _by_link(seen: Summary, machine: Machine) -> Verdict | None:
    if seen.received_share is None or seen.received_share < _PCIE_SHARE:
        return None
    told = (
        f"the link is used to {seen.received_share:.0%}",
        f"GPU utilisation {seen.gpu_percent or 0:.0f} %",
    )
    return Verdict(
        name="host-to-device",
        sentence="copies to the GPU hold it back",
        evidence=told,
        next="pin_memory=True with non_blocking=True; send uint8 and convert on the GPU",
    )


def _by_main_alone(seen: Summary, machine: Machine) -> Verdict | None:
    """Without workers the main process loads: its stacks tell for how long, else only that it does."""
    if seen.workers:
        return None
    told = [f"no workers, main process {seen.main_cores:.2f} cores", _doing("main", seen.main_doing)]
    if seen.loading_in_main is None or seen.stacks < _STACKS:
        if seen.gpu_percent is not None:
            return _alone("no-workers", "the GPU waits while the main process is at something else", told, seen)
        return _alone("unclear", "no workers: whether the main process loads or computes cannot be told", told, seen)
    told.append(f"{seen.loading_in_main:.0%} of {seen.stacks} looks at its stack are in the DataLoader")
    if seen.loading_in_main < _STARVED and seen.stacks < _SURE_STACKS:
        return _alone("unclear", "no workers, and too few looks at the stack to say where time goes", told, seen)
    if seen.loading_in_main < _STARVED:
        return _alone("compute-bound", "compute-bound: the main process spends little time on loading", told, seen)
    return _alone("no-workers", "the main process loads the batches itself, and computes nothing meanwhile", told, seen)


def _alone(name: Name, sentence: str, told: Sequence[str], seen: Summary) -> Verdict:
    gpu = (f"GPU utilisation {seen.gpu_percent:.0f} %",) if seen.gpu_percent is not None else ()
    return Verdict(name=name, sentence=sentence, evidence=(*told, *gpu), next=_TUNE)


def _by_loading(seen: Summary, machine: Machine) -> Verdict | None:
    """The main process waits: which of the workers' troubles is it?"""
    if not seen.workers or seen.main_waits < _STARVED:
        return None
    told = (
        f"the main process waits for batches {seen.main_waits:.0%} of the time",
        f"{seen.workers:.0f} workers, {seen.worker_cores:.2f} cores each of {machine.cores}",
        _doing("workers", seen.workers_doing),
    )
    name, cause, more, following = _loading(seen, machine)
    return Verdict(name=name, sentence=f"starved by loading: {cause}", evidence=(*told, *more), next=following)


def _loading(seen: Summary, machine: Machine) -> tuple[Name, str, tuple[str, ...], str]:
    shares = seen.workers_doing
    stored = shares.get("disk", 0.0) + shares.get("reads", 0.0) + shares.get("network", 0.0)
    used = seen.workers * seen.worker_cores
    if machine.worker_cores is not None and machine.worker_cores < min(machine.cores, seen.workers):
        more = (f"the workers may run on {machine.worker_cores} of {machine.cores} cores",)
        return (
            "one-core",
            "the workers share too few cores",
            more,
            "look for what sets their affinity",
        )
    if (seen.running_threads or 0) >= 1.6 and seen.workers * (seen.running_threads or 0) > 1.3 * machine.cores:
        more = (f"{seen.running_threads:.1f} threads of each worker want a core",)
        return "threads", "libraries start threads in every worker", more, "OMP_NUM_THREADS=1 and cv2.setNumThreads(0)"
    if stored >= 0.4 and seen.worker_cores < _BUSY:
        more = (f"disks {_mb(seen.disk_bytes_per_s)}/s, network {_mb(seen.network_bytes_per_s)}/s",)
        return (
            "storage",
            "the workers wait for storage or the network",
            more,
            f"more workers, or nearer data; {_TUNE}",
        )
    if used >= _BUSY * machine.cores or (seen.worker_cores >= _BUSY and seen.workers >= machine.cores):
        return "cpu-bound-loading", "the workers keep the cores busy", (), "cheaper transforms, or decode on the GPU"
    if shares.get("runs", 0.0) >= _BUSY > seen.worker_cores:
        cause = "the workers want a core all the time and do not get one: others use them, or a quota holds them back"
        return "cpu-bound-loading", cause, (), "see what else runs here, or ask for more cores"
    cause = (
        "each worker computes all the time, and cores are free"
        if seen.worker_cores >= _BUSY
        else ("the workers wait for each sample, one after the other")
    )
    return "too-few-workers", cause, (), _TUNE


def _by_main(seen: Summary, machine: Machine) -> Verdict | None:
    """The workers are ahead and the GPU idles: the main process is at something else."""
    if seen.gpu_percent is None or seen.gpu_percent >= 50 or not seen.workers:
        return None
    if (seen.pinning_cores or 0.0) >= _BUSY:
        told = (
            f"pinning takes {seen.pinning_cores:.2f} cores",
            f"GPU utilisation {seen.gpu_percent:.0f} %",
        )
        return Verdict(name="pinning", sentence="pinning batches holds it back", evidence=told, next="pin_memory=False")
    if seen.main_cores >= _BUSY:
        told = (f"main process {seen.main_cores:.2f} cores", f"GPU utilisation {seen.gpu_percent:.0f} %")
        sentence = "the main process computes while the GPU waits: work on batches, metrics, logging"
        return Verdict(name="main-process", sentence=sentence, evidence=told, next="move it to the workers or the GPU")
    return None


def _by_compute(seen: Summary, machine: Machine) -> Verdict | None:
    ahead = seen.workers_doing.get("queue", 0.0)
    told = (
        f"the main process waits for batches {seen.main_waits:.0%} of the time",
        f"the workers wait for orders {ahead:.0%} of the time",
        f"main process {seen.main_cores:.2f} cores",
    )
    if ahead >= _AHEAD:
        sentence = "compute-bound: batches are ready when they are wanted"
        return Verdict(name="compute-bound", sentence=sentence, evidence=told, next="fewer workers would do as well")
    sentence = "balanced: loading keeps up, with little to spare"
    return Verdict(name="balanced", sentence=sentence, evidence=told, next=_TUNE)


def _doing(who: str, shares: Mapping[str, float]) -> str:
    ranked = sorted(shares.items(), key=lambda one: -one[1])[:3]
    return f"{who}: " + (", ".join(f"{_WORDS[name]} {share:.0%}" for name, share in ranked) or "none")


_WORDS: dict[str, str] = {
    "runs": "on a core",
    "disk": "waiting for a disk",
    "queue": "waiting at a queue of the loader",
    "network": "waiting for the network",
    "reads": "reading",
    "sleeps": "asleep",
    "lock": "waiting for a lock",
    "other": "at something else",
    "unknown": "not to be seen",
}


def _mb(count: float) -> str:
    return f"{count / 1e6:.1f} MB"
