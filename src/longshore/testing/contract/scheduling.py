import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from longshore.contract import Engine, JobFilter
from longshore.contract.records import AuditRecord, Delete, Kind, Put, Ref, Written
from longshore.core.job import Submitted, Verdict
from longshore.core.schedule import Firing, Overlap, Schedule, Shot, decide, next_due
from longshore.core.state import State
from longshore.errors import ConfigError, PayloadError, ScheduleNotFoundError, SubmitError
from longshore.records import schedules
from longshore.runtime.clock import ManualClock
from longshore.testing.contract.arranging import bare
from longshore.testing.factories import HOUR, MINUTE, a_job, a_schedule, an_id
from longshore.testing.manual import a_worker


def _due_now(clock: ManualClock, **changes: object) -> Schedule:
    return a_schedule(next_due=clock.now(), **changes)


def _into(wanted: Schedule) -> Callable[[Schedule | None, int], Schedule]:
    return lambda _existing, _now: wanted


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

    await schedules.put(engine, schedule)

    assert await schedules.every(engine) == [schedule]


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
        await schedules.put(engine, a_schedule(**changes))

    assert await schedules.every(engine) == []


@pytest.mark.parametrize("changes", [{"payload": DEEP}, {"queue": "a queue"}])
async def test_a_firing_whose_job_is_out_of_the_limits_is_refused_and_the_schedule_stays_due(
    engine: Engine, clock: ManualClock, changes: dict[str, Any]
) -> None:
    schedule = _due_now(clock)
    await schedules.put(engine, schedule)

    with pytest.raises((SubmitError, PayloadError)):
        await engine.fire(_firing(schedule, Shot(clock.now(), a_job(**changes))))
    with pytest.raises(SubmitError):
        await engine.fire(replace(_firing(schedule), next_due=2**60))

    assert await schedules.every(engine) == [schedule]
    assert (await engine.find(JobFilter(), limit=9)).jobs == []


async def test_schedules_are_listed_by_name_and_by_tenant(engine: Engine) -> None:
    for name, tenant in (("b", "acme"), ("a", "acme"), ("c", "other"), ("a", "other")):
        await schedules.put(engine, a_schedule(name=name, tenant=tenant))

    mine = await schedules.every(engine, tenant="acme")
    every = await schedules.every(engine)

    assert [one.name for one in mine] == ["a", "b"]
    assert [one.name for one in every] == ["a", "a", "b", "c"]


async def test_what_is_due_is_listed_with_the_engines_time(
    engine: Engine, clock: ManualClock
) -> None:
    due = _due_now(clock)
    await schedules.put(engine, due)
    await schedules.put(engine, a_schedule(name="later", next_due=clock.now() + 1))
    await schedules.put(engine, a_schedule(name="paused", next_due=1, is_paused=True))
    await schedules.put(engine, a_schedule(name="over", next_due=None))

    (found,) = await schedules.due(engine, limit=10)

    assert (found.schedule, found.now, found.is_last_job_live) == (due, clock.now(), False)


async def test_the_longest_due_schedules_come_first(engine: Engine, clock: ManualClock) -> None:
    for name, ago in (("a", 1), ("b", 3), ("c", 2)):
        await schedules.put(engine, a_schedule(name=name, next_due=clock.now() - ago))

    found = await schedules.due(engine, limit=2)

    assert [due.schedule.name for due in found] == ["b", "c"]


async def test_a_firing_that_was_decided_before_the_schedule_changed_is_not_applied(
    engine: Engine, clock: ManualClock
) -> None:
    schedule = _due_now(clock, every=MINUTE)
    await schedules.put(engine, schedule)
    (seen,) = await schedules.due(engine, limit=9)
    hourly = replace(schedule, type="hourly", every=HOUR)

    await schedules.change(engine, schedule.name, schedule.tenant, _into(hourly))
    early = await engine.fire(decide(seen, an_id))

    assert early == []
    (due,) = await schedules.due(engine, limit=9)
    assert due.schedule == hourly
    await engine.fire(decide(due, an_id))
    (fired,) = await schedules.every(engine)
    assert [job.type for job in (await engine.find(JobFilter(), limit=9)).jobs] == ["hourly"]
    assert (fired.last_due, fired.next_due) == (clock.now(), next_due(hourly, clock.now()))


