"""The plan of a benchmark: which workloads, at which worker counts, how often."""

from collections.abc import Mapping

import msgspec

REPEATS = 5
_MOST_WORKERS = 32


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Worker counts by workload, and the number of interleaved repeats."""

    workers: Mapping[str, tuple[int, ...]]
    repeats: int = REPEATS


def plan(usable_cores: int) -> Plan:
    """0, 1, 2, 4, ... up to the usable cores; for `latency`, whose samples only wait, up to four times as many."""
    up_to = _counts(usable_cores)
    beyond = [count for count in (usable_cores * 2, usable_cores * 4) if count <= max(_MOST_WORKERS, usable_cores)]
    return Plan(workers={"latency": tuple(sorted({*up_to, *beyond})), "jpeg": up_to})


def _counts(most: int) -> tuple[int, ...]:
    doubled = [1 << power for power in range(most.bit_length()) if 1 << power <= most]
    return tuple(sorted({0, *doubled, most}))
