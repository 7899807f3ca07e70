"""One number decides order inside a queue: the smaller rank runs first.

Engines break ties by order of arrival.
"""

__all__ = [
    "EPOCH_US",
    "HIGHEST_PRIORITY",
    "LOWEST_PRIORITY",
    "USUAL_PRIORITY",
    "aging_rank",
    "first_ranks",
    "strict_rank",
]

HIGHEST_PRIORITY = 1
LOWEST_PRIORITY = 9
USUAL_PRIORITY = 5

EPOCH_US = 1_704_067_200_000_000
"""2024-01-01: keeps an arrival below 2**51 until 2095."""
_BAND = 1 << 51
_LEVEL = 1 << 52


def strict_rank(priority: int, arrival: int, *, punctual: bool = False) -> int:
    """Priority first, then arrival; a punctual job goes ahead of its priority's others.

    A job is punctual when it was submitted for a later time. Its arrival is that time.
    """
    since = min(max(arrival - EPOCH_US, 0), _BAND - 1)
    return priority * _LEVEL + (0 if punctual else _BAND) + since


def first_ranks() -> list[int]:
    """Where the strict ranks of each priority begin, of punctual jobs and of the others."""
    return [
        strict_rank(priority, 0, punctual=punctual)
        for priority in range(HIGHEST_PRIORITY, LOWEST_PRIORITY + 1)
        for punctual in (True, False)
    ]


def aging_rank(priority: int, arrival: int, *, aging: int) -> int:
    """Arrival, set back or forward by `aging` microseconds per priority level.

    A job waits at most behind the jobs that arrived less than
    `(priority - HIGHEST_PRIORITY) * aging` after it. The ranks lie among the strict ones of the
    usual priority, so that in a queue whose order changes neither kind waits for all of the
    other.
    """
    since = arrival - EPOCH_US + (priority - USUAL_PRIORITY) * aging
    return USUAL_PRIORITY * _LEVEL + _BAND + min(max(since, 0), _BAND - 1)