class _Meanwhile:
    """Records that are fired between what is read of them and what is written."""

    def __init__(self, engine: Engine, firing: Firing) -> None:
        self._engine = engine
        self._firing = firing
        self.get_records = engine.get_records
        self.list_records = engine.list_records

    async def write_records(
        self, changes: Sequence[Put | Delete], *, audit: AuditRecord | None
    ) -> Written:
        await self._engine.fire(self._firing)
        return await self._engine.write_records(changes, audit=audit)


async def test_a_schedule_with_new_times_is_due_by_them_though_it_fired_meanwhile(
    engine: Engine, clock: ManualClock
) -> None:
    schedule = _due_now(clock, every=MINUTE)
    await schedules.put(engine, schedule)
    hourly = replace(schedule, every=HOUR)

    await schedules.change(
        _Meanwhile(engine, _firing(schedule)),
        schedule.name,
        schedule.tenant,
        _into(hourly),
    )

    # Not a minute later; it has fired, and is moved on by whoever looks next.
    assert (await schedules.every(engine))[0].next_due == clock.now()
    (due,) = await schedules.due(engine, limit=9)
    assert await engine.fire(decide(due, an_id)) == []
    assert (await schedules.every(engine))[0].next_due == next_due(hourly, clock.now())


async def test_firing_submits_the_job_and_moves_the_schedule_on(
    engine: Engine, clock: ManualClock
) -> None:
    schedule = _due_now(clock)
    await schedules.put(engine, schedule)
    job = a_job(run_at=clock.now())
    due = clock.now()

    answers = await engine.fire(_firing(schedule, Shot(due, job)))

    (moved,) = await schedules.every(engine)
    assert [bare(answer) for answer in answers] == [Submitted(job.id, Verdict.ACCEPTED)]
    assert (await engine.get(job.id)).state is State.READY
    assert (moved.next_due, moved.last_due, moved.last_job) == (due + MINUTE, due, job.id)
    assert await schedules.due(engine, limit=10) == []


async def test_of_two_schedulers_one_fires(engine: Engine, clock: ManualClock) -> None:
    schedule = _due_now(clock)
    await schedules.put(engine, schedule)

    answers = await asyncio.gather(*(engine.fire(_firing(schedule)) for _ in range(5)))

    assert sorted(len(answer) for answer in answers) == [0, 0, 0, 0, 1]
    assert len((await engine.find(JobFilter(), limit=10)).jobs) == 1


async def test_a_late_scheduler_fires_nothing(engine: Engine, clock: ManualClock) -> None:
    schedule = _due_now(clock)
    await schedules.put(engine, schedule)
    await engine.fire(_firing(schedule))
    (before,) = await schedules.every(engine)

    answers = await engine.fire(_firing(schedule))

    assert answers == []
    assert await schedules.every(engine) == [before]
    assert len((await engine.find(JobFilter(), limit=10)).jobs) == 1


async def test_a_scheduler_that_saw_an_older_definition_fires_nothing(
    engine: Engine, clock: ManualClock
) -> None:
    """The due time it saw was never fired: only the place of the schedule can hold it off."""
    seen = _due_now(clock)
    await schedules.put(engine, seen)
    await schedules.put(engine, replace(seen, next_due=clock.now() + HOUR))

    answers = await engine.fire(_firing(seen))

    (kept,) = await schedules.every(engine)
    assert answers == []
    assert (kept.next_due, kept.last_due) == (clock.now() + HOUR, None)
    assert (await engine.find(JobFilter(), limit=10)).jobs == []


async def test_a_due_time_never_fires_twice_even_if_the_schedule_is_set_back(
    engine: Engine, clock: ManualClock
) -> None:
    schedule = _due_now(clock)
    await schedules.put(engine, schedule)
    await engine.fire(_firing(schedule))
    await schedules.put(engine, schedule)
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
    due = [
        _due_now(clock, name="a"),
        _due_now(clock, name="b"),
        _due_now(clock, name="a", tenant="other"),
    ]
    for schedule in due:
        await schedules.put(engine, schedule)

    answers = [await engine.fire(_firing(schedule)) for schedule in due]

    assert [len(answer) for answer in answers] == [1, 1, 1]


