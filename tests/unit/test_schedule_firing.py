"""What a due schedule fires, late, after downtime, and while its last job still runs."""

import itertools
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as some
from msgspec.structs import replace

from longshore.core import ids, schedule_tags
from longshore.core.job import JobId
from longshore.core.schedule import (
    CatchUp,
    DueSchedule,
    Firing,
    Overlap,
    Schedule,
    decide,
    due_times,
    extra_job,
    next_due,
)

MS = 1_000
SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 3_600 * SECOND
DAY = 24 * HOUR
NOON = int(datetime(2026, 5, 1, 12, tzinfo=UTC).timestamp()) * SECOND

HOURLY = Schedule(name="hourly", type="report", cron="@hourly")
SECONDS = Schedule(name="seconds", type="poll", cron="* * * * * *")
TENTHS = Schedule(name="tenths", type="poll", every=SECOND // 10)

numbers = itertools.count()


def new_id() -> JobId:
    return ids.make(NOON // 1000, next(numbers).to_bytes(10, "big"))


def fire(schedule: Schedule, *, due: int, now: int, is_last_job_live: bool = False) -> Firing:
    return decide(DueSchedule(replace(schedule, next_due=due), now, is_last_job_live), new_id)


def dues(firing: Firing) -> list[int]:
    return [shot.due for shot in firing.shots]


@pytest.mark.parametrize("policy", CatchUp)
@pytest.mark.parametrize("lateness", [0, SECOND, 20 * SECOND, MINUTE])
def test_a_due_time_that_is_only_late_fires_under_every_policy(policy: CatchUp, lateness: int):
    firing = fire(replace(HOURLY, catch_up=policy), due=NOON, now=NOON + lateness)

    assert dues(firing) == [NOON]
    assert firing.expected == NOON
    assert firing.next_due == NOON + HOUR


@pytest.mark.parametrize("policy", CatchUp)
@pytest.mark.parametrize("schedule", [SECONDS, TENTHS], ids=lambda schedule: schedule.name)
def test_a_short_stall_loses_no_due_time_under_any_policy(schedule: Schedule, policy: CatchUp):
    firing = fire(replace(schedule, catch_up=policy), due=NOON, now=NOON + 5 * SECOND)

    step = schedule.every or SECOND
    assert dues(firing) == list(range(NOON, NOON + 5 * SECOND + 1, step))


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (CatchUp.SKIP, []),
        (CatchUp.LATEST, [NOON]),
        (CatchUp.ALL, [NOON - back * HOUR for back in range(24, -1, -1)]),
    ],
)
def test_a_day_of_downtime_is_caught_up_as_the_policy_says(
    policy: CatchUp, expected: list[int]
):
    firing = fire(replace(HOURLY, catch_up=policy), due=NOON - DAY, now=NOON + MINUTE + SECOND)

    assert dues(firing) == expected
    assert firing.next_due == NOON + HOUR


def test_skip_fires_the_latest_due_time_if_it_is_only_late():
    firing = fire(replace(HOURLY, catch_up=CatchUp.SKIP), due=NOON - DAY, now=NOON + MINUTE)

    assert dues(firing) == [NOON]


@pytest.mark.parametrize("schedule", [SECONDS, TENTHS], ids=lambda schedule: schedule.name)
def test_a_forward_step_of_the_clock_fires_no_burst(schedule: Schedule):
    firing = fire(schedule, due=NOON, now=NOON + HOUR)

    assert dues(firing) == [NOON + HOUR]


def test_all_keeps_the_newest_up_to_its_limit_in_order():
    schedule = replace(SECONDS, catch_up=CatchUp.ALL, catch_up_limit=3)

    firing = fire(schedule, due=NOON - DAY, now=NOON + 300 * MS)

    assert dues(firing) == [NOON - 2 * SECOND, NOON - SECOND, NOON]


def test_the_newest_are_found_across_a_quiet_half_year():
    """Every second of New Year's Day: the burst lies months before the moment of looking."""
    schedule = replace(SECONDS, cron="* * * 1 1 *", catch_up=CatchUp.ALL, catch_up_limit=2)
    new_year = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp()) * SECOND

    firing = fire(schedule, due=new_year, now=NOON)

    assert dues(firing) == [new_year + DAY - 2 * SECOND, new_year + DAY - SECOND]


@pytest.mark.parametrize("is_live", [False, True])
def test_overlap_allowed_fires_whatever_still_runs(is_live: bool):
    firing = fire(HOURLY, due=NOON, now=NOON, is_last_job_live=is_live)

    assert [shot.job is not None for shot in firing.shots] == [True]


def test_overlap_skip_passes_a_due_time_by_while_the_last_job_lives():
    schedule = replace(HOURLY, overlap=Overlap.SKIP)

    held_back = fire(schedule, due=NOON, now=NOON, is_last_job_live=True)
    free = fire(schedule, due=NOON, now=NOON)

    assert [(shot.due, shot.job) for shot in held_back.shots] == [(NOON, None)]
    assert held_back.next_due == NOON + HOUR
    assert [shot.job is not None for shot in free.shots] == [True]


