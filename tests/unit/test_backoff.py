"""Delays between attempts."""

from hypothesis import given
from hypothesis import strategies as st

from longshore.core.backoff import LONGEST_US, Backoff, Jitter

numbers = st.integers(-(2**70), 2**70)
chances = st.floats(0, 1, exclude_max=True)


@given(numbers, numbers, st.sampled_from(Jitter), numbers, chances)
def test_no_input_overflows_or_raises(
    base: int, cap: int, jitter: Jitter, failures: int, chance: float
) -> None:
    delay = Backoff(base=base, cap=cap, jitter=jitter).delay(failures, chance)

    assert 0 <= delay <= LONGEST_US


def test_the_delay_doubles_with_every_failure_up_to_the_cap() -> None:
    backoff = Backoff(base=250_000, cap=60_000_000, jitter=Jitter.NONE)

    delays = [backoff.delay(failures, 0.5) for failures in range(1, 10)]

    assert delays == [
        500_000,
        1_000_000,
        2_000_000,
        4_000_000,
        8_000_000,
        16_000_000,
        32_000_000,
        60_000_000,
        60_000_000,
    ]


@given(st.integers(1, 30), chances)
def test_proportional_jitter_stays_within_a_quarter(failures: int, chance: float) -> None:
    exact = Backoff(jitter=Jitter.NONE).delay(failures, 0.0)

    spread = Backoff(jitter=Jitter.PROPORTIONAL).delay(failures, chance)

    assert 0.75 * exact - 1 <= spread <= 1.25 * exact


@given(st.integers(1, 30), chances)
def test_full_jitter_lies_between_nothing_and_the_delay(failures: int, chance: float) -> None:
    exact = Backoff(jitter=Jitter.NONE).delay(failures, 0.0)

    assert 0 <= Backoff(jitter=Jitter.FULL).delay(failures, chance) <= exact


def test_jitter_spreads_what_failed_together() -> None:
    backoff = Backoff()

    delays = {backoff.delay(3, chance / 100) for chance in range(100)}

    assert len(delays) == 100
