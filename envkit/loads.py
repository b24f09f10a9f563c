"""What a running loader uses, and what limits it: the records that the benchmark and the tuner share."""

from collections.abc import Mapping

import msgspec


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """What a loader's processes used while so many batches came. Seconds, bytes.

    `pss_bytes` and `uss_bytes` are those of all workers at the beginning and at the end; `pressure_s` is how long
    something on the machine waited for cpu, io or memory.
    """

    batches: int
    main_cpu_s: float
    workers_cpu_s: float
    main_switches: int
    workers_switches: int
    disk_read_bytes: int
    pss_bytes: tuple[int, int]
    uss_bytes: tuple[int, int]
    worker_threads: int
    open_files: int | None
    worker_open_files: int
    shm_bytes: int | None
    pressure_s: Mapping[str, float]

    @property
    def grown_bytes(self) -> int:
        """How much more the workers hold for themselves at the end than at the beginning."""
        return self.uss_bytes[1] - self.uss_bytes[0]


class Limit(msgspec.Struct, frozen=True, kw_only=True):
    """The most that can be had, in samples per second, and what sets it."""

    samples_per_s: float
    by: str
