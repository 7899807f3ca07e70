import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from longshore.contract import Engine, JobFilter
from longshore.core.job import Submitted, Verdict
from longshore.core.schedule import Firing, Overlap, Schedule, Shot
from longshore.core.state import State
from longshore.errors import ConfigError, PayloadError, ScheduleNotFoundError, SubmitError
from longshore.runtime.clock import ManualClock
from longshore.testing.contract.arranging import bare
from longshore.testing.factories import HOUR, MINUTE, a_job, a_schedule
from longshore.testing.manual import a_worker


def _due_now(clock: ManualClock, **changes: object) -> Schedule:
    return a_schedule(next_due=clock.now(), **changes)


def _firing(schedule: Schedule, *shots: Shot) -> Firing:
    """Fire the schedule's next due time, or these shots, and move on by a minute."""
    due = schedule.next_due or 0
    chosen = shots or (Shot(due, a_job(queue=schedule.queue, tenant=schedule.tenant)),)
    return Firing(schedule.name, schedule.tenant, due, chosen, due + MINUTE)


async def test_a_schedule_is_kept_as_it_was_put(engine: Engine, clock: ManualClock) -> None:
    schedule = Schedule(
        name="report",
        tenant="acme",
        cron="0 7 * * mon-fri",
        timezone="Europe/Warsaw",
        type="report.send",
        payload=b'{"to": "anna"}',
        queue="mail",
        priority=2,
        max_attempts=3,
        timeout=None,
        tags=("daily",),
        overlap=Overlap.SKIP,
        jitter=MINUTE,
        next_due=clock.now() + HOUR,
    )

    await engine.put_schedule(schedule)

    assert await engine.schedules() == [schedule]


DEEP = b'{"a": ' + b"[" * 5_000 + b"]" * 5_000 + b"}"


@pytest.mark.parametrize(
    "changes",
    [
        {"name": ""},
        {"queue": "a queue"},
        {"type": "a type"},
        {"tenant": ""},
        {"tags": ("t",) * 31},
        {"payload": DEEP},
        {"payload": b"[]"},
        {"next_due": 2**60},
        {"next_due": -(2**60)},
        {"last_due": 2**60},
        {"anchor": 2**60},
        {"timezone": "Europe/Nowhere"},
    ],
    ids=lambda changes: f"{next(iter(changes))}-{str(next(iter(changes.values())))[:12]}",
)
async def test_a_schedule_out_of_the_limits_is_refused(
    engine: Engine, changes: dict[str, Any]
) -> None:
    with pytest.raises(ConfigError):
        await engine.put_schedule(a_schedule(**changes))

    assert await engine.schedules() == []


@pytest.mark.parametrize("changes", [{"payload": DEEP}, {"queue": "a queue"}])
async def test_a_firing_whose_job_is_out_of_the_limits_is_refused_and_the_schedule_stays_due(
    engine: Engine, clock: ManualClock, changes: dict[str, Any]
) -> None:
    schedule = _due_now(clock)
    await engine.put_schedule(schedule)

    with pytest.raises((SubmitError, PayloadError)):
        await engine.fire(_firing(schedule, Shot(clock.now(), a_job(**changes))))
    with pytest.raises(SubmitError):
        await engine.fire(replace(_firing(schedule), next_due=2**60))

    assert await engine.schedules() == [schedule]
    assert (await engine.find(JobFilter(), limit=9)).jobs == []


async def test_schedules_are_listed_by_name_and_by_tenant(engine: Engine) -> None:
    for name, tenant in (("b", "acme"), ("a", "acme"), ("c", "other"), ("a", "other")):
        await engine.put_schedule(a_schedule(name=name, tenant=tenant))

    mine = await engine.schedules(tenant="acme")
    every = await engine.schedules()

    assert [one.name for one in mine] == ["a", "b"]
    assert [one.name for one in every] == ["a", "a", "b", "c"]


async def test_what_is_due_is_listed_with_the_engines_time(
    engine: Engine, clock: ManualClock
) -> None:
    due = _due_now(clock)
    await engine.put_schedule(due)
    await engine.put_schedule(a_schedule(name="later", next_due=clock.now() + 1))
    await engine.put_schedule(a_schedule(name="paused", next_due=1, is_paused=True))
    await engine.put_schedule(a_schedule(name="over", next_due=None))

    (found,) = await engine.due_schedules(limit=10)

    assert (found.schedule, found.now, found.is_last_job_live) == (due, clock.now(), False)


async def test_the_longest_due_schedules_come_first(engine: Engine, clock: ManualClock) -> None:
    for name, ago in (("a", 1), ("b", 3), ("c", 2)):
        await engine.put_schedule(a_schedule(name=name, next_due=clock.now() - ago))

    found = await engine.due_schedules(limit=2)

    assert [due.schedule.name for due in found] == ["b", "c"]


