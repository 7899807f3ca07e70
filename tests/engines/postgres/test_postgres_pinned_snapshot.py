"""While an old snapshot is open the server forgets no claimed span; claims stay quick."""

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import timedelta

import asyncpg
import pytest

from longshore.core.flow import Layer, Order, QueueSettings
from longshore.engine import Engine
from longshore.engines import open_engine
from longshore.engines.postgres.connecting import Connection
from longshore.testing.factories import a_job
from longshore.testing.manual import ManualWorker, a_worker

FAIR = QueueSettings(order=Order.FAIR)
FORMER = 120_000
"""Spans that were claimed since the snapshot was taken."""
QUICK = 500
"""Pages: far fewer than there are former spans."""


@pytest.fixture
async def database(new_postgres_url: str) -> AsyncIterator[tuple[Engine, Connection]]:
    engine = open_engine(new_postgres_url)
    await engine.migrate()
    db = await asyncpg.connect(new_postgres_url)
    yield engine, db
    await db.close()
    await engine.close()


@pytest.fixture
async def _old_snapshot(
    new_postgres_url: str, database: tuple[Engine, Connection]
) -> AsyncIterator[None]:
    """Someone's transaction that reads, and is forgotten; meanwhile a lot was claimed."""
    forgotten = await asyncpg.connect(new_postgres_url)
    transaction = forgotten.transaction(isolation="repeatable_read")
    await transaction.start()
    await forgotten.fetch("select from longshore.segment")
    db = database[1]
    await db.execute(f"""
        insert into longshore.ready
            (queue, type, rank, segment, lo, hi, size, weight, run_at, lane)
        select 'default', 'noop', (5::bigint << 52) + (1::bigint << 51) + g, g, 0, 1, 1, 2, g,
               'anna'
          from generate_series(1, {FORMER}) g""")
    await db.execute("delete from longshore.ready")
    await db.execute("select pg_stat_force_next_flush()")
    yield
    await transaction.rollback()
    await forgotten.close()


pytestmark = pytest.mark.usefixtures("_old_snapshot")


@pytest.fixture
def engine(database: tuple[Engine, Connection]) -> Engine:
    return database[0]


@pytest.fixture
def db(database: tuple[Engine, Connection]) -> Connection:
    return database[1]


@pytest.fixture
async def worker(engine: Engine) -> ManualWorker:
    return await a_worker(engine)


async def pages_of_a_claim(db: Connection, fair: str = "{}") -> int:
    what = "1767225600000000, '{default}', '{noop}', 5, null"
    claim = f"longshore.claim(99, 1, {what}, '{fair}')"
    transaction = db.transaction()
    await transaction.start()
    told = await db.fetchval(f"explain (analyze, buffers, format json) select * from {claim}")
    await transaction.rollback()
    plan = json.loads(told)[0]["Plan"]
    return plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]


async def test_one_claim_passes_over_what_was_claimed_and_the_next_do_not(
    engine: Engine, db: Connection, worker: ManualWorker
) -> None:
    await engine.submit([a_job(), a_job()])

    assert len(await worker.claim(1)) == 1

    await pages_of_a_claim(db)  # the first call of a connection reads the catalogue
    assert await pages_of_a_claim(db) < QUICK


async def test_a_claim_of_a_fair_queue_passes_over_it_once_too(
    engine: Engine, db: Connection, worker: ManualWorker
) -> None:
    await engine.put_queue("default", Layer.OVERRIDDEN, FAIR)
    await engine.submit([a_job(tenant="anna"), a_job(tenant="bert"), a_job(tenant="anna")])

    assert len(await worker.claim(1)) == 1

    await pages_of_a_claim(
        db, "{default}"
    )  # the first call of a connection reads the catalogue
    assert await pages_of_a_claim(db, "{default}") < QUICK


async def test_what_tenants_submit_later_is_found_in_their_turns_whatever_its_priority(
    engine: Engine, db: Connection, worker: ManualWorker
) -> None:
    await engine.put_queue("default", Layer.OVERRIDDEN, FAIR)
    await engine.submit([a_job(tenant="anna"), a_job(tenant="bert")])
    assert len(await worker.claim(2)) == 2
    noted = await db.fetchval("select count(*) from longshore.lane_horizon")
    late, urgent = a_job(tenant="bert", priority=9), a_job(tenant="bert", priority=1)
    await engine.submit([late])
    await engine.submit([urgent, a_job(tenant="anna")])

    claims = await worker.claim(5)

    assert noted == 2
    assert {one.tenant for one in claims} == {"anna", "bert"}
    assert [one.id for one in claims if one.tenant == "bert"] == [urgent.id, late.id]


