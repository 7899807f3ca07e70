"""While an old snapshot is open the server forgets no claimed span; claims stay quick."""

import asyncio
import json
from collections.abc import AsyncIterator

import asyncpg
import pytest

from longshore.contract import Engine
from longshore.core.limit_settings import Layer, Order, QueueSettings
from longshore.engines import open_engine
from longshore.engines.postgres.connection import Connection
from longshore.records import queue_settings
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


async def pages_of_a_claim(
    db: Connection, fair: str = "{}", types: tuple[str, ...] = ("noop",)
) -> int:
    """The pages that a claim reads, the least of three that are taken back.

    The first call of a connection reads the catalogue, and so does one that comes behind an
    analyze or a change of tables by anybody.
    """
    return min([await _pages_of_one(db, fair, types) for _ in range(3)])


async def _pages_of_one(db: Connection, fair: str, types: tuple[str, ...]) -> int:
    what = f"1767225600000000, '{{default}}', '{{{','.join(types)}}}', 5, null"
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

    assert await pages_of_a_claim(db) < QUICK


async def test_a_claim_of_a_fair_queue_passes_over_it_once_too(
    engine: Engine, db: Connection, worker: ManualWorker
) -> None:
    await queue_settings.put(engine, "default", Layer.OVERRIDDEN, FAIR)
    await engine.submit([a_job(tenant="anna"), a_job(tenant="bert"), a_job(tenant="anna")])

    assert len(await worker.claim(1)) == 1

    assert await pages_of_a_claim(db, "{default}") < QUICK


async def test_what_tenants_submit_later_is_found_in_their_turns_whatever_its_priority(
    engine: Engine, db: Connection, worker: ManualWorker
) -> None:
    await queue_settings.put(engine, "default", Layer.OVERRIDDEN, FAIR)
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


@pytest.mark.parametrize("types", [("mail",), ("mail", *MANY[1:])], ids=["one", "many"])
async def test_what_another_worker_serves_is_found_at_once(
    engine: Engine, db: Connection, worker: ManualWorker, types: tuple[str, ...]
) -> None:
    other = await a_worker(engine, name="other", types=types)
    await engine.submit([a_job()])
    assert len(await worker.claim(1)) == 1
    noted = await db.fetch("select distinct type from longshore.horizon where all_at > now()")
    mail = a_job(type="mail")
    await engine.submit([mail])

    claims = await other.claim(5)

    assert {row["type"] for row in noted} == {"", "noop"}
    assert [one.id for one in claims] == [mail.id]


async def test_what_another_worker_serves_is_found_at_once_in_turns_of_tenants_too(
    engine: Engine, db: Connection, worker: ManualWorker
) -> None:
    await queue_settings.put(engine, "default", Layer.OVERRIDDEN, FAIR)
    other = await a_worker(engine, name="other", types=("mail",))
    before = [a_job(tenant="anna"), a_job(tenant="anna"), a_job(tenant="anna", type="mail")]
    for job in before:
        await engine.submit([job])
    assert len(await worker.claim(1)) == 1
    noted = await db.fetch("select lane, types from longshore.lane_horizon")
    found = await other.claim(5)
    late = a_job(tenant="anna", type="mail")
    await engine.submit([late])
    found += await other.claim(5)

    assert [row["lane"] for row in noted] == ["anna"]
    assert [one.id for one in found] == [before[2].id, late.id]


async def test_types_without_notes_cost_a_look_each(
    engine: Engine, db: Connection, worker: ManualWorker
) -> None:
    await engine.submit([a_job(), a_job()])
    assert len(await worker.claim(1)) == 1

    await pages_of_a_claim(db, types=MANY)  # the first call reads the catalogue
    assert await pages_of_a_claim(db, types=MANY) < QUICK + 10 * len(MANY)


async def test_a_type_that_takes_long_to_look_for_is_added_to_the_notes(
    engine: Engine, db: Connection, worker: ManualWorker
) -> None:
    await engine.submit([a_job(), a_job(), a_job()])
    assert len(await worker.claim(1)) == 1
    await db.execute("delete from longshore.horizon where type = 'noop'")

    assert len(await worker.claim(1)) == 1

    noted = await db.fetch("select type, all_at from longshore.horizon")
    assert len(noted) == 36
    assert len({row["all_at"] for row in noted}) == 1
    await pages_of_a_claim(db)
    assert await pages_of_a_claim(db) < QUICK


