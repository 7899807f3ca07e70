"""Schedules that an app declares in its code."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import pytest

from longshore import (
    ConfigError,
    Longshore,
    ScheduleNotFoundError,
    Settings,
    current_job,
    schedule_options,
)
from longshore.contract import Engine
from longshore.contract.forwarding import ForwardingEngine
from longshore.contract.records import AuditRecord, Delete, Put, Written
from longshore.core.schedule import CatchUp, Overlap
from longshore.operations.backend import EngineBackend
from longshore.operations.declarations import Declarations
from longshore.records import schedules
from longshore.runtime.clock import SECOND, ManualClock
from longshore.runtime.ids import IdSource
from longshore.scheduler.fire import Firer
from longshore.task import SyncTask
from longshore.testing.harness import drain


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def app(clock: ManualClock) -> AsyncIterator[Longshore]:
    app = Longshore("sqlite://:memory:", clock=clock, settings=Settings())
    async with app:
        yield app


@pytest.fixture
def report(app: Longshore) -> SyncTask[[str], None]:
    @app.task(queue="reports", priority=7, max_attempts=2)
    def report(kind: str) -> None: ...

    return report


async def test_a_declared_schedule_submits_jobs_like_its_spec(
    app: Longshore, report: SyncTask[[str], None]
):
    app.schedule(
        "nightly",
        report.using(tags=["cron"]).spec("sales"),
        cron="0 3 * * *",
        timezone="Europe/Berlin",
        catch_up="all",
        catch_up_limit=7,
        overlap="skip",
        jitter=timedelta(minutes=1),
    )

    await app.store_schedules()

    (stored,) = await schedules.every(app.engine)
    assert (stored.name, stored.cron, stored.timezone) == (
        "nightly",
        "0 3 * * *",
        "Europe/Berlin",
    )
    assert (stored.type, stored.payload) == ("report", b'{"kind":"sales"}')
    assert (stored.queue, stored.priority, stored.max_attempts) == ("reports", 7, 2)
    assert (stored.catch_up, stored.catch_up_limit) == (CatchUp.ALL, 7)
    assert (stored.overlap, stored.jitter, stored.tags) == (
        Overlap.SKIP,
        60 * SECOND,
        ("cron",),
    )


async def test_a_decorator_schedules_a_task_under_its_own_name(app: Longshore):
    @app.schedule(cron="0 3 * * *", timezone="Europe/Berlin", overlap="skip")
    @app.schedule("often", every=60)
    @app.task(queue="reports", name="report.nightly")
    async def report(kind: str = "sales") -> str:
        return kind

    await app.store_schedules()

    often, nightly = await schedules.every(app.engine)
    assert await report("stock") == "stock"
    assert (nightly.name, nightly.cron, nightly.overlap) == (
        "report.nightly",
        "0 3 * * *",
        Overlap.SKIP,
    )
    assert (often.name, often.every) == ("often", 60 * SECOND)
    assert {(one.type, one.queue, one.payload) for one in (often, nightly)} == {
        ("report.nightly", "reports", b"{}")
    }


async def test_a_decorator_refuses_what_cannot_be_submitted_without_arguments(
    app: Longshore, report: SyncTask[[str], None]
):
    with pytest.raises(ConfigError, match=r"schedule 'report'.*kind.*task\.spec"):
        app.schedule(every=60)(report)


async def test_a_decorator_below_the_task_says_where_it_belongs(app: Longshore):
    async def plain() -> None: ...

    with pytest.raises(ConfigError, match=r"above @app\.task"):
        app.schedule(every=60)(plain)


async def test_a_second_decorator_needs_a_name_of_its_own(app: Longshore):
    @app.schedule(every=60)
    @app.task
    async def poll() -> None: ...

    with pytest.raises(ConfigError, match="two schedules 'poll'"):
        app.schedule(every=90)(poll)


async def test_a_schedule_that_forgot_its_spec_is_noticed(app: Longshore):
    app.schedule("lost", every=60)

    with pytest.raises(ConfigError, match="above a task"):
        await app.store_schedules()


async def test_an_interval_counts_from_its_anchor(
    app: Longshore, report: SyncTask[[str], None], clock: ManualClock
):
    start = datetime(2030, 1, 1, 9, 15, tzinfo=ZoneInfo("Europe/Berlin"))
    app.schedule("later", report.spec("a"), every=timedelta(hours=6), anchor=start)

    await app.store_schedules()

    (stored,) = await schedules.every(app.engine)
    assert stored.next_due == int(start.timestamp()) * SECOND


async def test_a_schedule_that_comes_from_data_is_put_changed_paused_and_removed(
    app: Longshore, report: SyncTask[[str], None], clock: ManualClock
):
    first = await app.schedules.put("customer-7", report.spec("a"), every=60)
    clock.advance(600 * SECOND)
    kept = await app.schedules.put("customer-7", report.spec("b"), every=60)
    paused = await app.schedules.pause("customer-7")
    still = await app.schedules.put("customer-7", report.spec("c"), every=90)
    resumed = await app.schedules.resume("customer-7")
    stored = await app.schedules.get("customer-7")
    await app.schedules.remove("customer-7")

    assert (kept.payload, kept.next_due) == (b'{"kind":"b"}', first.next_due)
    assert (paused.is_paused, still.is_paused, resumed.is_paused) == (True, True, False)
    assert resumed.next_due is not None
    assert resumed.next_due > clock.now()
    assert stored == resumed
    assert await schedules.every(app.engine) == []
    with pytest.raises(ScheduleNotFoundError):
        await app.schedules.pause("customer-7")


async def test_what_is_put_is_not_declared_so_nobody_puts_it_back(
    app: Longshore, report: SyncTask[[str], None]
):
    """Another process may have changed it since."""
    await app.schedules.put("customer-7", report.spec("old"), every=60)
    stored = await app.schedules.get("customer-7")
    await schedules.put(app.engine, msgspec.structs.replace(stored, priority=1))

    await app.store_schedules()

    assert list(app.schedules) == []
    assert (await app.schedules.get("customer-7")).priority == 1


class Interrupted(ForwardingEngine):
    """An engine on which somebody pauses the schedule right before the first change of it."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self.changes = 0

    async def write_records(
        self, changes: Sequence[Put | Delete], *, audit: AuditRecord | None
    ) -> Written:
        self.changes += 1
        if self.changes == 1 and changes[0].expected:
            ref = changes[0].ref
            seen = await schedules.get(self._inner, ref.name, ref.tenant or "")
            await schedules.put(self._inner, msgspec.structs.replace(seen, is_paused=True))
        return await self._inner.write_records(changes, audit=audit)