async def test_several_missed_due_times_fire_in_one_go(
    engine: Engine, clock: ManualClock
) -> None:
    schedule = _due_now(clock)
    await schedules.put(engine, schedule)
    shots = [Shot(clock.now() + number * MINUTE, a_job()) for number in range(3)]

    answers = await engine.fire(_firing(schedule, *shots))

    (moved,) = await schedules.every(engine)
    assert [answer.id for answer in answers] == [shot.job.id for shot in shots if shot.job]
    assert moved.last_due == shots[-1].due
    assert moved.last_job == answers[-1].id


async def test_a_skipped_due_time_submits_nothing_but_moves_on(
    engine: Engine, clock: ManualClock
) -> None:
    schedule = _due_now(clock)
    await schedules.put(engine, schedule)

    answers = await engine.fire(_firing(schedule, Shot(clock.now(), None)))

    (moved,) = await schedules.every(engine)
    assert answers == []
    assert (moved.next_due, moved.last_job) == (clock.now() + MINUTE, None)
    assert (await engine.find(JobFilter(), limit=10)).jobs == []


async def test_a_schedule_may_come_to_its_end(engine: Engine, clock: ManualClock) -> None:
    schedule = _due_now(clock)
    await schedules.put(engine, schedule)
    last = replace(_firing(schedule), next_due=None)

    await engine.fire(last)

    clock.advance(HOUR)
    assert await schedules.due(engine, limit=10) == []
    assert (await schedules.every(engine))[0].next_due is None


async def test_whether_the_last_job_is_live_is_told_for_every_stage_of_its_life(
    engine: Engine, clock: ManualClock
) -> None:
    schedule = _due_now(clock)
    await schedules.put(engine, schedule)
    await engine.fire(_firing(schedule))
    clock.advance(MINUTE)
    seen: list[bool] = []

    async def look() -> None:
        (due,) = await schedules.due(engine, limit=10)
        seen.append(due.is_last_job_live)

    await look()
    worker = await a_worker(engine)
    (claim,) = await worker.claim()
    await look()
    await worker.fail(claim)
    await look()
    await engine.change("retry", [claim.id])
    (claim,) = await worker.claim()
    await worker.succeed(claim)
    await look()
    await engine.change("purge", [claim.id])
    await look()

    assert seen == [True, True, True, False, False]


async def test_a_replaced_definition_keeps_what_the_schedule_fired(
    engine: Engine, clock: ManualClock
) -> None:
    schedule = _due_now(clock)
    await schedules.put(engine, schedule)
    ((answer,), due) = (await engine.fire(_firing(schedule)), clock.now())

    await schedules.put(engine, a_schedule(every=HOUR, next_due=due + HOUR))

    (replaced,) = await schedules.every(engine)
    assert (replaced.every, replaced.next_due) == (HOUR, due + HOUR)
    assert (replaced.last_due, replaced.last_job) == (due, answer.id)


async def test_a_schedule_that_fires_meanwhile_keeps_its_place_when_it_is_changed(
    engine: Engine, clock: ManualClock
) -> None:
    schedule = _due_now(clock)
    await schedules.put(engine, schedule)
    due = clock.now()

    def urgent(existing: Schedule | None, now: int) -> Schedule:
        assert existing is not None
        return replace(existing, priority=1)

    await engine.fire(_firing(schedule))
    changed = await schedules.change(engine, schedule.name, schedule.tenant, urgent)

    assert (changed.priority, changed.next_due) == (1, due + MINUTE)
    assert await schedules.every(engine) == [changed]


async def test_a_firing_is_no_new_version_of_a_schedule(
    engine: Engine, clock: ManualClock
) -> None:
    """Who changes a schedule that fires ten times a second is never in its way."""
    schedule = _due_now(clock)
    await schedules.put(engine, schedule)
    ref = Ref(Kind.SCHEDULE, schedule.name, schedule.tenant)
    (seen,) = (await engine.get_records([ref])).records
    assert seen is not None
    await engine.fire(_firing(schedule))
    body = seen.body.replace(b'"priority":5', b'"priority":1')

    written = await engine.write_records(
        [Put(ref=ref, body=body, expected=seen.version)], audit=None
    )

    (moved,) = await schedules.every(engine)
    assert written.conflict is None
    assert (moved.priority, moved.next_due) == (1, clock.now() + MINUTE)


