"""Firing on PostgreSQL while another firer stands still in the middle of it."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator

import asyncpg
import pytest
from msgspec.structs import replace

from longshore.contract import Engine, JobFilter
from longshore.core.schedule import Firing, Shot
from longshore.engines import open_engine
from longshore.errors import EngineError
from longshore.records import schedules
from longshore.testing.factories import MINUTE, a_job, a_schedule

SOON = 1.0


@pytest.fixture
async def engine(empty_postgres_url: str) -> AsyncIterator[Engine]:
    engine = open_engine(empty_postgres_url)
    yield engine
    await engine.close()


async def a_due_schedule(engine: Engine, name: str) -> Firing:
    due = await engine.now()
    await schedules.put(engine, a_schedule(name=name, next_due=due))
    return Firing(name, "default", due, (Shot(due, a_job()),), due + MINUTE)


async def test_a_firer_that_stands_still_holds_up_nothing_but_its_own_schedule(
    engine: Engine, empty_postgres_url: str
):
    held, free = await a_due_schedule(engine, "held"), await a_due_schedule(engine, "free")
    stopped = await asyncpg.connect(empty_postgres_url)
    await stopped.execute("begin; update longshore.record set due = 0 where name = 'held'")

    async with asyncio.timeout(SOON):
        answers = [await engine.fire(held), await engine.fire(free)]
    await stopped.close()
    again = await engine.fire(held)

    assert [len(answer) for answer in answers] == [0, 1]
    assert len(again) == 1


class Standstill(tuple[Shot, ...]):
    """Shots that take three seconds to look at, once the firing's transaction is open."""

    looks = 0

    def __iter__(self) -> Iterator[Shot]:
        Standstill.looks += 1
        if Standstill.looks == 4:
            time.sleep(3)
        return super().__iter__()


@pytest.mark.slow
async def test_a_firer_that_stands_still_for_long_has_fired_nothing_and_others_may(
    engine: Engine,
):
    firing = await a_due_schedule(engine, "held")

    with pytest.raises(EngineError):
        await engine.fire(replace(firing, shots=Standstill(firing.shots)))
    before = (await engine.find(JobFilter(), limit=10)).jobs
    answers = await engine.fire(firing)

    assert Standstill.looks >= 4
    assert before == []
    assert len(answers) == 1
