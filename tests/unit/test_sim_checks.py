"""The checkers that only a simulation has let good worlds pass, and catch what they are for."""

from collections.abc import Set

import pytest
from story import Story

from longshore.contract import Renewed
from longshore_lab.history import gather
from longshore_lab.records import FaultKind, Outcome
from longshore_lab.sim import checks

SECOND = 1_000_000


@pytest.fixture
def story() -> Story:
    return Story()


def taken_over(story: Story, *, lingers: float) -> None:
    """A job that another worker runs, and its first worker for so many seconds more."""
    story.submitted("job-1")
    for delivery, worker in ((1, "worker-1"), (2, "worker-2")):
        story.claimed("job-1", delivery, worker)
        story.began("job-1", delivery, worker)
    story.waits(lingers)
    story.ended("job-1", 1, "worker-1", Outcome.STOPPED)


def lingers(story: Story, unaware: Set[str] = frozenset()) -> bool:
    return not checks.lingering(gather(story.entries), unaware=unaware, lease=10.0).holds


def test_a_handler_that_goes_on_while_another_worker_runs_its_job_lingers(story: Story):
    taken_over(story, lingers=1.5)

    assert lingers(story)


def test_a_handler_that_is_stopped_within_a_second_does_not_linger(story: Story):
    taken_over(story, lingers=0.5)

    assert not lingers(story)


def test_a_worker_that_does_not_know_how_late_it_is_may_linger(story: Story):
    taken_over(story, lingers=1.5)

    assert not lingers(story, unaware={"worker-1"})
    assert lingers(story, unaware={"worker-2"})


@pytest.mark.parametrize("more", [0.5, 1.5])
def test_a_worker_that_stood_still_has_its_second_after_that(story: Story, more: float):
    story.submitted("job-1")
    story.claimed("job-1", 1, "worker-1")
    story.began("job-1", 1, "worker-1")
    story.hurt("worker-1", FaultKind.STOP)
    story.claimed("job-1", 2, "worker-2")
    story.began("job-1", 2, "worker-2")
    story.waits(30)
    story.hurt("worker-1", FaultKind.RESUME)
    story.waits(more)
    story.ended("job-1", 1, "worker-1", Outcome.STOPPED)

    assert lingers(story) == (more > 1)


@pytest.mark.parametrize(
    ("is_cut_off", "set_by", "more", "is_late"),
    [
        (True, 20.0, 10.5, False),
        (True, 20.0, 11.5, True),
        (True, 0.5, 1.25, False),
        (True, 0.5, 2.5, True),
        (True, -20.0, 1.5, True),
        (False, 20.0, 1.5, True),
    ],
    ids=["its own count", "past that", "a little", "past a little", "set back", "in reach"],
)
def test_who_cannot_hear_that_a_lease_ended_early_has_until_it_would_have_ended(
    story: Story, is_cut_off: bool, set_by: float, more: float, is_late: bool
):
    story.submitted("job-1")
    story.claimed("job-1", 1, "worker-1")
    story.began("job-1", 1, "worker-1")
    if is_cut_off:
        story.hurt("worker-1", FaultKind.STOP)
    story.hurt(checks.ENGINE, FaultKind.STEP, set_by)
    story.claimed("job-1", 2, "worker-2")
    story.began("job-1", 2, "worker-2")
    story.waits(more)
    story.ended("job-1", 1, "worker-1", Outcome.STOPPED)

    assert lingers(story) == is_late


def test_runs_of_one_job_one_after_the_other_do_not_linger(story: Story):
    story.submitted("job-1")
    story.ran("job-1", 1, "worker-1", Outcome.RAISED)
    story.waits(5)
    story.ran("job-1", 2, "worker-2")

    assert not lingers(story)


@pytest.mark.parametrize("is_hurt", [False, True])
def test_only_a_worker_that_was_hurt_may_be_refused(story: Story, is_hurt: bool):
    story.submitted("job-1")
    story.claimed("job-1", 1, "worker-1")
    story.began("job-1", 1, "worker-1")
    if is_hurt:
        story.hurt("worker-1", FaultKind.STOP)
        story.hurt("worker-1", FaultKind.RESUME)
    story.ended("job-1", 1, "worker-1")
    story.settled("job-1", 1, "worker-1", accepted=False)

    assert checks.refused(gather(story.entries)).holds == is_hurt


@pytest.mark.parametrize("late", [-1, 0])
def test_a_lease_that_is_renewed_when_it_is_over_is_revived(late: int):
    first = Renewed(now=0, expires_at=10 * SECOND)
    second = Renewed(now=first.expires_at + late, expires_at=20 * SECOND)
    other = Renewed(now=30 * SECOND, expires_at=40 * SECOND)

    finding = checks.revived([(1, first), (2, other), (1, second)])

    assert finding.holds == (late < 0)
