"""How claims end."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longshore.core import settle
from longshore.core.backoff import LONGEST_US
from longshore.core.event import Name, names
from longshore.core.job import Claim, Held, JobId, Settlement
from longshore.core.state import SETTLING, State, Verb, after

WHY = settle.failure("ValueError", "no")
TIMES = {"started_at": 1, "finished_at": 2}


def a_claim(*, failures: int = 0, crashes: int = 0, max_attempts: int = 5) -> Claim:
    return Claim(
        handle=7,
        delivery=3,
        id=JobId(bytes(16)),
        type="t",
        queue="q",
        tenant="default",
        payload=b"{}",
        priority=5,
        attempt=0,
        failures=failures,
        crashes=crashes,
        lapses=0,
        max_attempts=max_attempts,
        timeout=None,
        created_at=0,
        run_at=0,
    )


def held(*, started: bool, cancel_requested: bool = False) -> Held:
    return Held(
        handle=7,
        delivery=3,
        id=JobId(bytes(16)),
        type="t",
        queue="q",
        tenant="default",
        started_at=1 if started else None,
        attempt=0,
        failures=2,
        crashes=0,
        lapses=0,
        max_attempts=5,
        cancel_requested=cancel_requested,
        alone=False,
    )


@given(st.integers(1, 25))
def test_a_job_that_always_fails_is_dead_after_exactly_max_attempts_failures(
    max_attempts: int,
) -> None:
    failures, state = 0, State.RUNNING
    while state is not State.DEAD:
        decided = settle.failed(
            a_claim(failures=failures, max_attempts=max_attempts), WHY, delay=1, **TIMES
        )
        failures += decided.charge
        state = after(State.RUNNING, decided.verb)

    assert failures == max_attempts


@given(st.integers(-(2**70), 2**70))
def test_a_wished_delay_is_bounded(wish: int) -> None:
    claim = a_claim()

    retry = settle.failed(claim, WHY, delay=wish, **TIMES)
    snooze = settle.snoozed(claim, wish, **TIMES)

    assert 0 <= retry.delay <= LONGEST_US
    assert 0 <= snooze.delay <= LONGEST_US


def test_only_errors_are_charged() -> None:
    claim = a_claim()
    charged = {
        "failed": settle.failed(claim, WHY, delay=1, **TIMES).charge,
        "killed": settle.killed(claim, WHY, "no use", **TIMES).charge,
        "succeeded": settle.succeeded(claim, **TIMES).charge,
        "snoozed": settle.snoozed(claim, 1, **TIMES).charge,
        "released": settle.released(claim, started_at=1).charge,
        "cancelled": settle.cancelled(claim, "asked", **TIMES).charge,
        "lost": settle.lost(held(started=True)).charge,
    }

    assert {name for name, is_charged in charged.items() if is_charged} == {"failed", "killed"}


def test_a_known_start_is_a_crash_and_an_unknown_one_a_lapse() -> None:
    ran, waited = settle.lost(held(started=True)), settle.lost(held(started=False))

    assert (ran.verb, ran.crash, ran.lapse) == (Verb.RECLAIM, True, False)
    assert (waited.verb, waited.crash, waited.lapse) == (Verb.RECLAIM, False, True)


def test_a_lost_job_that_was_to_be_cancelled_does_not_run_again() -> None:
    assert settle.lost(held(started=True, cancel_requested=True)).verb is Verb.CANCEL


@given(st.text(), st.text(), st.text())
def test_any_words_become_a_failure_that_a_store_can_keep(
    kind: str, message: str, traceback: str
) -> None:
    found = settle.failure(kind, message + "\ud800\0", traceback)

    for words in (found.kind, found.message, found.traceback):
        assert "\0" not in words
        words.encode()


def test_a_message_of_ten_megabytes_is_cut() -> None:
    found = settle.failure("E", "x" * 10_000_000, "é" * 10_000_000)

    assert len(found.message) == settle.MESSAGE_CHARACTERS
    assert len(found.traceback.encode()) <= settle.TRACEBACK_BYTES


@pytest.mark.parametrize("verb", sorted(SETTLING))
@pytest.mark.parametrize("is_known", [True, False])
def test_a_start_is_told_once_and_the_ending_comes_last(verb: Verb, is_known: bool) -> None:
    settlement = Settlement(handle=1, delivery=1, verb=verb, started_at=1, charge=True)

    told = names(settlement, start_is_known=is_known)

    assert told.count(Name.STARTED) == (0 if is_known else 1)
    assert Name.FAILED in told[:-1]
    assert told[-1] not in {Name.STARTED, Name.FAILED}


@pytest.mark.parametrize("verb", sorted(SETTLING))
def test_history_has_a_word_for_every_ending(verb: Verb) -> None:
    assert settle.outcome(Settlement(handle=1, delivery=1, verb=verb))


@given(st.integers(1, 10), st.integers(0, 24))
def test_a_job_that_always_crashes_alone_is_poison_after_exactly_max_crashes(
    max_crashes: int, failures: int
) -> None:
    crashes = 0
    ends: list[Settlement] = []
    while not ends or ends[-1].verb is not Verb.KILL:
        claim = a_claim(crashes=crashes, failures=failures, max_attempts=25)
        end = settle.crashed(claim, WHY, max_crashes=max_crashes, delay=5, **TIMES)
        crashes += end.crash
        ends.append(end)

    assert crashes == len(ends) == max_crashes
    assert [one.verb for one in ends[:-1]] == [Verb.RETRY] * (max_crashes - 1)
    assert {(one.charge, settle.outcome(one)) for one in ends} == {(False, "crashed")}
    assert ends[-1].reason == "poison"
