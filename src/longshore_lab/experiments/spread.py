"""Figures of many measurements."""

from collections.abc import Iterable, Sequence

import msgspec

__all__ = ["Spread", "few", "middle", "spread"]

_FEW = 20_000


class Spread(msgspec.Struct, frozen=True):
    """How measurements are spread, in the unit they were made in."""

    count: int = 0
    p50: float = 0.0
    p99: float = 0.0
    longest: float = 0.0


def spread(values: Iterable[float]) -> Spread:
    """Of values in any order."""
    ordered = sorted(values)
    if not ordered:
        return Spread()
    p50, p99 = (_percentile(ordered, percent) for percent in (50, 99))
    return Spread(len(ordered), round(p50, 3), round(p99, 3), round(ordered[-1], 3))


def few(values: Sequence[float]) -> list[float]:
    """As many of them as travel well, the largest among them, spread as all are."""
    ordered = sorted(values, reverse=True)
    return [round(one, 3) for one in ordered[:: max(len(ordered) // _FEW, 1)]]


def middle(runs: Sequence[Spread]) -> Spread:
    """That of the run whose p99 is the median."""
    return sorted(runs, key=lambda one: one.p99)[len(runs) // 2]


def _percentile(ordered: Sequence[float], percent: int) -> float:
    """The smallest value that so many percent of them do not exceed."""
    return ordered[max(-(-len(ordered) * percent // 100) - 1, 0)]
