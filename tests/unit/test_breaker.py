"""Circuit breakers: when they open, what they let through, when they close."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longshore.core import settle
from longshore.core.circuit_breaker import (
    LONGEST_LOOK_US,
    Outcome,
    Rules,
    Standing,
    look_in,
    observe,
    room,
    rules,
    verdict,
)
from longshore.core.job import Failure, Held, JobId
from longshore.core.limit_settings import BreakerSettings, Phase

SECOND = 1_000_000
WHY = Failure("OSError", "no route to host")


def the_rules(**said: object) -> Rules:
    found = rules(BreakerSettings(**said))  # type: ignore[arg-type]  # a mapping of settings
    assert found is not None
    return found


def after(standing: Standing, held: Rules, outcomes: str, now: int) -> Standing:
    """How it stands after outcomes of one tenant such as `++-`."""
    return of_many(standing, held, "".join(f"a{one}" for one in outcomes), now)


def of_many(standing: Standing, held: Rules, outcomes: str, now: int) -> Standing:
    """How it stands after outcomes of tenants a and b such as `a+b-`."""
    pairs = zip(outcomes[::2], outcomes[1::2], strict=True)
    return observe(standing, held, [Outcome(who, how == "+") for who, how in pairs], now)[0]


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
    closed = after(opened, held, "++", now=110)
    assert (closed.phase, closed.since, closed.failing) == (Phase.CLOSED, 110, {})
    again = after(opened, held, "+-", now=115)
    assert (again.phase, again.until) == (Phase.OPEN, 125)


def test_every_change_of_phase_is_told_once():
    held = the_rules(failures=2, cooldown=10)
    opened = after(Standing(), held, "--", now=0)

    outcomes = [Outcome("a", how) for how in (True, False, False, False)]
    stands, changes = observe(opened, held, outcomes, now=10)

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


def test_failures_of_one_tenant_alone_do_not_open_it_while_another_has_outcomes():
    held = the_rules(failures=4, window=10 * SECOND)
    shared = of_many(Standing(), held, "b+", now=100 * SECOND)

    flooded = of_many(shared, held, "a-" * 50, now=104 * SECOND)

    assert flooded.phase is Phase.CLOSED
    # One chance failure of the other does not, either; half of them does.
    assert of_many(flooded, held, "b-", now=105 * SECOND).phase is Phase.CLOSED
    assert of_many(flooded, held, "b-b-", now=105 * SECOND).phase is Phase.OPEN
    assert of_many(flooded, held, "b-b+b-", now=105 * SECOND).phase is Phase.CLOSED
    # Nobody else was heard of for a window.
    assert of_many(flooded, held, "a-", now=112 * SECOND).phase is Phase.OPEN


def test_any_two_tenants_open_the_smallest_breaker():
    held = the_rules(failures=1)

    assert of_many(Standing(), held, "b+a-", now=5).phase is Phase.CLOSED
    assert of_many(Standing(), held, "b+a-b-", now=5).phase is Phase.OPEN


def test_a_share_of_failures_counts_without_the_tenant_that_failed_most():
    held = the_rules(ratio=0.5, least=4, window=10 * SECOND)

    assert of_many(Standing(), held, "b+" + "a-" * 50, now=0).phase is Phase.CLOSED
    assert of_many(Standing(), held, "b+b-" + "a-" * 50, now=0).phase is Phase.OPEN
    assert of_many(Standing(), held, "b+b+b-" + "a-" * 50, now=0).phase is Phase.CLOSED
    assert of_many(Standing(), held, "a+" + "a-" * 3, now=0).phase is Phase.OPEN


def test_a_probe_of_one_tenant_that_fails_leaves_it_to_the_probes_of_others():
    held = the_rules(failures=2, cooldown=50 * SECOND, window=10 * SECOND)
    opened = of_many(Standing(), held, "a-b-", now=100 * SECOND)

    # While it was open for longer than the window nobody could be heard.
    failed = of_many(opened, held, "a-a-a-", now=151 * SECOND)

    assert opened.phase is Phase.OPEN
    assert failed.phase is Phase.HALF_OPEN
    assert of_many(failed, held, "b+", now=152 * SECOND).phase is Phase.CLOSED
    assert of_many(failed, held, "b-", now=152 * SECOND).phase is Phase.OPEN
    assert of_many(failed, held, "a-", now=162 * SECOND).phase is Phase.OPEN


def test_successes_of_the_same_tenants_write_nothing_but_once_in_a_tenth_of_the_window():
    held = the_rules(failures=3, window=10 * SECOND)
    first = of_many(Standing(), held, "a+b+c+", now=100 * SECOND)

    assert of_many(first, held, "c+b+a+d+" * 9, now=100 * SECOND + 900_000) is first
    assert of_many(first, held, "a+", now=101 * SECOND) is not first


def test_what_is_kept_of_tenants_is_bounded():
    held = the_rules(failures=1_000, ratio=0.99, least=10**9)
    standing, _ = observe(
        Standing(), held, [Outcome(f"t{number}", False) for number in range(900)], 0
    )

    assert standing.phase is Phase.CLOSED
    assert len(standing.failing) == len(standing.parts[0].by) == 65
    assert sum(standing.failing.values()) == 900


histories = st.lists(
    st.tuples(st.integers(0, 5), st.lists(st.sampled_from(["a-", "b+", "c+"]), max_size=9)),
    max_size=60,
)


@given(steps=histories, failures=st.integers(1, 5), ratio=st.sampled_from([None, 0.1, 1.0]))
def test_one_tenant_that_only_fails_never_opens_it_beside_one_that_is_heard_of(
    steps: list[tuple[int, list[str]]], failures: int, ratio: float | None
):
    held = the_rules(failures=failures, ratio=ratio, least=1, window=10 * SECOND)
    standing, now = of_many(Standing(), held, "b+", 0), 0

    for pause, outcomes in steps:
        now += pause * SECOND
        standing = of_many(standing, held, "b+" + "".join(outcomes), now)

        assert standing.phase is Phase.CLOSED


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
        said = [Outcome("a", one) for one in outcomes]
        standing, _ = observe(standing, held, said, now)
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

    assert len(standing.parts) <= 10
