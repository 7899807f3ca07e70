"""Three schedulers on one store, killed and stopped: each due time has one job.

The due times are counted twice outside the queue: by plain arithmetic, and by the handlers,
which write into a ledger which due time they ran for.
"""

from pathlib import Path

import pytest

from longshore.core.schedule import CatchUp
from longshore_lab.firing import FiringVerdict, beaten, blows_for, judge, run
from longshore_lab.records import DueRan
from longshore_lab.trial import Trial

ANY_POLICY = tuple(CatchUp)


def a_trial(url: str, folder: Path, *, pause: float, sabotage: str | None = None) -> Trial:
    return Trial(url=url, folder=str(folder), lease_seconds=pause / 2, sabotage=sabotage)


async def for_a_moment(url: str, folder: Path) -> FiringVerdict:
    blows = blows_for(1, 4, every=0.7)
    return await run(a_trial(url, folder, pause=1.0), beaten(5), blows, within=60)


async def for_a_thousand_due_times(
    url: str, folder: Path, policies: tuple[CatchUp, ...]
) -> FiringVerdict:
    """Fourteen due times a second for over a minute; each stop is longer than any hiccup."""
    blows = blows_for(7, 26, every=3.0)
    trial = a_trial(url, folder, pause=7.0)
    return await run(trial, beaten(1, catch_up=policies), blows, within=300)


async def with_a_bug(url: str, folder: Path, bug: str) -> FiringVerdict:
    trial = a_trial(url, folder, pause=1.0, sabotage=bug)
    return await run(trial, beaten(5), blows_for(3, 12, every=0.7), within=120)


@pytest.mark.slow
async def test_schedulers_killed_and_stopped_fire_each_due_time_once_on_sqlite(tmp_path: Path):
    verdict = await for_a_moment(f"sqlite:///{tmp_path}/jobs.db", tmp_path)

    assert verdict.holds, verdict.document()
    assert verdict.due > 100


@pytest.mark.prove
async def test_schedulers_killed_and_stopped_fire_each_due_time_once_on_postgres(
    empty_postgres_url: str, tmp_path: Path
):
    verdict = await for_a_moment(empty_postgres_url, tmp_path)

    assert verdict.holds, verdict.document()
    assert verdict.misplaced == 0
    assert verdict.due > 100


@pytest.mark.prove
async def test_of_a_thousand_due_times_none_is_doubled_or_missed_on_sqlite(tmp_path: Path):
    url = f"sqlite:///{tmp_path}/jobs.db"

    verdict = await for_a_thousand_due_times(url, tmp_path, (CatchUp.ALL,))

    assert verdict.holds, verdict.document()
    assert verdict.due >= 1_000


@pytest.mark.prove
async def test_of_a_thousand_due_times_none_is_doubled_or_missed_on_postgres(
    empty_postgres_url: str, tmp_path: Path
):
    """Under any catch-up policy: while one of three lives, nothing has to be caught up."""
    verdict = await for_a_thousand_due_times(empty_postgres_url, tmp_path, ANY_POLICY)

    assert verdict.holds, verdict.document()
    assert verdict.misplaced == 0
    assert verdict.due >= 1_000


@pytest.mark.prove
async def test_jobs_that_are_submitted_before_the_due_time_is_taken_are_seen_to_be_doubled(
    empty_postgres_url: str, tmp_path: Path
):
    verdict = await with_a_bug(empty_postgres_url, tmp_path, "double")

    assert verdict.doubled
    assert not verdict.missed


@pytest.mark.prove
async def test_due_times_that_are_taken_before_their_jobs_are_submitted_are_seen_to_be_missed(
    empty_postgres_url: str, tmp_path: Path
):
    verdict = await with_a_bug(empty_postgres_url, tmp_path, "miss")

    assert verdict.missed
    assert not verdict.doubled


def test_the_count_tells_what_was_missed_doubled_or_never_due():
    ran = [
        DueRan(0, "a", 1, "job-1", 1),
        DueRan(1, "a", 1, "job-1", 2),
        DueRan(2, "a", 2, "job-2", 1),
        DueRan(3, "a", 2, "job-3", 1),
        DueRan(4, "b", 9, "job-4", 1),
    ]

    verdict = judge({("a", 1), ("a", 2), ("a", 3)}, ran)

    assert verdict.missed == [("a", 3)]
    assert verdict.doubled == [("a", 2)]
    assert verdict.strange == [("b", 9)]
    assert not verdict.holds
    assert not judge(set(), []).holds


def test_a_job_in_two_places_breaks_the_trial_of_schedulers():
    verdict = judge({("a", 1)}, [DueRan(0, "a", 1, "job-1", 1)])
    held = verdict.holds

    verdict.misplaced = 1

    assert held
    assert not verdict.holds
    assert verdict.document()["misplaced"] == 1
