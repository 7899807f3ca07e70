"""How many commits and notifications the calls of a PostgreSQL engine cost."""

import asyncio

import pytest

from longshore.contract import Engine
from longshore.core import settle
from longshore.engines.postgres.connection import Connection
from longshore.testing.factories import a_job
from longshore.testing.manual import a_worker

COMMITS_OF_JOBS = "select count(distinct xmin::text) from longshore.locator"
COMMITS_OF_EXCHANGE = """
    select array_agg(distinct x.xmin::text)
      from (select xmin from longshore.finished
            union all select xmin from longshore.claim
            union all select xmin from longshore.exchanged
            union all select o.xmin from longshore.outbox o
             where o.number = (select max(number) from longshore.outbox)) x
"""
CALLERS = 64


@pytest.mark.parametrize("keys", ["without keys", "with keys"])
async def test_many_callers_share_few_commits(
    engine: Engine, db: Connection, keys: str
) -> None:
    names = [f"k{n}" if keys == "with keys" else None for n in range(CALLERS)]
    jobs = [a_job(idempotency_key=name, fingerprint=b"f") for name in names]

    await asyncio.gather(*(engine.submit([job]) for job in jobs))

    assert await db.fetchval("select count(*) from longshore.locator") == CALLERS
    assert await db.fetchval(COMMITS_OF_JOBS) <= CALLERS // 8


async def test_what_is_settled_and_what_is_claimed_next_is_one_commit(
    engine: Engine, db: Connection
) -> None:
    await engine.submit([a_job() for _ in range(10)])
    session = (await a_worker(engine)).session
    first = (await session.exchange(1, want=5)).claims
    done = [settle.succeeded(one, started_at=1, finished_at=2) for one in first]

    answer = await session.exchange(2, settlements=done, want=5)

    assert (len(first), len(answer.claims)) == (5, 5)
    assert await db.fetchval("select sum(size) from longshore.finished") == 5
    assert await db.fetchval("select sum(size) from longshore.claim") == 5
    assert len(await db.fetchval(COMMITS_OF_EXCHANGE)) == 1


class Ear:
    """Hears every notification on a connection of its own."""

    def __init__(self, connection: Connection, other: Connection) -> None:
        self._connection = connection
        self._other = other
        self._heard: asyncio.Queue[str] = asyncio.Queue()

    async def listen(self) -> None:
        await self._connection.add_listener("longshore", self._hear)

    def _hear(self, *told: object) -> None:
        self._heard.put_nowait(str(told[-1]))

    async def heard(self) -> list[str]:
        """What was said since the last look; the server keeps the order of commits."""
        await self._other.execute("select pg_notify('longshore', 'that is all')")
        found: list[str] = []
        async with asyncio.timeout(10):
            while (said := await self._heard.get()) != "that is all":
                found.append(said)
        return found


async def test_a_submit_notifies_only_when_a_session_waits(
    engine: Engine, db: Connection, other: Connection
) -> None:
    ear = Ear(db, other)
    await ear.listen()
    session = (await a_worker(engine)).session

    await engine.submit([a_job()])
    await engine.submit([a_job(), a_job(unique_key="k")])
    assert await ear.heard() == []

    claims = (await session.exchange(1, want=9)).claims
    await engine.submit([a_job()])
    assert len(claims) == 3
    assert await ear.heard() == [], "it found something, and does not wait"

    claims += (await session.exchange(2, want=9)).claims
    done = [settle.succeeded(one, started_at=1, finished_at=2) for one in claims]
    assert (await session.exchange(3, settlements=done, want=9)).claims == []
    await engine.submit([a_job()])
    assert await ear.heard() == [""]
