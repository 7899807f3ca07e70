"""Hungry or idle: jobs wait that a worker asks for, or there are none."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from workshop import Workshop, open_workshop, within

from longshore.records import pauses
from longshore.testing.factories import SECOND, a_job
from longshore.testing.harness import eventually
from longshore.worker.worker import Worker

EVERY = 20 * SECOND
"""A third of the minute after which a worker is stuck."""


@pytest.fixture
async def shop() -> AsyncIterator[Workshop]:
    async with open_workshop() as shop:

        async def run(_: Any) -> None: ...

        shop.task("mail", run)
        yield shop


async def looked(worker: Worker, shop: Workshop, *, after: int = EVERY) -> bool:
    """Look, let time pass with an exchange in it, and look again."""
    shop.clock.advance(1_000)
    await worker._hunger.tick()
    before = worker.stats.exchanges
    worker.nudge()
    await eventually(lambda: worker.stats.exchanges > before + 1)
    # Less than a lease at a time: only the looks are of interest.
    for _ in range(2):
        shop.clock.advance(after // 2)
        await worker._renewer.tick()
    await worker._hunger.tick()
    return worker.is_hungry


async def withheld(shop: Workshop, worker: Worker, type_name: str = "mail") -> None:
    """A job that is ready, and that the engine never hands out: a fault of the engine."""
    session: Any = worker._standing._session

    def empty_handed(call: Any) -> Any:
        return lambda number, **options: call(number, **{**options, "want": 0})

    session.exchange = empty_handed(session.exchange)
    session.claim_at_wakeup = empty_handed(session.claim_at_wakeup)
    before = worker.stats.exchanges
    worker.nudge()  # it waits by the call that is replaced
    await eventually(lambda: worker.stats.exchanges > before)
    await shop.engine.submit([a_job(type=type_name)])


async def test_a_worker_that_is_kept_from_jobs_it_serves_is_hungry(shop: Workshop):
    async with shop.working() as worker:
        await eventually(lambda: worker.stats.exchanges)
        await withheld(shop, worker)
        able_at = worker.able_at

        first = await looked(worker, shop)
        then = worker._hunger.since
        second = await looked(worker, shop)

        assert (first, second) == (True, True)
        assert able_at is not None
        assert worker._hunger.since == then
        assert worker.able_at == then


async def test_an_idle_worker_is_not_hungry_and_hardly_asks(shop: Workshop):
    async with shop.working() as worker:
        await eventually(lambda: worker.stats.exchanges)

        assert not await looked(worker, shop)
        assert not await looked(worker, shop)
        assert shop.flaky.calls.count("find") == 0


async def test_jobs_of_others_make_no_one_hungry(shop: Workshop):
    async with shop.working() as worker:
        await eventually(lambda: worker.stats.exchanges)
        await shop.engine.submit([a_job(type="another"), a_job(type="mail", queue="others")])

        assert not await looked(worker, shop)


async def test_what_is_paused_makes_no_one_hungry(shop: Workshop):
    async with shop.working() as worker:
        await eventually(lambda: worker.stats.exchanges)
        await pauses.pause(shop.engine, type="mail")
        await withheld(shop, worker)

        assert not await looked(worker, shop)


async def test_a_job_that_has_just_come_makes_no_one_hungry(shop: Workshop):
    async with shop.working() as worker:
        await eventually(lambda: worker.stats.exchanges)
        await withheld(shop, worker)

        assert not await looked(worker, shop, after=4 * SECOND)
        assert await looked(worker, shop, after=4 * SECOND)


async def test_a_worker_without_a_free_room_is_not_hungry(shop: Workshop):
    entered, go_on = asyncio.Event(), asyncio.Event()

    async def slow(_: Any) -> None:
        entered.set()
        await within(go_on.wait())

    shop.task("slow", slow)
    await shop.submit("slow")
    async with shop.working(shop.worker(concurrency=1)) as worker:
        await within(entered.wait())
        await shop.engine.submit([a_job(type="mail") for _ in range(5)])

        hungry = await looked(worker, shop)
        go_on.set()

        assert not hungry


async def test_a_store_that_cannot_be_asked_makes_no_one_hungry(shop: Workshop):
    async with shop.working() as worker:
        await eventually(lambda: worker.stats.exchanges)
        await withheld(shop, worker)
        await looked(worker, shop, after=4 * SECOND)
        shop.clock.advance(4 * SECOND)

        with shop.flaky.outage():
            await worker._hunger.tick()

        assert not worker.is_hungry
        assert worker.is_live
