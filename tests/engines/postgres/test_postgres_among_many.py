"""What a look costs among many jobs that came one by one: half wait, half are over.

The database is filled once and never changed. Unless a test says so no statistics are taken:
the plans must not need them.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator

import asyncpg
import pytest

from longshore.contract import Engine, JobFilter
from longshore.core import ids
from longshore.core.state import State
from longshore.engines import open_engine
from longshore.engines.postgres.connection import Connection
from longshore_lab.servers import PostgresServer

MANY = 40_000
FILL = f"""
        insert into longshore.segment
        select g, 'q' || g % 4, 'noop', 'default', 5, 5, null, 1000000 + g, 1, 2,
               decode(lpad(to_hex(g), 32, '0'), 'hex'), '{{}}', array[0, 2]
          from generate_series(1, {MANY}) g;
        insert into longshore.locator
        select lpad(to_hex(g), 32, '0')::uuid, g, 0 from generate_series(1, {MANY}) g;
        insert into longshore.ready
            (queue, type, rank, segment, lo, hi, size, weight, run_at)
        select 'q' || g % 4, 'noop', g, g, 0, 1, 1, 2, 1000000 + g
          from generate_series({MANY} / 2 + 1, {MANY}) g;
        insert into longshore.finished
        select g, 0, 1, 1, null, case when g % 4000 = 0 then 'dead' else 'succeeded' end, 5, 1,
               1, 0, 0, 0, g, array[g], array[g], null, 'w', 5
          from generate_series(1, {MANY} / 2) g"""


@pytest.fixture(scope="module")
def crowded_url(postgres_server: PostgresServer) -> Iterator[str]:
    url = postgres_server.create("crowded")

    async def fill() -> None:
        engine = open_engine(url)
        await engine.migrate()
        await engine.close()
        connection = await asyncpg.connect(url)
        await connection.execute(FILL)
        await connection.close()

    asyncio.run(fill())
    yield url
    postgres_server.drop("crowded")


@pytest.fixture
async def crowded(crowded_url: str) -> AsyncIterator[Engine]:
    engine = open_engine(crowded_url)
    yield engine
    await engine.close()


@pytest.fixture
async def db(crowded_url: str) -> AsyncIterator[Connection]:
    connection = await asyncpg.connect(crowded_url)
    yield connection
    await connection.close()


async def _pages_read(db: Connection, statement: str) -> int:
    plan = json.loads(await db.fetchval(f"explain (analyze, buffers, format json) {statement}"))
    return plan[0]["Plan"]["Shared Hit Blocks"] + plan[0]["Plan"]["Shared Read Blocks"]


@pytest.mark.parametrize(
    "which",
    [
        f"select * from longshore.look(array['{20_000:032x}'::uuid], null)",
        f"select * from longshore.hold(array['{20_000:032x}'::uuid])",
    ],
)
async def test_a_look_at_one_job_reads_few_pages(db: Connection, which: str) -> None:
    await _pages_read(db, which)  # the first call in a connection reads the catalogue

    assert await _pages_read(db, which) < 60


@pytest.mark.parametrize(
    "state", ["null", "'ready'", "'scheduled'", "'running'", "'succeeded'", "'dead'"]
)
async def test_a_listing_reads_no_more_than_its_bound(db: Connection, state: str) -> None:
    scope = f"{state}, null, null, null, null, {2**62}, 50, 512"
    find = f"select * from longshore.find({scope})"
    await _pages_read(db, find)

    # 512 spans with their segments, and all that is known of 50 jobs.
    assert await _pages_read(db, find) < 512 * 8 + 50 * 60


@pytest.mark.parametrize("column", ["id", "segment"])
async def test_people_find_a_job_or_a_segment_by_index(db: Connection, column: str) -> None:
    await db.execute("analyze longshore.segment, longshore.locator, longshore.ready")
    await db.execute("analyze longshore.finished")
    # By itself the server reads small tables whole rather than looking up a few hundred rows.
    await db.execute("set enable_seqscan = off")
    value = {"id": f"'{20_000:032x}'", "segment": "20000"}[column]
    view = f"select * from longshore.jobs where {column} = {value}"
    await _pages_read(db, view)

    assert await _pages_read(db, view) < 60


async def test_a_page_of_a_few_among_many_is_full(crowded: Engine) -> None:
    dead = await crowded.find(JobFilter(state=State.DEAD), limit=4)
    of_one_queue = await crowded.find(JobFilter(queue="q1"), limit=1000)
    nothing = await crowded.find(JobFilter(queue="elsewhere"), limit=10)

    assert [ids.text(job.id)[-4:] for job in dead.jobs] == ["4e20", "3e80", "2ee0", "1f40"]
    assert dead.cursor is not None
    assert {job.queue for job in of_one_queue.jobs} == {"q1"}
    assert len(of_one_queue.jobs) == 1000
    assert nothing.jobs == []
