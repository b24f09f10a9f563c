"""A report in a few lines."""

import statistics
from collections import Counter, defaultdict

from envkit.report import Report


def lines(report: Report) -> tuple[str, ...]:
    """Versions, outcomes of the probes, rates of the benchmark, and whatever died."""
    return (*_versions(report), *_cells(report), *_rates(report), *_problems(report))


def _versions(report: Report) -> list[str]:
    return ["  ".join(f"{name} {version}" for name, version in sorted(report.versions.items()))]


def _cells(report: Report) -> list[str]:
    if not report.cells:
        return []
    counted = Counter(cell.kind for cell in report.cells.values())
    parts = ", ".join(f"{count} {kind}" for kind, count in sorted(counted.items()))
    return [f"{len(report.cells)} probe cells recorded: {parts} (an error is an outcome too: diff compares them)"]


def _rates(report: Report) -> list[str]:
    rates: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for point in report.points:
        if point.samples_per_s is not None:
            rates[point.workload][point.workers].append(point.samples_per_s)
    return [
        f"{workload}: samples/s by num_workers: "
        + ", ".join(f"{workers}: {statistics.median(values):.0f}" for workers, values in sorted(counts.items()))
        for workload, counts in sorted(rates.items())
    ]


def _problems(report: Report) -> list[str]:
    told = [
        f"{name}: {module.state}: {module.error.message if module.error else ''}".rstrip(": ")
        for name, module in sorted(report.interpreter.modules.items())
        if module.state in ("broken", "killed")
    ]
    told += [f"{death.at}: {death.detail}" for death in report.deaths]
    return told + [f"benchmark {name} was not measured: {why}" for name, why in sorted(report.unmeasured.items())]
