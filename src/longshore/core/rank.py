"""One number decides order inside a queue: the smaller rank runs first.

Engines break ties by order of arrival.
"""

from enum import StrEnum

__all__ = ["HIGHEST_PRIORITY", "LOWEST_PRIORITY", "Order", "aging_rank", "strict_rank"]

HIGHEST_PRIORITY = 1
LOWEST_PRIORITY = 9

_EPOCH_US = 1_704_067_200_000_000
"""2024-01-01: keeps an arrival below 2**51 until 2095."""
_BAND = 1 << 51
_LEVEL = 1 << 52


class Order(StrEnum):
    """How a queue orders its jobs."""

    STRICT = "strict"
    """Priority first, then arrival. A flood of urgent jobs starves the others."""
    AGING = "aging"
    """A priority level is worth a fixed wait, so nothing starves."""


def strict_rank(priority: int, arrival: int, *, punctual: bool = False) -> int:
    """Priority first, then arrival; a punctual job goes ahead of its priority's others.

    A job is punctual when it was submitted for a later time. Its arrival is that time.
    """
    since = min(max(arrival - _EPOCH_US, 0), _BAND - 1)
    return priority * _LEVEL + (0 if punctual else _BAND) + since


def aging_rank(priority: int, arrival: int, *, aging: int) -> int:
    """Arrival, set back by `aging` microseconds per priority level.

    A job of priority p waits at most behind the jobs that arrived less than
    `(LOWEST_PRIORITY - HIGHEST_PRIORITY) * aging` after it.
    """
    return max(arrival - _EPOCH_US, 0) + priority * aging
