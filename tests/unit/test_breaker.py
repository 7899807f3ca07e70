"""Circuit breakers: when they open, what they let through, when they close."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longshore.core import settle
from longshore.core.breaker import (
    LONGEST_LOOK_US,
    Rules,
    Standing,
    look_in,
    observe,
    room,
    rules,
    verdict,
)
from longshore.core.flow import BreakerSettings, Phase
from longshore.core.job import Failure, Held, JobId

SECOND = 1_000_000
WHY = Failure("OSError", "no route to host")


def the_rules(**said: object) -> Rules:
    found = rules(BreakerSettings(**said))  # type: ignore[arg-type]  # a mapping of settings
    assert found is not None
    return found


def after(standing: Standing, held: Rules, outcomes: str, now: int) -> Standing:
    """How it stands after outcomes such as `++-`."""
    return observe(standing, held, [one == "+" for one in outcomes], now)[0]


def test_failures_in_a_row_open_it_and_a_success_between_them_starts_anew():
    held = the_rules(failures=3, cooldown=10 * SECOND)

    early = after(Standing(), held, "--+--", now=5)
    opened = after(early, held, "-", now=7)

    assert early.phase is Phase.CLOSED
    assert (opened.phase, opened.since, opened.until) == (Phase.OPEN, 7, 7 + 10 * SECOND)


def test_a_share_of_failures_opens_it_once_there_are_enough_outcomes():
    held = the_rules(ratio=0.5, least=4, window=10 * SECOND)

    assert after(Standing(), held, "---", now=0).phase is Phase.CLOSED
    assert after(Standing(), held, "---+", now=0).phase is Phase.CLOSED
    assert after(Standing(), held, "-+--", now=0).phase is Phase.OPEN
    assert after(Standing(), held, "+++-+-+", now=0).phase is Phase.CLOSED


def test_what_lies_before_the_window_is_forgotten():
    held = the_rules(ratio=0.5, least=4, window=10 * SECOND)
    old = after(Standing(), held, "---", now=100 * SECOND)

    assert after(old, held, "-", now=109 * SECOND).phase is Phase.OPEN
    assert after(old, held, "-", now=110 * SECOND).phase is Phase.CLOSED


def test_an_open_one_hands_out_nothing_until_the_cool_down_is_over():
    held = the_rules(failures=1, cooldown=10, probes=3)
    opened = after(Standing(), held, "-", now=100)

    assert room(Standing(), held, running=7, now=100) is None
    assert room(opened, held, running=0, now=109) == 0
    assert look_in(opened, 104) == 6
    assert room(opened, held, running=1, now=110) == 2
    assert room(opened, held, running=9, now=110) == 0
    assert look_in(opened, 110) == LONGEST_LOOK_US
    # A clock that was set back makes nobody wait longer than the cool-down.
    assert room(opened, held, running=0, now=5) == 3


def test_probes_close_it_when_all_succeed_and_open_it_again_when_one_fails():
    held = the_rules(failures=1, cooldown=10, probes=2)
    opened = after(Standing(), held, "-", now=100)

    assert after(opened, held, "++++", now=109) is opened
    assert after(opened, held, "+", now=110).phase is Phase.HALF_OPEN
    assert after(opened, held, "++", now=110) == Standing(since=110)
    again = after(opened, held, "+-", now=115)
    assert (again.phase, again.until) == (Phase.OPEN, 125)


def test_every_change_of_phase_is_told_once():
    held = the_rules(failures=2, cooldown=10)
    opened = after(Standing(), held, "--", now=0)

    stands, changes = observe(opened, held, [True, False, False, False], now=10)

    assert [one.phase for one in changes] == [Phase.HALF_OPEN, Phase.CLOSED, Phase.OPEN]
    assert stands is changes[-1]
    assert observe(stands, held, [], now=11) == (stands, [])


def test_settings_that_open_nothing_are_no_breaker():
    assert rules(BreakerSettings(cooldown=1, probes=1)) is None
    assert the_rules(ratio=0.2).least > 1


def test_only_how_a_handler_ended_says_anything():
    one = Held(1, 1, JobId(bytes(16)), "t", "q", "default", 3, 1, 0, 0, 0, 2, False, True)
    at = {"started_at": 3, "finished_at": 4}

    assert verdict(settle.succeeded(one, **at)) is True
    assert verdict(settle.failed(one, WHY, delay=0, **at)) is False
    last = Held(1, 1, JobId(bytes(16)), "t", "q", "default", 3, 1, 1, 0, 0, 2, False, True)
    assert verdict(settle.failed(last, WHY, delay=0, **at)) is False
    for silent in (
        settle.killed(one, WHY, "payload", **at),
        settle.released(one, started_at=3),
        settle.lost(one),
    ):
        assert verdict(silent) is None


steps = st.lists(
    st.tuples(st.integers(0, 30), st.lists(st.booleans(), max_size=6)), max_size=30
)


@given(steps=steps, failures=st.integers(1, 4), probes=st.integers(1, 3))
def test_it_is_open_exactly_for_the_cool_down_behind_the_failures_that_opened_it(
    steps: list[tuple[int, list[bool]]], failures: int, probes: int
):
    held = the_rules(failures=failures, cooldown=20, probes=probes)
    standing, now = Standing(), 1_000
    phase, row, good, until = Phase.CLOSED, 0, 0, 0

    for pause, outcomes in steps:
        now += pause
        standing, _ = observe(standing, held, outcomes, now)
        if phase is Phase.OPEN and now >= until:
            phase, good = Phase.HALF_OPEN, 0
        for is_success in outcomes:
            if phase is Phase.OPEN:
                break
            row = 0 if is_success else row + 1
            good += is_success
            if (phase is Phase.HALF_OPEN and row) or row >= failures:
                phase, row, until = Phase.OPEN, 0, now + 20
            elif phase is Phase.HALF_OPEN and good >= probes:
                phase, row = Phase.CLOSED, 0

        assert standing.phase is phase
        allowed = room(standing, held, running=0, now=now)
        assert allowed == {Phase.CLOSED: None, Phase.OPEN: 0, Phase.HALF_OPEN: probes}[phase]


@pytest.mark.parametrize("window", [1, 7, 60 * SECOND])
def test_what_is_kept_of_a_window_stays_small(window: int):
    held = the_rules(ratio=1.0, least=10**6, window=window)
    standing = Standing()

    for now in range(0, 40 * window, max(window // 3, 1)):
        standing = after(standing, held, "+-", now)

    assert len(standing.slices) <= 10
