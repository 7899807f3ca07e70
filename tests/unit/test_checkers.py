"""Every checker lets an honest history pass, and catches the violation it is there for."""

from pathlib import Path

import pytest
from story import MAX_ATTEMPTS, Story

from longshore.core.event import Name
from longshore.core.state import State, Verb
from longshore_lab.checkers import CHECKERS, check
from longshore_lab.effects import Cell
from longshore_lab.history import gather
from longshore_lab.records import CancelAnswer, Fate, FaultKind, Outcome


@pytest.fixture
def story() -> Story:
    return Story()


def poisoned(story: Story, job: str) -> None:
    """A job that fails as often as it may."""
    story.submitted(job, batch=f"batch of {job}", fate=Fate.DEAD)
    story.ran(job, 1, "worker-1", Outcome.RAISED, Verb.RETRY)
    story.ran(job, 2, "worker-1", Outcome.RAISED, Verb.KILL)
    story.shows(job, State.DEAD, attempt=2, failures=MAX_ATTEMPTS, reason="exhausted")


def recovered(story: Story, job: str) -> None:
    """A job whose first worker was killed, and whose second finished it."""
    story.submitted(job, batch=f"batch of {job}")
    story.claimed(job, 1, "worker-1")
    story.began(job, 1, "worker-1")
    story.hurt("worker-1", FaultKind.KILL)
    story.ran(job, 2, "worker-2")
    story.shows(job, attempt=2, crashes=1)
    story.survey.events[job][1:1] = [Name.STARTED, Name.RECLAIMED]


def paused(story: Story, job: str, *, settles: bool) -> None:
    """A job whose first worker stood still past its lease, and then went on."""
    story.submitted(job, batch=f"batch of {job}")
    story.claimed(job, 1, "worker-1")
    story.began(job, 1, "worker-1")
    story.hurt("worker-1", FaultKind.STOP)
    story.claimed(job, 2, "worker-2")
    story.began(job, 2, "worker-2")
    story.hurt("worker-1", FaultKind.RESUME)
    story.ended(job, 1, "worker-1")
    story.settled(job, 1, "worker-1", accepted=settles)
    story.ended(job, 2, "worker-2")
    story.settled(job, 2, "worker-2", accepted=not settles)
    story.shows(job, attempt=2, crashes=1)
    story.survey.events[job][1:1] = [Name.STARTED, Name.RECLAIMED]


def test_a_history_in_which_every_promise_was_kept_passes(story: Story):
    story.submitted("job-1", "job-2")
    story.ran("job-1", 1, "worker-1")
    story.ran("job-2", 1, "worker-1", Outcome.RAISED, Verb.RETRY)
    story.ran("job-2", 2, "worker-2")
    story.shows("job-1")
    story.shows("job-2", attempt=2, failures=1)
    poisoned(story, "job-3")
    recovered(story, "job-4")
    paused(story, "job-5", settles=False)

    assert story.violated == set()


def test_an_accepted_job_that_is_nowhere_is_lost(story: Story):
    story.submitted("job-1")

    assert story.violated == {"lost"}


def test_a_job_that_was_never_answered_for_may_be_nowhere(story: Story):
    story.called("job-1")

    assert story.violated == set()


def test_a_job_that_still_runs_when_all_is_quiet_is_unfinished(story: Story):
    story.submitted("job-1")
    story.claimed("job-1", 1, "worker-1")
    story.shows("job-1", State.RUNNING, attempt=0)

    assert story.violated == {"unfinished"}


def test_a_stored_job_that_nobody_sent_is_a_ghost(story: Story):
    story.shows("job-1")
    story.ran("job-1", 1, "worker-1")

    assert story.violated == {"ghosts"}


def test_a_job_stored_with_the_payload_of_another_is_a_ghost(story: Story):
    story.submitted("job-1")
    story.ran("job-1", 1, "worker-1")
    story.shows("job-1")
    story.shows("job-2")
    story.survey.jobs["job-1"] = story.survey.jobs.pop("job-2")

    assert story.violated == {"ghosts"}


def test_a_change_of_the_world_that_nobody_ordered_is_a_ghost(story: Story):
    story.survey.cells[9] = Cell(1, 1)

    assert story.violated == {"ghosts"}


def test_a_call_of_which_half_is_stored_was_half_accepted(story: Story):
    story.called("job-1", "job-2")
    story.ran("job-1", 1, "worker-1")
    story.shows("job-1")

    assert story.violated == {"halves"}


def test_a_repeated_call_that_is_answered_unevenly_was_half_accepted(story: Story):
    story.called("job-1", "job-2")
    story.called("job-1", "job-2", by="producer-2")
    story.answered("job-1", verdict="repeated", by="producer-2")
    story.answered("job-2", verdict="accepted", by="producer-2")
    for job in ("job-1", "job-2"):
        story.ran(job, 1, "worker-1")
        story.shows(job)

    assert story.violated == {"halves"}


def test_a_key_that_stands_for_two_jobs_is_no_key(story: Story):
    for job in ("job-1", "job-2"):
        story.submitted(job, batch=job, key="one order")
        story.ran(job, 1, "worker-1")
        story.shows(job, key="one order")

    assert story.violated == {"repeats"}