def test_overlap_skip_gives_one_job_to_due_times_that_fire_together():
    schedule = replace(HOURLY, overlap=Overlap.SKIP, catch_up=CatchUp.ALL)

    firing = fire(schedule, due=NOON - 2 * HOUR, now=NOON)

    assert [shot.job is not None for shot in firing.shots] == [False, False, True]


def test_a_job_is_what_its_schedule_says():
    schedule = Schedule(
        name="nightly",
        tenant="acme",
        type="report",
        cron="@daily",
        payload=b'{"kind":"full"}',
        queue="reports",
        priority=2,
        max_attempts=3,
        timeout=None,
        tags=("nightly",),
    )

    job = fire(schedule, due=NOON, now=NOON + SECOND).shots[0].job

    assert job is not None
    assert (job.type, job.payload, job.queue, job.tenant) == (
        "report",
        b'{"kind":"full"}',
        "reports",
        "acme",
    )
    assert (job.priority, job.max_attempts, job.timeout, job.run_at) == (2, 3, None, NOON)
    assert job.tags == ("schedule:nightly", "due:2026-05-01T12:00:00Z", "nightly")


def test_a_job_tells_the_due_time_and_not_when_it_runs():
    late = fire(replace(HOURLY, jitter=MINUTE), due=NOON, now=NOON + 30 * MINUTE).shots[0].job

    assert late is not None
    assert late.run_at != NOON
    assert schedule_tags.schedule_of(late.tags) == "hourly"
    assert schedule_tags.due_of(late.tags) == datetime(2026, 5, 1, 12, tzinfo=UTC)


def test_tags_that_only_look_like_a_due_time_are_none():
    assert schedule_tags.due_of(("a", "due:soon")) is None
    assert schedule_tags.due_of(("due:2026-05-01T12:00:00",)) is None
    assert schedule_tags.due_of(()) is None
    assert schedule_tags.schedule_of(("a",)) is None


def test_an_extra_job_runs_at_once_and_stands_for_no_due_time():
    schedule = replace(HOURLY, jitter=MINUTE, next_due=NOON, tags=("cron",))

    job = extra_job(schedule, new_id())

    assert (job.type, job.run_at, job.tags) == ("report", None, ("schedule:hourly", "cron"))


def run_at(schedule: Schedule, *, due: int, now: int) -> int:
    job = fire(schedule, due=due, now=now).shots[-1].job
    assert job is not None
    assert job.run_at is not None
    return job.run_at


def test_jitter_moves_the_job_and_never_the_due_time():
    schedule = replace(HOURLY, jitter=10 * MINUTE)

    firings = [fire(schedule, due=NOON + n * HOUR, now=NOON + n * HOUR) for n in range(50)]
    moved = [
        shot.job.run_at - shot.due
        for firing in firings
        for shot in firing.shots
        if shot.job is not None and shot.job.run_at is not None
    ]

    assert [due for firing in firings for due in dues(firing)] == [
        NOON + n * HOUR for n in range(50)
    ]
    assert all(0 <= offset < 10 * MINUTE for offset in moved)
    assert len(set(moved)) == 50


def test_every_scheduler_draws_the_same_jitter_for_a_due_time():
    schedule = replace(HOURLY, jitter=10 * MINUTE)

    assert run_at(schedule, due=NOON, now=NOON) == run_at(schedule, due=NOON, now=NOON + SECOND)
    assert run_at(schedule, due=NOON, now=NOON) != run_at(
        replace(schedule, name="other"), due=NOON, now=NOON
    )


def test_after_downtime_jitter_spreads_the_jobs_from_now():
    now = NOON + 30 * MINUTE
    spread = [
        run_at(replace(HOURLY, name=f"s{n}", jitter=MINUTE), due=NOON, now=now)
        for n in range(20)
    ]

    assert all(now <= moment < now + MINUTE for moment in spread)
    assert len(set(spread)) == 20


@given(
    cron=some.sampled_from(["* * * * * *", "*/7 * * * *", "30 2 * * *", "0 0 1 * *"]),
    zone=some.sampled_from(["UTC", "Europe/Berlin", "Australia/Lord_Howe"]),
    start=some.integers(NOON - 400 * DAY, NOON),
    downtime=some.integers(0, 3 * DAY),
    limit=some.integers(1, 40),
)
def test_all_fires_the_tail_of_the_grid(
    cron: str, zone: str, start: int, downtime: int, limit: int
):
    schedule = Schedule(name="s", type="t", cron=cron, timezone=zone, catch_up_limit=limit)
    due = next_due(schedule, start)
    assert due is not None
    now = due + 6 * SECOND + downtime

    fired = due_times(replace(schedule, catch_up=CatchUp.ALL, next_due=due), now)

    latest_after = next_due(schedule, fired[-1])
    assert latest_after is not None
    assert latest_after > now
    assert [next_due(schedule, older) for older in fired[:-1]] == fired[1:]
    assert len(fired) == limit or fired[0] == due
