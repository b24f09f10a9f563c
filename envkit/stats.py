"""Pure numbers: medians, an interval for a ratio, and whether something changed."""

import math
import statistics
from collections.abc import Sequence
from typing import Literal

import msgspec

Answer = Literal["same", "better", "worse", "unclear"]

# Two-sided 95 % points of Student's t for 1, 2, ... degrees of freedom. Source: any table of the distribution.
_T95 = (12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120)


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """How the second of two sets of rates relates to the first: the ratio of means, its 95 % interval, the answer."""

    ratio: float
    low: float
    high: float
    answer: Answer


def interval(rates: Sequence[float]) -> tuple[float, float] | None:
    """The 95 % interval of the mean of repeated rates, by Student's t on their logarithms; None for one alone."""
    if len(rates) < 2:
        return None
    logs = [math.log(value) for value in rates]
    half = _point95(len(logs) - 1) * math.sqrt(statistics.variance(logs) / len(logs))
    mean = statistics.fmean(logs)
    return math.exp(mean - half), math.exp(mean + half)


def compare(before: Sequence[float], after: Sequence[float], *, margin: float = 0.05) -> Change:
    """Compare two sets of repeated rates (higher is better), by Welch's interval for the difference of logarithms.

    `same` when the whole interval is within `margin` of 1, `better` or `worse` when it excludes 1 and the ratio is
    beyond the margin, else `unclear`. One repeat on either side gives no interval: unclear. The very same numbers are
    one measurement, and the same.
    """
    if list(before) == list(after):
        return Change(ratio=1.0, low=1.0, high=1.0, answer="same")
    a, b = [math.log(value) for value in before], [math.log(value) for value in after]
    difference = statistics.fmean(b) - statistics.fmean(a)
    if len(a) < 2 or len(b) < 2:
        return Change(ratio=math.exp(difference), low=0.0, high=math.inf, answer="unclear")
    va, vb = statistics.variance(a) / len(a), statistics.variance(b) / len(b)
    half = _t95(va, len(a), vb, len(b)) * math.sqrt(va + vb)
    low, high = math.exp(difference - half), math.exp(difference + half)
    return Change(
        ratio=math.exp(difference), low=low, high=high, answer=_answer(math.exp(difference), low, high, margin)
    )


def _t95(va: float, na: int, vb: float, nb: int) -> float:
    """The 95 % point for Welch's degrees of freedom, rounded down."""
    if va + vb == 0:
        return _T95[0]
    freedom = (va + vb) ** 2 / (va**2 / (na - 1) + vb**2 / (nb - 1))
    return _point95(max(1, int(freedom)))


def _point95(freedom: int) -> float:
    return _T95[freedom - 1] if freedom <= len(_T95) else 1.96 + 2.4 / freedom


def _answer(ratio: float, low: float, high: float, margin: float) -> Answer:
    if 1 / (1 + margin) <= low and high <= 1 + margin:
        return "same"
    if low > 1 and ratio > 1 + margin:
        return "better"
    if high < 1 and ratio < 1 / (1 + margin):
        return "worse"
    return "unclear"
