"""Order inside a queue."""

import heapq

from hypothesis import given
from hypothesis import strategies as st

from longshore.core.limit_settings import LONGEST_AGING_US
from longshore.core.priority_rank import (
    HIGHEST_PRIORITY,
    LOWEST_PRIORITY,
    USUAL_PRIORITY,
    aging_rank,
    strict_rank,
)

NOW = 1_767_225_600_000_000
priorities = st.integers(HIGHEST_PRIORITY, LOWEST_PRIORITY)
arrivals = st.integers(NOW, NOW + 30 * 365 * 86_400_000_000)
instants = st.integers(-(2**70), 2**70)


@given(priorities, priorities, arrivals, arrivals)
def test_strict_order_is_priority_first_then_arrival(
    first: int, second: int, earlier: int, later: int
) -> None:
    one, two = strict_rank(first, earlier), strict_rank(second, later)

    assert (one < two) == ((first, earlier) < (second, later))


@given(priorities, arrivals, arrivals)
def test_a_punctual_job_goes_ahead_of_its_priority_and_of_no_other(
    priority: int, due: int, arrival: int
) -> None:
    punctual = strict_rank(priority, due, punctual=True)

    assert punctual < strict_rank(priority, arrival)
    if priority > HIGHEST_PRIORITY:
        assert punctual > strict_rank(priority - 1, arrival)


@given(priorities, instants, st.booleans())
def test_a_rank_fits_a_signed_column_whatever_the_clock_says(
    priority: int, arrival: int, punctual: bool
) -> None:
    assert 0 <= strict_rank(priority, arrival, punctual=punctual) < 2**63


@given(priorities, priorities, arrivals, st.integers(0, 3_600_000_000), st.integers(1, 10**12))
def test_with_aging_nobody_is_overtaken_by_what_arrives_after_the_bound(
    waiting: int, urgent: int, arrival: int, aging: int, later: int
) -> None:
    """The longest possible wait behind later arrivals: eight levels of aging."""
    bound = (LOWEST_PRIORITY - HIGHEST_PRIORITY) * aging

    ours = aging_rank(waiting, arrival, aging=aging)

    assert ours < aging_rank(urgent, arrival + bound + later, aging=aging)


@given(arrivals, st.integers(1, 3_600_000_000))
def test_with_aging_a_level_of_priority_is_worth_its_wait(arrival: int, aging: int) -> None:
    patient = aging_rank(5, arrival, aging=aging)

    assert aging_rank(4, arrival + aging - 1, aging=aging) < patient
    assert aging_rank(4, arrival + aging + 1, aging=aging) > patient


@given(
    st.lists(st.tuples(priorities, st.integers(0, 1_000)), min_size=1, max_size=60),
    st.integers(0, 200),
    st.integers(1, 30),
)
def test_with_aging_the_longest_wait_follows_from_the_settings(
    jobs: list[tuple[int, int]], aging: int, takes: int
) -> None:
    """A job waits for those that arrived up to its levels of aging later, and for no other.

    One job at a time is served, each for as long: so its wait is at most their number, and the
    one that is just being served, times that.
    """
    queue = sorted((NOW + at, number, priority) for number, (priority, at) in enumerate(jobs))
    waits: dict[int, int] = {}
    waiting: list[tuple[int, int]] = []
    coming, now = list(queue), 0
    while coming or waiting:
        now = max(now, coming[0][0]) if coming and not waiting else now
        while coming and coming[0][0] <= now:
            arrival, number, priority = coming.pop(0)
            heapq.heappush(waiting, (aging_rank(priority, arrival, aging=aging), number))
        _, number = heapq.heappop(waiting)
        waits[number] = now
        now += takes

    for arrival, number, priority in queue:
        last = arrival + (priority - HIGHEST_PRIORITY) * aging
        before = sum(one <= last for one, other, _ in queue if other != number)
        assert waits[number] - arrival <= (before + 1) * takes


@given(arrivals, priorities, st.integers(0, LONGEST_AGING_US))
def test_with_aging_and_without_jobs_of_the_usual_priority_go_by_arrival(
    arrival: int, priority: int, aging: int
) -> None:
    aged = aging_rank(USUAL_PRIORITY, arrival, aging=aging)

    assert aged == strict_rank(USUAL_PRIORITY, arrival)
    ours = aging_rank(priority, arrival, aging=aging)
    assert strict_rank(4, arrival) < ours < strict_rank(6, arrival)
