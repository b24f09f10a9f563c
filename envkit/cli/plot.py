"""A curve as text: throughput over worker counts with its interval, and the limit."""

from envkit.speed import Curve, Rate

_WIDTH = 56


def lines(curve: Curve) -> list[str]:
    """One line per worker count: a bar up to the mean, `-` over its interval, `|` at the limit where it is in sight."""
    top = max(max(rate.samples_per_s, rate.high or 0.0) for rate in curve.rates)
    limits = [rate.limit.samples_per_s for rate in curve.rates if rate.limit is not None]
    top = max([top, *(limit for limit in limits if limit < 1.5 * top)])
    shown = [f"{curve.workload}: samples/s by num_workers (- 95 % interval, | limit)"]
    return shown + [_line(rate, top) for rate in curve.rates]


def _line(rate: Rate, top: float) -> str:
    cells = [" "] * (_WIDTH + 1)
    end = _at(rate.samples_per_s, top)
    cells[:end] = "#" * end
    if rate.low is not None and rate.high is not None:
        low, high = _at(rate.low, top), _at(rate.high, top)
        cells[low : high + 1] = "-" * (high + 1 - low)
    beyond = ""
    if rate.limit is not None:
        if rate.limit.samples_per_s <= top:
            cells[_at(rate.limit.samples_per_s, top)] = "|"
        beyond = f"  {rate.share:.2f} of {rate.limit.samples_per_s:.0f} ({rate.limit.by})"
    return f"{rate.workers:>4} {''.join(cells)} {rate.samples_per_s:>8.0f}{beyond}"


def _at(value: float, top: float) -> int:
    return min(_WIDTH, round(value / top * _WIDTH))
