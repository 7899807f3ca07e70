"""When an era of the store begins, and which numbers it leaves out.

Here the store is told that its server was restarted, crashed or holds a copy of it, for which
its tables have a row; `test_postgres_histories` does that to servers.
"""

import asyncio
from itertools import pairwise

import asyncpg
import pytest
from calls import until

from longshore.contract import Engine
from longshore.engines.postgres.connection import Connection
from longshore.testing.factories import a_job

_BEGIN = "select longshore.current_era()"
_NUMBER = "select number from longshore.era"
_WAITS = """
    select exists (select from pg_stat_activity
                    where datname = current_database() and wait_event_type = 'Lock')
"""
_ENDS = {
    "restart": "update longshore.era_row set server_start = server_start - interval '1 day'",
    "copy": "update longshore.era_row set relation = 'longshore.ready'::regclass",
    "crash": "delete from longshore.era_row",
}
"""What each of them leaves of the era."""


@pytest.mark.parametrize("end", _ENDS)
async def test_an_era_begins_once_whoever_asks_first(
    engine: Engine, db: Connection, other: Connection, empty_postgres_url: str, end: str
) -> None:
    before = await db.fetchval(_NUMBER)
    await db.execute(_ENDS[end])
    assert await db.fetchval(_NUMBER) is None
    third = await asyncpg.connect(empty_postgres_url)

    async with other.transaction():
        first = await other.fetchval(_BEGIN)
        second = asyncio.ensure_future(third.fetchval(_BEGIN))
        await until(db, _WAITS)
    answers = [first, await second, await db.fetchval(_BEGIN)]
    await third.close()

    assert answers == [await db.fetchval(_NUMBER)] * 3
    assert before not in answers
    assert await db.fetchval("select count(*) from longshore.era_start") == 2


async def test_each_era_goes_on_behind_the_one_before(engine: Engine, db: Connection) -> None:
    for _ in range(3):
        await engine.submit([a_job()])
        await engine.span()
        await db.execute(_ENDS["restart"])
        await db.execute(_BEGIN)

    rows = await db.fetch("select * from longshore.era_start order by ordinal")

    assert [row["ordinal"] for row in rows] == [1, 2, 3, 4]
    for before, after in pairwise(rows):
        assert after["slot"] != before["slot"]
        assert after["last_position"] > before["first_position"]
        assert after["first_position"] > after["last_position"]


async def test_positions_of_events_that_were_pruned_are_not_given_out_again(
    engine: Engine, db: Connection
) -> None:
    await engine.submit([a_job(), a_job()])
    (batch,) = await engine.events(after=0, limit=10)
    # A standby that lags has neither the events nor the numbers that were given out for them.
    await db.execute("delete from longshore.outbox")
    await db.execute("select setval('longshore.outbox_position', 1, false)")
    await db.execute(_ENDS["crash"])
    await db.execute(_BEGIN)

    await engine.submit([a_job()])

    (fresh,) = await engine.events(after=0, limit=10)
    assert fresh.position > batch.position


async def test_positions_of_a_store_that_knows_of_no_era_are_not_given_out_again(
    engine: Engine, db: Connection
) -> None:
    for _ in range(3):
        await engine.submit([a_job()])
    before = await engine.events(after=0, limit=10)
    await db.execute("delete from longshore.era_start")
    await db.execute("select setval('longshore.outbox_position', 1, false)")
    await db.execute(_ENDS["crash"])
    await db.execute(_BEGIN)

    await engine.submit([a_job()])

    (fresh,) = await engine.events(after=before[-1].position, limit=10)
    assert await engine.events(after=0, limit=10) == [*before, fresh]


async def test_a_new_store_leaves_no_position_out(engine: Engine) -> None:
    await engine.submit([a_job()])

    (batch,) = await engine.events(after=0, limit=10)

    assert batch.position == 1
