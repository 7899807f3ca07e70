from collections import Counter
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from longshore.core.backoff import Backoff
from longshore.core.herd import LEAST, RetryBudget

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