async def test_firing_submits_the_job_and_moves_the_schedule_on(
    engine: Engine, clock: ManualClock
) -> None:
    schedule = _due_now(clock)
    await engine.put_schedule(schedule)
    job = a_job(run_at=clock.now())
    due = clock.now()

    answers = await engine.fire(_firing(schedule, Shot(due, job)))

    (moved,) = await engine.schedules()
    assert [bare(answer) for answer in answers] == [Submitted(job.id, Verdict.ACCEPTED)]
    assert (await engine.get(job.id)).state is State.READY
    assert (moved.next_due, moved.last_due, moved.last_job) == (due + MINUTE, due, job.id)
    assert await engine.due_schedules(limit=10) == []


async def test_of_two_schedulers_one_fires(engine: Engine, clock: ManualClock) -> None:
    schedule = _due_now(clock)
    await engine.put_schedule(schedule)

    answers = await asyncio.gather(*(engine.fire(_firing(schedule)) for _ in range(5)))

    assert sorted(len(answer) for answer in answers) == [0, 0, 0, 0, 1]
    assert len((await engine.find(JobFilter(), limit=10)).jobs) == 1


async def test_a_late_scheduler_fires_nothing(engine: Engine, clock: ManualClock) -> None:
    schedule = _due_now(clock)
    await engine.put_schedule(schedule)
    await engine.fire(_firing(schedule))
    (before,) = await engine.schedules()

    answers = await engine.fire(_firing(schedule))

    assert answers == []
    assert await engine.schedules() == [before]
    assert len((await engine.find(JobFilter(), limit=10)).jobs) == 1


async def test_a_scheduler_that_saw_an_older_definition_fires_nothing(
    engine: Engine, clock: ManualClock
) -> None:
    """The due time it saw was never fired: only the place of the schedule can hold it off."""
    seen = _due_now(clock)
    await engine.put_schedule(seen)
    await engine.put_schedule(replace(seen, next_due=clock.now() + HOUR))

    answers = await engine.fire(_firing(seen))

    (kept,) = await engine.schedules()
    assert answers == []
    assert (kept.next_due, kept.last_due) == (clock.now() + HOUR, None)
    assert (await engine.find(JobFilter(), limit=10)).jobs == []


async def test_a_due_time_never_fires_twice_even_if_the_schedule_is_set_back(
    engine: Engine, clock: ManualClock
) -> None:
    schedule = _due_now(clock)
    await engine.put_schedule(schedule)
    await engine.fire(_firing(schedule))
    await engine.put_schedule(schedule)
    due = clock.now()
    fresh = a_job()

    answers = await engine.fire(
        _firing(schedule, Shot(due, a_job()), Shot(due + MINUTE, fresh))
    )

    assert [bare(answer) for answer in answers] == [Submitted(fresh.id, Verdict.ACCEPTED)]
    assert len((await engine.find(JobFilter(), limit=10)).jobs) == 2


async def test_the_same_due_time_of_another_schedule_fires_too(
    engine: Engine, clock: ManualClock
) -> None:
    schedules = [
        _due_now(clock, name="a"),
        _due_now(clock, name="b"),
        _due_now(clock, name="a", tenant="other"),
    ]
    for schedule in schedules:
        await engine.put_schedule(schedule)

    answers = [await engine.fire(_firing(schedule)) for schedule in schedules]

    assert [len(answer) for answer in answers] == [1, 1, 1]


async def test_several_missed_due_times_fire_in_one_go(
    engine: Engine, clock: ManualClock
) -> None:
    schedule = _due_now(clock)
    await engine.put_schedule(schedule)
    shots = [Shot(clock.now() + number * MINUTE, a_job()) for number in range(3)]

    answers = await engine.fire(_firing(schedule, *shots))

    (moved,) = await engine.schedules()
    assert [answer.id for answer in answers] == [shot.job.id for shot in shots if shot.job]
    assert moved.last_due == shots[-1].due
    assert moved.last_job == answers[-1].id


async def test_a_skipped_due_time_submits_nothing_but_moves_on(
    engine: Engine, clock: ManualClock
) -> None:
    schedule = _due_now(clock)
    await engine.put_schedule(schedule)

    answers = await engine.fire(_firing(schedule, Shot(clock.now(), None)))

    (moved,) = await engine.schedules()
    assert answers == []
    assert (moved.next_due, moved.last_job) == (clock.now() + MINUTE, None)
    assert (await engine.find(JobFilter(), limit=10)).jobs == []