def test_a_key_sent_twice_and_answered_with_one_job_is_fine(story: Story):
    story.called("job-1", batch="first", key="one order")
    story.called("job-2", batch="again", key="one order", by="producer-2")
    story.answered("job-2", batch="again", verdict="repeated", stands="job-1", by="producer-2")
    story.ran("job-1", 1, "worker-1")
    story.shows("job-1", key="one order")

    assert story.violated == set()


def test_a_settlement_that_was_accepted_after_a_newer_claim_is_stale(story: Story):
    paused(story, "job-1", settles=True)

    assert story.violated == {"stale", "linear"}


def test_a_delivery_that_two_workers_claimed_is_not_fenced(story: Story):
    story.submitted("job-1")
    story.claimed("job-1", 1, "worker-2")
    story.ran("job-1", 1, "worker-1")
    story.shows("job-1")

    assert story.violated == {"stale", "linear"}


def test_two_accepted_successes_of_one_job_are_a_double(story: Story):
    recovered(story, "job-1")
    story.settled("job-1", 1, "worker-1")

    assert story.violated == {"doubles", "linear", "stale"}


def test_a_success_that_is_announced_twice_is_a_double(story: Story):
    story.submitted("job-1")
    story.ran("job-1", 1, "worker-1")
    story.shows("job-1")
    story.survey.events["job-1"] *= 2

    assert story.violated == {"doubles", "events"}


def test_an_exchange_that_was_sent_twice_is_one_success(story: Story):
    story.submitted("job-1")
    story.ran("job-1", 1, "worker-1")
    story.settled("job-1", 1, "worker-1")
    story.shows("job-1")

    assert story.violated == set()


def test_two_runs_at_once_overlap_when_nobody_was_hurt(story: Story):
    story.submitted("job-1")
    for delivery, worker in ((1, "worker-1"), (2, "worker-2")):
        story.claimed("job-1", delivery, worker)
        story.began("job-1", delivery, worker)
    story.ended("job-1", 1, "worker-1", Outcome.STOPPED)
    story.ended("job-1", 2, "worker-2")
    story.settled("job-1", 2, "worker-2")
    story.shows("job-1", attempt=1, lapses=1)

    assert story.violated == {"overlaps"}


def test_a_job_that_stood_still_in_a_buffer_may_begin_after_its_rerun(story: Story):
    story.submitted("job-1")
    story.claimed("job-1", 1, "worker-1")
    story.hurt("worker-1", FaultKind.STOP)
    story.claimed("job-1", 2, "worker-2")
    story.began("job-1", 2, "worker-2")
    story.hurt("worker-1", FaultKind.RESUME)
    story.began("job-1", 1, "worker-1")
    story.ended("job-1", 1, "worker-1")
    story.settled("job-1", 1, "worker-1", accepted=False)
    story.ended("job-1", 2, "worker-2")
    story.settled("job-1", 2, "worker-2")
    story.shows("job-1", attempt=1, lapses=1)

    assert story.violated == set()


def test_a_pause_long_ago_excuses_nothing(story: Story):
    story.hurt("worker-1", FaultKind.STOP)
    story.hurt("worker-1", FaultKind.RESUME)
    story.submitted("job-1")
    story.claimed("job-1", 1, "worker-1")
    story.began("job-1", 1, "worker-1")
    story.ended("job-1", 1, "worker-1")
    story.ran("job-1", 2, "worker-2")
    story.shows("job-1", attempt=1, lapses=1)

    assert story.violated == {"reruns"}


def test_a_run_that_goes_on_for_ever_overlaps_the_next(story: Story):
    story.submitted("job-1")
    story.claimed("job-1", 1, "worker-1")
    story.began("job-1", 1, "worker-1")
    story.ran("job-1", 2, "worker-2")
    story.shows("job-1", attempt=1, lapses=1)

    assert story.violated == {"overlaps", "reruns"}


def test_a_finished_job_that_runs_again_without_cause_is_a_rerun(story: Story):
    story.submitted("job-1")
    story.claimed("job-1", 1, "worker-1")
    story.began("job-1", 1, "worker-1")
    story.ended("job-1", 1, "worker-1")
    story.ran("job-1", 2, "worker-2")
    story.shows("job-1", attempt=1, lapses=1)

    assert story.violated == {"reruns"}


@pytest.mark.parametrize("attempt", [0, 2])
def test_an_attempt_too_few_or_too_many_is_a_miscount(story: Story, attempt: int):
    story.submitted("job-1")
    story.ran("job-1", 1, "worker-1")
    story.shows("job-1", attempt=attempt)

    assert story.violated == {"attempts"}


def test_a_failure_that_no_handler_had_is_a_miscount(story: Story):
    recovered(story, "job-1")
    story.shows("job-1", attempt=2, failures=1, crashes=1)

    assert story.violated == {"attempts"}