async def test_a_deployment_and_an_operator_do_not_undo_each_other(
    app: Longshore, report: SyncTask[[str], None]
):
    before = schedule_options.recurring("often", report.spec("a"), {"every": 60})
    await schedules.put(app.engine, before)
    app.schedule("often", report.spec("b"), every=60)
    engine: Any = Interrupted(app.engine)

    await EngineBackend(engine).declare(Declarations(schedules=list(app.schedules)))

    stored = await app.schedules.get("often")
    assert (stored.payload, stored.is_paused) == (b'{"kind":"b"}', True)
    assert engine.changes == 2


async def test_declaring_again_keeps_an_operators_pause(
    app: Longshore, report: SyncTask[[str], None], clock: ManualClock
):
    app.schedule("often", report.spec("a"), every=timedelta(minutes=1))
    await app.store_schedules()
    (first,) = await schedules.every(app.engine)
    await schedules.put(app.engine, msgspec.structs.replace(first, is_paused=True))
    clock.advance(3_600 * SECOND)

    app.schedule("often", report.spec("b"), every=timedelta(minutes=1))
    await app.store_schedules()

    (stored,) = await schedules.every(app.engine)
    assert (stored.payload, stored.is_paused) == (b'{"kind":"b"}', True)
    assert stored.next_due is None


async def test_a_schedule_that_is_no_longer_declared_stays(
    app: Longshore, report: SyncTask[[str], None]
):
    app.schedule("often", report.spec("a"), every=60)
    await app.store_schedules()

    other = Longshore("sqlite://:memory:")
    assert list(other.schedules) == []
    await app.store_schedules()
    assert [one.name for one in await schedules.every(app.engine)] == ["often"]


@pytest.mark.parametrize(
    "times",
    [
        {},
        {"cron": "0 3 * * *", "every": 5},
        {"cron": "0 25 * * *"},
        {"cron": "@daily", "timezone": "Mars/Olympus"},
        {"every": 0},
        {"every": "often"},
        {"every": 60, "catch_up": "some"},
        {"every": 60, "overlap": "maybe"},
        {"everyy": 60},
        {"every": 60, "anchor": datetime(2030, 1, 1)},  # noqa: DTZ001 - that is the mistake
        {"cron": "@daily", "anchor": datetime(2030, 1, 1, tzinfo=UTC)},
    ],
    ids=str,
)
async def test_times_that_make_no_sense_are_refused(
    app: Longshore, report: SyncTask[[str], None], times: Any
):
    with pytest.raises(ConfigError, match="schedule 'x'"):
        app.schedule("x", report.spec("a"), **times)


@pytest.mark.parametrize("options", [{"key": "k"}, {"unique": True}, {"delay": 1}], ids=str)
async def test_an_option_that_a_schedule_cannot_keep_is_refused(
    app: Longshore, report: SyncTask[[str], None], options: Any
):
    with pytest.raises(ConfigError, match="cannot have the option"):
        app.schedule("x", report.using(**options).spec("a"), every=60)


async def test_schedules_fire_while_the_app_works():
    app = Longshore("sqlite://:memory:", settings=Settings())
    fired = asyncio.Event()

    @app.task
    async def tick() -> None:
        fired.set()

    app.schedule("fast", tick.spec(), every=0.1)
    async with app, asyncio.timeout(30):
        working = asyncio.create_task(app.work())
        await fired.wait()
        working.cancel()
        await asyncio.wait([working])


async def test_a_fired_job_knows_its_schedule_and_due_time_over_all_attempts(
    clock: ManualClock,
):
    app = Longshore("sqlite://:memory:", clock=clock, settings=Settings())
    seen: list[tuple[str | None, datetime | None, int]] = []

    @app.schedule("hourly", cron="@hourly", jitter=timedelta(minutes=5))
    @app.task(retry_base=1, retry_jitter="none")
    async def report() -> None:
        job = current_job()
        seen.append((job.schedule, job.due, job.attempt))
        if job.attempt == 1:
            raise ValueError("not yet")

    async with app:
        await app.store_schedules()
        clock.advance(3_600 * SECOND)
        await Firer(app.engine, IdSource(clock), clock=clock).tick()
        await drain(app, advance=timedelta(hours=1), clock=clock, raises=False)

    due = datetime.fromtimestamp((clock.now() // SECOND) // 3_600 * 3_600, UTC)
    assert seen == [("hourly", due, 1), ("hourly", due, 2)]