async def test_what_arrives_later_is_found_whatever_its_priority(
    engine: Engine, worker: ManualWorker
) -> None:
    first, late, urgent = a_job(), a_job(priority=9), a_job(priority=1)
    await engine.submit([first])
    assert [one.id for one in await worker.claim(1)] == [first.id]

    await engine.submit([late])
    await engine.submit([urgent])

    claims = await worker.claim(5)
    assert [one.id for one in claims] == [urgent.id, late.id]


async def test_what_comes_back_is_found_when_the_notes_are_old(
    engine: Engine, db: Connection, worker: ManualWorker
) -> None:
    old, new = a_job(), a_job()
    await engine.submit([old])
    (claim,) = await worker.claim(1)
    moved = await db.execute("update longshore.horizon set low = low + 60000000")
    await engine.submit([new])
    await worker.release(claim)

    await db.execute("update longshore.horizon set all_at = now()")

    assert moved == "UPDATE 36"
    assert {one.id for one in await worker.claim(5)} == {old.id, new.id}


MANY = ("noop", "rare", *(f"other{number}" for number in range(20)))
"""More types than are noted without having been seen."""


async def test_what_comes_to_a_queue_that_was_empty_is_found_by_a_worker_of_many_types(
    engine: Engine, db: Connection
) -> None:
    worker = await a_worker(engine, types=MANY)
    await engine.submit([a_job(), a_job()])
    assert len(await worker.claim(1)) == 1
    assert len(await worker.claim(1)) == 1
    await db.execute("update longshore.horizon set all_at = now()")
    assert await worker.claim(1) == []
    noted = await db.fetchval("select count(*) from longshore.horizon where all_at > now()")

    await engine.submit([a_job()])

    assert noted > 0
    assert len(await worker.claim(1)) == 1


@pytest.mark.parametrize(
    ("types", "seconds"), [(MANY, 1), (("noop", "rare"), 5)], ids=["many types", "few types"]
)
async def test_a_type_that_is_not_noted_is_looked_for_after_a_second(
    engine: Engine, db: Connection, types: tuple[str, ...], seconds: int
) -> None:
    await engine.submit([a_job()])

    await db.execute(
        "select longshore.look_ahead('default', $1, $2, interval '1 millisecond')",
        list(types),
        await engine.now(),
    )

    lasts = await db.fetchval("select max(all_at) - clock_timestamp() from longshore.horizon")
    assert timedelta(seconds=seconds - 1) < lasts <= timedelta(seconds=seconds)


@pytest.fixture
async def someone(new_postgres_url: str) -> AsyncIterator[Connection]:
    """Has a transaction open."""
    connection = await asyncpg.connect(new_postgres_url)
    async with connection.transaction():
        yield connection
    await connection.close()


async def test_a_claim_waits_for_no_notes_that_another_changes(
    engine: Engine, worker: ManualWorker, someone: Connection
) -> None:
    await engine.submit([a_job()])
    assert len(await worker.claim(1)) == 1
    held = await someone.execute("update longshore.horizon set low = low")
    await engine.submit([a_job(), a_job(type="other"), a_job()])  # a span that has to be parted

    async with asyncio.timeout(5):
        claims = await worker.claim(5)

    assert held != "UPDATE 0"
    assert len(claims) == 2


@pytest.mark.parametrize("age", ["1 hour", "-1 hour"], ids=["old", "new"])
async def test_notes_that_another_changes_are_left_to_it(
    engine: Engine, db: Connection, worker: ManualWorker, someone: Connection, age: str
) -> None:
    await engine.submit([a_job(), a_job()])
    assert len(await worker.claim(1)) == 1
    await db.execute(
        "update longshore.horizon"
        "   set low = low - 60000000, all_at = now() - $1::text::interval",
        age,
    )
    before = await db.fetch("select * from longshore.horizon order by 1, 2, 3")
    await someone.execute("delete from longshore.horizon")

    async with asyncio.timeout(5):
        await db.execute(
            "select longshore.look_ahead('default', '{noop}', $1, interval '1 millisecond')",
            await engine.now(),
        )

    assert len(before) == 36
    assert await db.fetch("select * from longshore.horizon order by 1, 2, 3") == before