@pytest.fixture
async def someone(new_postgres_url: str) -> AsyncIterator[Connection]:
    """Another worker's connection."""
    connection = await asyncpg.connect(new_postgres_url)
    yield connection
    await connection.close()


LOOK_AHEAD = "select longshore.look_ahead('default', '{noop}', $1, interval '1 millisecond')"
CHANGED = "select count(*) from longshore.horizon where xmin = pg_current_xact_id()::xid"


async def test_a_claim_leaves_notes_that_another_changes_and_waits_for_none(
    engine: Engine, db: Connection, worker: ManualWorker, someone: Connection
) -> None:
    await engine.submit([a_job()])
    assert len(await worker.claim(1)) == 1
    await db.execute("update longshore.horizon set low = low - 60000000")
    await engine.submit([a_job()])
    async with someone.transaction():
        await someone.execute(LOOK_AHEAD, await engine.now())
        changed = await someone.fetchval(CHANGED)
        await engine.submit([a_job(), a_job(type="other"), a_job()])  # has to be parted

        async with asyncio.timeout(5):
            claims = await worker.claim(5)

    assert changed == 1
    assert len(claims) == 3
    assert await db.fetchval("select count(*) from longshore.horizon") == 36


async def test_all_is_found_after_a_span_was_parted_while_another_changed_the_notes(
    engine: Engine, db: Connection, worker: ManualWorker, someone: Connection
) -> None:
    await engine.submit([a_job()])
    assert len(await worker.claim(1)) == 1
    await db.execute("update longshore.horizon set low = low - 60000000")
    await engine.submit([a_job()])
    async with someone.transaction():
        await someone.execute(LOOK_AHEAD, await engine.now())
        await engine.submit([a_job(), a_job(type="other"), a_job()])
        await worker.claim(5)
    urgent = [a_job(priority=1), a_job(priority=1)]
    mixed = [a_job(), a_job(type="more"), a_job()]
    for jobs in ([urgent[0]], [urgent[1]], mixed):
        await engine.submit(jobs)

    claims = await worker.claim(10)

    wanted = [*urgent, mixed[0], mixed[2]]
    assert [one.id for one in claims] == [job.id for job in wanted]


async def test_the_notes_of_a_parted_span_are_forgotten_with_all_that_are_old(
    engine: Engine, db: Connection, worker: ManualWorker
) -> None:
    await engine.submit([a_job()])
    assert len(await worker.claim(1)) == 1
    await db.execute("""
        insert into longshore.horizon
        select q.queue, 'noop', 1, 2, now() + q.lasts
          from (values ('old', -interval '1 hour'), ('new', interval '1 hour')) q (queue, lasts)
        """)

    await db.execute("select longshore.forget_horizon('default')")

    left = await db.fetch("select queue from longshore.horizon")
    assert [row["queue"] for row in left] == ["new"]


@pytest.mark.parametrize("age", ["1 hour", "-1 hour"], ids=["old", "new"])
async def test_notes_that_another_forgets_are_left_to_it(
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

    async with someone.transaction():
        await someone.execute("select longshore.forget_horizon('default')")
        async with asyncio.timeout(5):
            await db.execute(LOOK_AHEAD, await engine.now())
            await db.execute("select longshore.forget_horizon('elsewhere')")
        after = await db.fetch("select * from longshore.horizon order by 1, 2, 3")

    assert len(before) == 36
    assert after == before
    assert await db.fetchval("select count(*) from longshore.horizon") == 0


async def test_two_that_forget_notes_of_two_queues_in_turn_do_not_wait_for_each_other(
    engine: Engine, db: Connection, someone: Connection
) -> None:
    look_ahead = "select longshore.look_ahead($1, '{noop}', $2, interval '1 millisecond')"
    forget = "select longshore.forget_horizon($1)"
    now = await engine.now()
    for queue in ("one", "two", "three"):
        await db.execute(look_ahead, queue, now)
    noted = await db.fetch("select distinct queue from longshore.horizon")

    async with asyncio.timeout(5), db.transaction(), someone.transaction():
        await db.execute(forget, "one")
        await someone.execute(forget, "two")
        for queue in ("two", "one"):
            await db.execute(forget, queue)
            await db.execute(look_ahead, queue, now)
            await someone.execute(forget, queue)
            await someone.execute(look_ahead, queue, now)

    left = await db.fetch("select queue, count(*) from longshore.horizon group by queue")
    assert len(noted) == 3
    assert {row["queue"]: row["count"] % 18 for row in left} == {"one": 0, "three": 0}
