from collections import Counter
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from longshore.core.backoff import Backoff
from longshore.core.retry_budget import LEAST, RetryBudget

SECOND = 1_000_000


def _seconds(dues: list[int]) -> Counter[int]:
    return Counter(due // SECOND for due in dues)


def test_fifty_thousand_that_fail_at_once_come_back_as_fast_as_jobs_normally_succeed():
    budget, chance = RetryBudget(), Random(7)
    for now in range(0, 60 * SECOND, SECOND // 10):
        budget.succeeded(80, now)
    now = 60 * SECOND

    dues = [
        now + budget.delay(Backoff().delay(1, chance.random()), now, chance.random())
        for _ in range(50_000)
    ]

    found = _seconds(dues)
    assert max(found.values()) <= 720
    assert max(found) - min(found) == 69
    tenths = Counter(due // (SECOND // 10) for due in dues)
    assert max(tenths[tenth] for tenth in range(650, 1_200)) <= 73


def test_seconds_in_which_nothing_succeeded_are_not_normal():
    budget = RetryBudget()
    budget.succeeded(5_000, 0)
    budget.succeeded(5_000, 10 * SECOND)

    dues = [budget.delay(0, 300 * SECOND, 0.0) for _ in range(1_000)]

    assert set(_seconds(dues).values()) == {450, 100}


def test_what_failed_long_ago_is_forgotten():
    budget = RetryBudget()
    for second in range(1_000):
        assert [budget.delay(SECOND, second * SECOND, 0.5) for _ in range(LEAST)] == [
            SECOND
        ] * LEAST


@given(
    of=st.integers(1, 40),
    rate=st.integers(1, 90_000),
    first=st.integers(0, 5_000),
    wishes=st.lists(st.tuples(st.integers(0, 39), st.integers(0, 3 * SECOND)), max_size=300),
)
def test_a_fleet_brings_no_more_back_in_any_seconds_than_its_rate_says(
    of: int, rate: int, first: int, wishes: list[tuple[int, int]]
):
    fleet = [RetryBudget() for _ in range(of)]
    for place, budget in enumerate(fleet):
        budget.share(place=place, of=of, rate=rate / 1_000)

    now = first * SECOND
    dues = [now + fleet[who % of].delay(wanted, now, 0.999) for who, wanted in wishes]

    found = sorted(_seconds(dues).items())
    for begin in range(len(found)):
        total = 0
        for at, count in found[begin : begin + 10]:
            total += count
            assert total <= -((found[begin][0] - at - 1) * rate // 1_000)


def test_a_fleet_that_knows_of_itself_has_together_what_one_has():
    def dues(of: int) -> Counter[int]:
        fleet = [RetryBudget() for _ in range(of)]
        for place, budget in enumerate(fleet):
            budget.share(place=place, of=of, rate=None)
            for second in range(60):
                budget.succeeded(900 // of, second * SECOND)
        now = 60 * SECOND
        return _seconds([now + fleet[n % of].delay(0, now, 0.5) for n in range(9_000)])

    assert set(dues(1).values()) == {810, 9_000 % 810}
    assert max(dues(6).values()) <= 810


def test_a_member_that_came_to_its_first_jobs_late_takes_them_for_no_more():
    fleet = [RetryBudget() for _ in range(3)]
    for second, budget in enumerate(fleet):
        budget.share(place=second, of=3, rate=None)
        budget.succeeded(900, second * SECOND)

    now = 3 * SECOND
    dues = [now + fleet[n % 3].delay(0, now, 0.5) for n in range(9_000)]

    assert max(_seconds(dues).values()) <= 810


def test_what_was_said_counts_and_not_what_succeeds():
    budget = RetryBudget()
    budget.succeeded(90_000, 0)
    assert max(_seconds([budget.delay(0, SECOND, 0.0) for _ in range(900)]).values()) > 500

    budget.share(place=0, of=1, rate=20.0)

    later = _seconds([budget.delay(0, 900 * SECOND, 0.0) for _ in range(200)])
    assert set(later.values()) == {20}


def test_a_retry_that_has_its_part_far_ahead_is_placed_without_walking_there():
    budget = RetryBudget()
    budget.share(place=999, of=1_000, rate=0.001)

    delays = [budget.delay(0, 0, 0.0) // SECOND for _ in range(2_000)]

    assert delays == [999 + turn * 1_000_000 for turn in range(2_000)]


@given(
    wishes=st.lists(
        st.tuples(st.integers(0, 10 * SECOND), st.integers(0, SECOND)), max_size=400
    )
)
def test_no_second_has_more_than_its_room_and_nobody_is_early(wishes: list[tuple[int, int]]):
    budget, now = RetryBudget(), 0
    dues: list[int] = []
    for wanted, pause in wishes:
        now += pause // 100
        delay = budget.delay(wanted, now, 0.999)
        assert delay >= wanted
        dues.append(now + delay)
        alone = len([due for due in dues if due // SECOND == (now + wanted) // SECOND])
        assert delay == wanted or alone >= LEAST

    assert max(_seconds(dues).values(), default=0) <= LEAST
