"""The arithmetic of token buckets."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longshore.core.token_bucket import Borrowed, Limit, borrow
from longshore.errors import ConfigError

SECOND = 1_000_000
START = 1_767_225_600 * SECOND

limits = st.builds(
    Limit,
    st.sampled_from([0.001, 0.01, 0.333, 1.0, 7.5, 100.0, 3_000.0, 999_999.0, 1_000_000.0]),
    st.integers(1, 1_000) | st.sampled_from([1_000_000]),
)
wants = st.integers(0, 50) | st.sampled_from([1_000_000])
pauses = st.integers(0, 10 * SECOND) | st.sampled_from([0, 1, 3_600 * SECOND])


def exact(limit: Limit) -> Fraction:
    """Tokens per microsecond."""
    return Fraction(round(limit.rate * 1_000), 1_000 * SECOND)


@given(limit=limits, steps=st.lists(st.tuples(pauses, wants), max_size=60))
def test_no_more_is_granted_than_burst_and_rate_allow(
    limit: Limit, steps: list[tuple[int, int]]
):
    stored, now, history = None, START, list[tuple[int, int]]()
    for pause, want in steps:
        now += pause
        stored, answer = borrow(stored, limit, want=want, now=now)
        assert 0 <= answer.granted <= want
        history.append((now, answer.granted))

    for first, (begin, _) in enumerate(history):
        granted = 0
        for at, count in history[first:]:
            granted += count
            # Times are rounded to the nanosecond.
            allowed = limit.burst + exact(limit) * (at - begin + Fraction(1, 1_000))
            assert granted <= allowed


@given(limit=limits, steps=st.lists(pauses, min_size=1, max_size=60))
def test_however_often_one_asks_the_bucket_fills_all_the_same(limit: Limit, steps: list[int]):
    now = START
    stored, _ = borrow(None, limit, want=limit.burst, now=now)
    for pause in steps:
        now += pause
        stored, _ = borrow(stored, limit, want=0, now=now)

    _, answer = borrow(stored, limit, want=0, now=now)

    there = min(limit.burst, int(exact(limit) * (now - START)))
    assert there - 1 <= answer.left <= there


@given(limit=limits, want=st.integers(1, 1_000_000))
def test_the_time_to_wait_is_right_to_the_microsecond(limit: Limit, want: int):
    stored, answer = borrow(None, limit, want=limit.burst, now=START)
    assert answer == Borrowed(limit.burst)
    stored, answer = borrow(stored, limit, want=want, now=START)
    wait = answer.retry_after

    _, early = borrow(stored, limit, want=1, now=START + wait - 1)
    _, punctual = borrow(stored, limit, want=1, now=START + wait)

    assert (answer.granted, early.granted, punctual.granted) == (0, 0, 1)


@given(
    limit=limits,
    steps=st.lists(st.tuples(st.integers(-3_600 * SECOND, 10 * SECOND), wants), max_size=60),
)
def test_a_clock_that_jumps_back_grants_nothing_extra(
    limit: Limit, steps: list[tuple[int, int]]
):
    stored, now, passed, granted = None, START, 0, 0
    for pause, want in steps:
        now += pause
        passed += max(pause, 0)
        stored, answer = borrow(stored, limit, want=want, now=now)
        granted += answer.granted

    assert granted <= limit.burst + exact(limit) * (passed + Fraction(len(steps), 1_000))


@given(limit=limits, back=st.integers(1, 10**13))
def test_a_clock_that_jumps_back_stops_no_bucket(limit: Limit, back: int):
    stored, _ = borrow(None, limit, want=limit.burst, now=START)
    _, usual = borrow(stored, limit, want=1, now=START)
    now = START - back
    stored, answer = borrow(stored, limit, want=1, now=now)

    _, later = borrow(stored, limit, want=1, now=now + answer.retry_after)

    assert (answer.granted, answer.retry_after) == (0, usual.retry_after)
    assert later.granted == 1


@given(limit=limits, pause=pauses, want=wants)
def test_a_bucket_that_is_full_may_be_forgotten(limit: Limit, pause: int, want: int):
    stored, _ = borrow(None, limit, want=want, now=START)
    now = limit.full_at(stored) + pause

    _, kept = borrow(stored, limit, want=want, now=now)
    _, fresh = borrow(None, limit, want=want, now=now)

    assert kept == fresh


@given(limit=limits, pause=pauses)
def test_what_is_stored_fits_into_sixty_four_bits(limit: Limit, pause: int):
    stored, _ = borrow(None, limit, want=0, now=START + pause)

    assert -(2**63) <= stored < 2**63
    assert limit.full_at(stored) < 2**63


@pytest.mark.parametrize("rate", [0.0004, -1.0, 2e6, float("nan"), float("inf")])
def test_a_rate_out_of_range_is_refused(rate: float):
    with pytest.raises(ConfigError, match="a rate of"):
        borrow(None, Limit(rate, 1), want=1, now=START)