async def test_a_schedule_may_come_to_its_end(engine: Engine, clock: ManualClock) -> None:
    schedule = _due_now(clock)
    await engine.put_schedule(schedule)
    last = replace(_firing(schedule), next_due=None)

    await engine.fire(last)

    clock.advance(HOUR)
    assert await engine.due_schedules(limit=10) == []
    assert (await engine.schedules())[0].next_due is None


async def test_whether_the_last_job_is_live_is_told_for_every_stage_of_its_life(
    engine: Engine, clock: ManualClock
) -> None:
    schedule = _due_now(clock)
    await engine.put_schedule(schedule)
    await engine.fire(_firing(schedule))
    clock.advance(MINUTE)
    seen: list[bool] = []

    async def look() -> None:
        (due,) = await engine.due_schedules(limit=10)
        seen.append(due.is_last_job_live)

    await look()
    worker = await a_worker(engine)
    (claim,) = await worker.claim()
    await look()
    await worker.fail(claim)
    await look()
    await engine.retry_now([claim.id])
    (claim,) = await worker.claim()
    await worker.succeed(claim)
    await look()
    await engine.purge([claim.id])
    await look()

    assert seen == [True, True, True, False, False]


async def test_a_replaced_definition_keeps_what_the_schedule_fired(
    engine: Engine, clock: ManualClock
) -> None:
    schedule = _due_now(clock)
    await engine.put_schedule(schedule)
    ((answer,), due) = (await engine.fire(_firing(schedule)), clock.now())

    await engine.put_schedule(a_schedule(every=HOUR, next_due=due + HOUR))

    (replaced,) = await engine.schedules()
    assert (replaced.every, replaced.next_due) == (HOUR, due + HOUR)
    assert (replaced.last_due, replaced.last_job) == (due, answer.id)


@pytest.mark.parametrize(
    "change", [{"is_paused": True}, {"priority": 1}, {"next_due": 1}], ids=str
)
async def test_a_schedule_that_changed_since_it_was_seen_is_not_replaced(
    engine: Engine, clock: ManualClock, change: dict[str, object]
) -> None:
    """Somebody paused it, a deployment changed it, or it fired."""
    seen = _due_now(clock)
    await engine.put_schedule(seen)
    current = replace(seen, **change)
    await engine.put_schedule(current)

    is_stored = await engine.put_schedule(replace(seen, priority=9), seen=seen)

    assert is_stored is False
    assert await engine.schedules() == [current]


async def test_a_schedule_that_stands_as_it_was_seen_is_replaced(
    engine: Engine, clock: ManualClock
) -> None:
    schedule = _due_now(clock)
    await engine.put_schedule(schedule)
    await engine.fire(_firing(schedule))
    (seen,) = await engine.schedules()

    is_stored = await engine.put_schedule(replace(seen, priority=9), seen=seen)

    assert is_stored is True
    assert await engine.schedules() == [replace(seen, priority=9)]


async def test_a_schedule_that_is_gone_is_not_replaced(
    engine: Engine, clock: ManualClock
) -> None:
    seen = _due_now(clock)

    assert await engine.put_schedule(seen, seen=seen) is False
    assert await engine.schedules() == []


async def test_a_paused_schedule_does_not_fire(engine: Engine, clock: ManualClock) -> None:
    """It may have been paused after a scheduler saw it due."""
    schedule = _due_now(clock)
    await engine.put_schedule(replace(schedule, is_paused=True))

    answers = await engine.fire(_firing(schedule))

    assert answers == []
    assert (await engine.schedules())[0].next_due == clock.now()


async def test_a_deleted_schedule_is_gone_and_its_jobs_stay(
    engine: Engine, clock: ManualClock
) -> None:
    schedule = _due_now(clock)
    await engine.put_schedule(schedule)
    (answer,) = await engine.fire(_firing(schedule))

    await engine.delete_schedule("nightly")

    assert await engine.schedules() == []
    assert await engine.fire(_firing(schedule)) == []
    assert (await engine.get(answer.id)).state is State.READY


async def test_only_ones_own_schedules_can_be_deleted(engine: Engine) -> None:
    await engine.put_schedule(a_schedule(tenant="other"))

    with pytest.raises(ScheduleNotFoundError) as caught:
        await engine.delete_schedule("nightly", tenant="acme")

    assert caught.value.name == "nightly"
    assert len(await engine.schedules()) == 1


async def test_a_fired_job_keeps_to_the_rules_of_any_other(
    engine: Engine, clock: ManualClock
) -> None:
    holder = a_job(unique_key="report")
    await engine.submit([holder])
    schedule = _due_now(clock)
    await engine.put_schedule(schedule)

    answers = await engine.fire(
        _firing(schedule, Shot(clock.now(), a_job(unique_key="report")))
    )

    assert answers == [Submitted(holder.id, Verdict.UNIQUE)]
