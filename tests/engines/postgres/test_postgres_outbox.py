"""Positions hold, though transactions commit in another order than they take numbers."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial

import pytest

from longshore.contract import Retention
from longshore.core.event import Group, Name, decode, encode
from longshore.engines import open_engine
from longshore.engines.postgres import maintenance
from longshore.engines.postgres.connection import Connection
from longshore.engines.postgres.database import Database
from longshore.engines.postgres.sql import SQL
from longshore.runtime.clock import ManualClock
from longshore.testing.factories import HOUR

READERS, WRITERS, EACH = 3, 4, 40


@pytest.fixture
async def database(empty_postgres_url: str, clock: ManualClock) -> AsyncIterator[Database]:
    database = Database(empty_postgres_url, clock=clock, size=READERS + WRITERS)
    yield database
    await database.close()


def _told(queue: str) -> bytes:
    return encode([Group(Name.SUBMITTED, queue, "t", "default", bytes(16))])


async def _write_slowly(name: str, delay_ms: int, connection: Connection) -> None:
    await connection.execute(SQL.outbox_add, 1, _told(name))
    await connection.execute("select pg_sleep(0.001 * $1)", delay_ms)


async def _read(database: Database, after: int, limit: int = 100) -> list[tuple[int, str]]:
    rows = await database.fetch(SQL.outbox_after, after, limit)
    return [(row["place"], decode(row["groups"])[0].queue) for row in rows]


async def test_what_commits_later_comes_later_though_its_number_is_smaller(
    database: Database, other: Connection
) -> None:
    slow = other.transaction()
    await slow.start()
    await other.execute(SQL.outbox_add, 1, _told("slow"))
    await database.fetch(SQL.outbox_add, 1, _told("fast"))

    first = await _read(database, 0)
    await slow.commit()
    second = await _read(database, first[-1][0])

    assert [queue for _, queue in first] == ["fast"]
    assert [queue for _, queue in second] == ["slow"]
    assert await _read(database, 0) == first + second


async def test_a_consumer_gets_what_commits_late_and_nothing_twice(
    empty_postgres_url: str, database: Database, other: Connection
) -> None:
    engine = open_engine(empty_postgres_url)
    cursor = await engine.take_cursor("kafka", holder="a", lease=10_000_000)
    assert cursor is not None
    slow = other.transaction()
    await slow.start()
    await other.execute(SQL.outbox_add, 1, _told("slow"))
    await database.fetch(SQL.outbox_add, 1, _told("fast"))

    first = await engine.events(after=0, limit=10, cursor=cursor)
    await engine.advance(cursor, position=first[-1].position)
    await slow.commit()
    second = await engine.events(after=first[-1].position, limit=10, cursor=cursor)
    await engine.close()

    assert [batch.groups[0].queue for batch in (*first, *second)] == ["fast", "slow"]
    assert first[0].position < second[0].position


async def test_readers_beside_writers_never_see_a_smaller_position_appear(
    database: Database,
) -> None:
    """Every writer takes its number, lets the others go ahead, and commits."""
    is_done = asyncio.Event()

    async def write(writer: int) -> None:
        for number in range(EACH):
            await database.transact(partial(_write_slowly, f"{writer}.{number}", number % 3))

    async def read() -> list[tuple[int, str]]:
        seen: list[tuple[int, str]] = []
        while True:
            is_last_look = is_done.is_set()
            found = await _read(database, seen[-1][0] if seen else 0, limit=7)
            seen += found
            if is_last_look and not found:
                return seen

    readers = [asyncio.create_task(read()) for _ in range(READERS)]
    async with asyncio.timeout(60):
        await asyncio.gather(*(write(writer) for writer in range(WRITERS)))
        is_done.set()
        seen = await asyncio.gather(*readers)

    assert sorted(name for _, name in seen[0]) == sorted(
        f"{writer}.{number}" for writer in range(WRITERS) for number in range(EACH)
    )
    assert seen[1:] == seen[:1] * (READERS - 1)


async def test_a_long_outbox_that_nobody_read_is_put_in_order_bit_by_bit(
    database: Database,
) -> None:
    for number in range(10):
        await database.fetch(SQL.outbox_add, 1, _told(str(number)))

    first = await _read(database, 0, limit=3)

    (row,) = await database.fetch("select count(position) as placed from longshore.outbox")
    assert [queue for _, queue in first] == ["0", "1", "2"]
    assert row["placed"] == 3


async def test_pruning_does_not_wait_for_what_another_holds(
    database: Database, other: Connection, clock: ManualClock
) -> None:
    for name in ("held", "passed", "unread"):
        await database.fetch(SQL.outbox_add, clock.now(), _told(name))
    (held, _), (passed, _), _ = await _read(database, 0)
    await database.fetch(
        "insert into longshore.consumer (name, seen_at, position) values ('kafka', $1, $2)",
        clock.now(),
        passed,
    )
    clock.advance(2 * HOUR)
    async with other.transaction():
        await other.execute("select from longshore.outbox where position = $1 for update", held)

        pruned = await maintenance.prune(database, Retention(outbox=HOUR), limit=100)

    assert pruned == 1
    assert [queue for _, queue in await _read(database, 0)] == ["held", "unread"]