def test_a_job_that_dies_before_its_last_attempt_is_a_miscount(story: Story):
    story.submitted("job-1", fate=Fate.DEAD)
    story.ran("job-1", 1, "worker-1", Outcome.RAISED, Verb.KILL)
    story.shows("job-1", State.DEAD, failures=1, reason="exhausted")

    assert story.violated == {"attempts"}


def test_a_job_that_may_die_by_its_own_wish_is_no_miscount(story: Story):
    story.submitted("job-1", fate=Fate.DEAD)
    story.ran("job-1", 1, "worker-1", Outcome.RAISED, Verb.KILL)
    story.shows("job-1", State.DEAD, failures=1, reason="no such customer")

    assert story.violated == set()


def test_a_job_that_outlives_its_last_attempt_is_a_miscount(story: Story):
    story.submitted("job-1")
    story.ran("job-1", 1, "worker-1", Outcome.RAISED, Verb.RETRY)
    story.ran("job-1", 2, "worker-1", Outcome.RAISED, Verb.RETRY)
    story.ran("job-1", 3, "worker-1")
    story.shows("job-1", attempt=3, failures=2)

    assert story.violated == {"attempts"}


def test_a_success_without_a_handler_that_returned_is_a_false_outcome(story: Story):
    story.submitted("job-1")
    story.claimed("job-1", 1, "worker-1")
    story.began("job-1", 1, "worker-1")
    story.hurt("worker-1", FaultKind.KILL)
    story.shows("job-1")

    assert story.violated == {"outcomes"}


def test_a_job_that_ends_otherwise_than_it_had_to_is_a_false_outcome(story: Story):
    poisoned(story, "job-1")
    story.submitted("job-2", batch="two", fate=Fate.DEAD)
    story.ran("job-2", 1, "worker-1")
    story.shows("job-2")

    assert story.violated == {"outcomes"}


def test_an_accepted_success_that_is_forgotten_is_a_false_outcome(story: Story):
    poisoned(story, "job-1")
    story.settled("job-1", 2, "worker-1")

    assert story.violated == {"outcomes"}


def test_a_cancelled_job_that_is_claimed_afterwards_fits_no_order(story: Story):
    story.submitted("job-1")
    story.cancelled("job-1", CancelAnswer.CANCELLED)
    story.claimed("job-1", 1, "worker-1")
    story.shows("job-1", State.CANCELLED, attempt=0)

    assert story.violated == {"linear"}


def test_a_cancel_that_crosses_a_claim_is_answered_by_either_order(story: Story):
    for job, answer in (("job-1", CancelAnswer.ASKED), ("job-2", CancelAnswer.TOO_LATE)):
        story.submitted(job, batch=job)
        with story.cancelling(job, answer):
            story.ran(job, 1, "worker-1")
        story.shows(job)

    assert story.violated == set()


def test_a_job_that_is_cancelled_without_a_wish_is_a_false_outcome(story: Story):
    story.submitted("job-1")
    story.shows("job-1", State.CANCELLED, attempt=0)

    assert story.violated == {"outcomes"}


def test_a_job_that_was_cancelled_and_succeeds_is_a_false_outcome(story: Story):
    story.submitted("job-1")
    story.cancelled("job-1", CancelAnswer.CANCELLED)
    story.ran("job-1", 1, "worker-1")
    story.shows("job-1")

    assert story.violated == {"linear", "outcomes"}


@pytest.mark.parametrize("applied", [0, 2])
def test_a_success_that_changed_the_world_never_or_twice_is_found(story: Story, applied: int):
    recovered(story, "job-1")
    story.survey.cells[1] = Cell(2, applied)

    assert story.violated == {"effects"}


def test_a_dead_job_that_changed_the_world_is_found(story: Story):
    poisoned(story, "job-1")
    story.survey.cells[1] = Cell(1, 1)

    assert story.violated == {"effects"}


@pytest.mark.parametrize(
    "life",
    [
        [],
        [Name.STARTED, Name.SUCCEEDED],
        [Name.SUBMITTED, Name.SUCCEEDED, Name.STARTED],
        [Name.SUBMITTED, Name.STARTED, Name.STARTED, Name.SUCCEEDED],
        [Name.SUBMITTED, Name.STARTED, Name.FAILED, Name.SUCCEEDED],
        [Name.SUBMITTED, Name.STARTED],
    ],
)
def test_events_that_tell_an_impossible_life_are_found(story: Story, life: list[Name]):
    story.submitted("job-1")
    story.ran("job-1", 1, "worker-1")
    story.shows("job-1")
    story.survey.events["job-1"] = life

    assert story.violated == {"events"}


def test_a_finding_says_how_much_was_looked_at_and_gives_examples(story: Story):
    story.submitted(*(f"job-{seq}" for seq in range(9)))

    finding = check(gather(story.entries), story.survey)["lost"]

    assert (finding.checked, finding.violations, len(finding.examples)) == (9, 9, 5)
    assert finding.examples[0] == "job-0 was accepted and is nowhere"


def test_every_checker_is_broken_by_some_test_here():
    source = Path(__file__).read_text()

    assert [one.__name__ for one in CHECKERS if f'"{one.__name__}"' not in source] == []