async def test_of_many_who_change_a_schedule_at_once_all_do(
    engine: Engine, clock: ManualClock
) -> None:
    await schedules.put(engine, replace(_due_now(clock), tags=()))

    def tagged(tag: str) -> Callable[[Schedule | None, int], Schedule]:
        def add(existing: Schedule | None, now: int) -> Schedule:
            assert existing is not None
            return replace(existing, tags=(*existing.tags, tag))

        return add

    await asyncio.gather(
        *(schedules.change(engine, "nightly", "default", tagged(f"t{n}")) for n in range(8))
    )

    (found,) = await schedules.every(engine)
    assert sorted(found.tags) == [f"t{n}" for n in range(8)]


async def test_a_due_time_that_is_set_while_it_fires_counts(
    engine: Engine, clock: ManualClock
) -> None:
    schedule = _due_now(clock)
    await schedules.put(engine, schedule)
    later = clock.now() + HOUR

    await schedules.change(
        engine,
        schedule.name,
        schedule.tenant,
        lambda existing, now: replace(schedule, next_due=later),
    )
    answers = await engine.fire(_firing(schedule))

    assert answers == []
    assert [one.next_due for one in await schedules.every(engine)] == [later]


async def test_a_paused_schedule_does_not_fire(engine: Engine, clock: ManualClock) -> None:
    """It may have been paused after a scheduler saw it due."""
    schedule = _due_now(clock)
    await schedules.put(engine, replace(schedule, is_paused=True))

    answers = await engine.fire(_firing(schedule))

    assert answers == []
    assert [(one.is_paused, one.next_due) for one in await schedules.every(engine)] == [
        (True, None)
    ]


async def test_a_deleted_schedule_is_gone_and_its_jobs_stay(
    engine: Engine, clock: ManualClock
) -> None:
    schedule = _due_now(clock)
    await schedules.put(engine, schedule)
    (answer,) = await engine.fire(_firing(schedule))

    await schedules.delete(engine, "nightly")

    assert await schedules.every(engine) == []
    assert await engine.fire(_firing(schedule)) == []
    assert (await engine.get(answer.id)).state is State.READY


async def test_only_ones_own_schedules_can_be_deleted(engine: Engine) -> None:
    await schedules.put(engine, a_schedule(tenant="other"))

    with pytest.raises(ScheduleNotFoundError) as caught:
        await schedules.delete(engine, "nightly", tenant="acme")

    assert caught.value.name == "nightly"
    assert len(await schedules.every(engine)) == 1


async def test_a_fired_job_keeps_to_the_rules_of_any_other(
    engine: Engine, clock: ManualClock
) -> None:
    holder = a_job(unique_key="report")
    await engine.submit([holder])
    schedule = _due_now(clock)
    await schedules.put(engine, schedule)

    answers = await engine.fire(
        _firing(schedule, Shot(clock.now(), a_job(unique_key="report")))
    )

    assert answers == [Submitted(holder.id, Verdict.UNIQUE)]


async def test_no_more_schedules_are_listed_than_are_asked_for(
    engine: Engine, clock: ManualClock
) -> None:
    for name in ("a", "b", "c"):
        await schedules.put(engine, _due_now(clock, name=name))

    found = await engine.due_schedules(limit=2)

    assert len(found.schedules) == 2


async def test_only_schedules_fire_whatever_else_has_a_due_time(
    engine: Engine, clock: ManualClock
) -> None:
    schedule = _due_now(clock, name="nightly")
    await schedules.put(engine, schedule)
    other = Ref(Kind.QUARANTINED, schedule.name, schedule.tenant)
    put = Put(ref=other, body=b"{}", expected=0, due=clock.now())
    (before,) = (await engine.write_records([put], audit=None)).records

    found = await engine.due_schedules(limit=9)
    answers = await engine.fire(_firing(schedule))

    assert [one.record.kind for one in found.schedules] == [Kind.SCHEDULE]
    assert len(answers) == 1
    assert (await engine.get_records([other])).records == (before,)
    await schedules.delete(engine, schedule.name, schedule.tenant)
    assert await engine.fire(_firing(schedule)) == []
