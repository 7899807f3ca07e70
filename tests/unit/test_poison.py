"""Who is a suspect, who runs alone, and what it takes to call a job poison."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longshore.core import ids, poison, settle
from longshore.core.crash_record import Trace, aftermath
from longshore.core.job import Attempt, Death, Failure, Held, Settlement
from longshore.core.poison import VICTIMS, death_of
from longshore.core.state import Verb
from longshore.testing.factories import SECOND, a_claim, a_held_job

NOW = 1_767_225_600_000_000
ALONE = Death()
IN_COMPANY = Death(beside=3)
IN_CHILD = Death(in_child=True)


def crash(death: Death | None, **changes: Any) -> Attempt:
    why = Failure("crash", "gone") if death is None else Failure("crash", "gone", death=death)
    facts: dict[str, Any] = {"delivery": 1, "attempt": 1, "worker": "w", "finished_at": NOW}
    facts |= {"outcome": "crashed", "started_at": NOW, "failure": why} | changes
    return Attempt(**facts)


def buried(held: list[Held], running: set[int], **changes: Any) -> dict[int, Settlement]:
    """What becomes of the jobs of a worker that died while these were running."""
    traces = [
        Trace(handle=one.handle, delivery=1, started_at=NOW, **changes)
        for one in held
        if one.handle in running
    ]
    ends = aftermath(held, traces, is_whole=True, now=NOW, delay=lambda _: SECOND)
    return {one.handle: one for one in ends}


@given(st.integers(0, 9), st.integers(1, 5))
def test_a_suspect_is_apart_before_its_last_crash_and_alone_after_it(crashes: int, most: int):
    claim = a_claim(crashes=crashes)

    assert poison.is_suspect(claim, most) == (crashes + 1 >= most)
    assert poison.runs_alone(claim, most) == (crashes >= most)
    # Not before it has been alone twice.
    assert poison.must_be_tried(claim, most) == (crashes >= most + 1)


@given(st.integers(0, 9), st.integers(1, 5))
def test_a_job_is_kept_off_its_worker_once_one_vanished_while_it_was_a_suspect(
    crashes: int, most: int
):
    assert poison.is_feared(a_claim(crashes=crashes), most) == (crashes >= most)


def test_a_job_with_which_workers_go_on_vanishing_waits_longer_each_time():
    history = [crash(IN_CHILD), crash(None, outcome="snoozed", finished_at=NOW + SECOND)]

    def waits(crashes: int, now: int = NOW) -> int:
        return poison.rest(a_claim(crashes=crashes), history, max_crashes=3, now=now) // SECOND

    assert [waits(crashes) for crashes in (4, 5, 6, 7)] == [1, 2, 4, 8]
    assert waits(1_000) == 300
    assert waits(7, NOW + 6 * SECOND) == 2
    assert waits(7, NOW + 9 * SECOND) == 0
    assert poison.rest(a_claim(crashes=4), [], max_crashes=3, now=NOW) == 0


def test_a_job_with_three_lapses_runs_alone():
    alone = [poison.runs_alone(a_claim(lapses=count), 3) for count in range(5)]

    assert alone == [False, False, False, True, True]


@pytest.mark.parametrize(
    ("history", "is_convicted"),
    [
        ([crash(ALONE), crash(ALONE)], True),
        ([crash(IN_COMPANY), crash(ALONE), crash(ALONE)], True),
        ([crash(ALONE)], False),
        ([crash(ALONE), crash(IN_COMPANY), crash(ALONE)], False),
        ([crash(ALONE), crash(IN_CHILD)], False),
        ([crash(IN_CHILD)] * 6, False),
        ([crash(IN_COMPANY)] * 6, False),
        ([crash(ALONE), crash(None)], False),
        ([crash(ALONE), crash(ALONE, outcome="failed")], False),
        # What was given back before its end says nothing, and neither does what never started.
        ([crash(ALONE), crash(None, outcome="released"), crash(ALONE)], True),
        ([crash(ALONE), crash(None, started_at=None, outcome="snoozed"), crash(ALONE)], True),
        ([], False),
    ],
)
def test_only_two_workers_in_a_row_that_ran_nothing_else_convict(
    history: list[Attempt], is_convicted: bool
):
    assert poison.is_convicted(history) is is_convicted


def test_a_worker_that_died_names_to_each_of_its_jobs_the_others():
    held = [a_held_job(handle=number) for number in range(1, 5)]

    ends = buried(held, running={1, 2, 3})

    names = {one.handle: ids.text(one.id) for one in held}
    assert death_of(ends[1].failure) == Death(beside=2, victims=(names[2], names[3]))
    assert death_of(ends[3].failure) == Death(beside=2, victims=(names[1], names[2]))
    assert ends[1].failure is not None
    assert ends[1].failure.message == (
        "the worker that ran it vanished, and 2 other jobs with it"
    )
    assert (ends[1].crash, ends[1].charge) == (True, False)
    assert (ends[4].verb, ends[4].failure) == (Verb.RELEASE, None)


def test_a_worker_that_died_names_to_no_job_those_of_another_tenant():
    held = [a_held_job(handle=n, tenant=name) for n, name in enumerate(("a", "b", "a"), 1)]

    ends = buried(held, running={1, 2, 3})

    names = {one.handle: ids.text(one.id) for one in held}
    assert death_of(ends[1].failure) == Death(beside=2, victims=(names[3],))
    assert death_of(ends[2].failure) == Death(beside=2)


def test_a_job_in_a_child_process_is_not_blamed_for_its_worker():
    (end,) = buried([a_held_job(handle=1)], running={1}, in_child=True).values()

    assert death_of(end.failure) == IN_CHILD
    assert end.crash


def test_a_job_that_was_the_only_one_running_was_alone():
    held = [a_held_job(handle=number) for number in range(1, 4)]

    assert death_of(buried(held, running={2})[2].failure) == ALONE


def test_of_a_lost_machine_any_job_that_was_held_may_have_been_running():
    known = [a_held_job(handle=n, started_at=NOW, alone=False) for n in (1, 2)]
    unknown = a_held_job(handle=3)

    first, second, third = poison.unreported([*known, unknown])

    assert death_of(first.failure) == Death(beside=2, victims=(ids.text(known[1].id),))
    assert death_of(second.failure) == Death(beside=2, victims=(ids.text(known[0].id),))
    assert (third.lapse, third.failure) == (True, None)
    (only,) = poison.unreported([a_held_job(started_at=NOW, alone=True)])
    assert death_of(only.failure) == ALONE


def test_the_victims_that_a_crash_names_are_bounded_and_no_two_alike():
    held = [a_held_job(handle=number) for number in range(1, 101)]

    ends = buried(held, running=set(range(1, 101)))

    deaths = [death_of(one.failure) for one in ends.values()]
    assert {(one.beside, len(one.victims)) for one in deaths if one} == {(99, VICTIMS)}
    history = [crash(deaths[0]), crash(deaths[1]), crash(None)]
    named = poison.victims(history)
    assert len(named) == len(set(named)) == VICTIMS + 1


def test_a_condemned_job_is_dead_without_another_run_or_charge():
    end = settle.condemned(a_claim(crashes=5))

    assert (end.verb, end.reason) == (Verb.KILL, "poison")
    assert (end.charge, end.crash, end.started_at) == (False, False, None)
    assert settle.outcome(end) == "condemned"


def test_a_job_that_is_put_off_is_neither_charged_nor_counted():
    end = settle.put_off(a_claim(), SECOND)

    assert (end.verb, end.delay) == (Verb.SNOOZE, SECOND)
    assert (end.charge, end.crash, end.lapse, end.started_at) == (False, False, False, None)
