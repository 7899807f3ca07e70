"""Schedules that an app declares in its code."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from longshore import ConfigError, Longshore, Settings
from longshore.core.schedule import CatchUp, Overlap
from longshore.runtime.clock import SECOND, ManualClock
from longshore.task import SyncTask


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

    (stored,) = await app.engine.schedules()
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


async def test_declaring_again_keeps_the_place_and_an_operators_pause(
    app: Longshore, report: SyncTask[[str], None], clock: ManualClock
):
    app.schedule("often", report.spec("a"), every=timedelta(minutes=1))
    await app.store_schedules()
    (first,) = await app.engine.schedules()
    await app.engine.put_schedule(msgspec.structs.replace(first, is_paused=True))
    clock.advance(3_600 * SECOND)

    app.schedule("often", report.spec("b"), every=timedelta(minutes=1))
    await app.store_schedules()

    (stored,) = await app.engine.schedules()
    assert (stored.payload, stored.is_paused) == (b'{"kind":"b"}', True)
    assert stored.next_due == first.next_due


async def test_a_schedule_that_is_no_longer_declared_stays(
    app: Longshore, report: SyncTask[[str], None]
):
    app.schedule("often", report.spec("a"), every=60)
    await app.store_schedules()

    other = Longshore("sqlite://:memory:")
    assert list(other.schedules) == []
    await app.store_schedules()
    assert [one.name for one in await app.engine.schedules()] == ["often"]


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
