"""Behind PgBouncer in transaction mode: no prepared names, no settings of a session."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from longshore import Longshore
from longshore.contract import Exchanged
from longshore.core import settle
from longshore.core.state import State
from longshore.engines import open_engine
from longshore.engines.postgres.database import Connection, Database
from longshore.engines.postgres.schema_migration import MIGRATIONS, migrate, verify
from longshore.engines.postgres.session import PostgresSession
from longshore.errors import ConfigError
from longshore.runtime.migrate import Migration
from longshore.testing.factories import a_job
from longshore.testing.manual import a_worker


@pytest.fixture
def url(new_pooled_url: str) -> str:
    return new_pooled_url


@pytest.fixture
async def database(url: str) -> AsyncIterator[Database]:
    database = Database(url, listens=False, statement_cache=False)
    yield database
    await database.close()


WHO = """
    select $1::int as number, pg_backend_pid() as pid, $2::uuid[] as ids,
           current_setting('jit') as jit, current_setting('statement_timeout') as seconds
"""


async def test_every_call_gets_its_own_answer_from_whichever_session(
    database: Database,
) -> None:
    lane = database.lane()

    rows = await asyncio.gather(
        *(database.fetch(WHO, number, [bytes(16)]) for number in range(30)),
        *(lane.fetch(WHO, number, [bytes(16)]) for number in range(30, 60)),
    )

    assert [row[0]["number"] for row in rows] == list(range(60))
    assert len({row[0]["pid"] for row in rows}) == 3
    assert {(row[0]["jit"], row[0]["seconds"]) for row in rows} == {("off", "30s")}
    await lane.close()


async def test_a_transaction_stays_with_its_session(database: Database) -> None:
    async def body(connection: Connection) -> tuple[object, object]:
        await connection.execute("create temp table t (n int) on commit drop")
        await connection.execute("insert into t values ($1)", 1)
        return (
            await connection.fetchval("select count(*) from t"),
            await connection.fetchval("select pg_backend_pid()"),
        )

    answers = await asyncio.gather(*(database.transact(body) for _ in range(12)))

    assert {count for count, _ in answers} == {1}
    assert len({pid for _, pid in answers}) == 3


async def test_migrations_work_through_it(database: Database) -> None:
    assert await migrate(database) == [one.name for one in MIGRATIONS]
    await verify(database)


async def test_an_index_is_built_beside_writers_through_it(database: Database) -> None:
    await migrate(database)
    number = MIGRATIONS[-1].number + 1
    index = Migration(
        number,
        f"{number:04d}_index",
        "-- longshore: outside-transaction\n"
        "create index concurrently if not exists total_number on longshore.total (number)",
    )

    assert await migrate(database, migrations=[*MIGRATIONS, index]) == [index.name]


async def test_keepers_work_through_it(url: str) -> None:
    engine = open_engine(f"{url}?pgbouncer=on&listen=off")
    await engine.migrate()
    await engine.submit([a_job()])
    worker = await a_worker(engine)
    (claim,) = await worker.claim()

    renewed = await engine.renew(worker.session.token)
    held = await engine.held(worker.session.token)
    buried = await engine.end_session(worker.session.token, [settle.released(claim)])
    job = await engine.get(claim.id)
    await engine.close()

    assert renewed.expires_at > renewed.now
    assert [one.id for one in held or []] == [claim.id]
    assert (buried, job.state) == (1, State.READY)


async def test_a_url_that_does_not_tell_of_the_pooler_is_told_how_to(url: str) -> None:
    database = Database(url)

    with pytest.raises(ConfigError, match="pgbouncer=on"):
        await database.fetch("select 1")
    await database.close()


async def test_what_a_transaction_prepared_is_unknown_to_the_next(url: str) -> None:
    connection = await asyncpg.connect(url)
    await connection.fetch("select $1::int", 1)

    with pytest.raises(asyncpg.InvalidSQLStatementNameError):
        await connection.fetch("select $1::int", 1)
    await connection.close()


async def test_what_a_transaction_leaves_in_its_session_is_gone_for_the_next(url: str) -> None:
    connection = await asyncpg.connect(url, statement_cache_size=0)
    await connection.execute("create temp table left_behind (n int)")
    await connection.execute("set work_mem = '123kB'")

    with pytest.raises(asyncpg.UndefinedTableError):
        await connection.fetch("select * from left_behind")
    assert await connection.fetchval("show work_mem") != "123kB"
    await connection.close()


async def test_a_worker_that_cannot_listen_looks_by_itself(url: str) -> None:
    app, sender = (Longshore(f"{url}?pgbouncer=on") for _ in range(2))

    @app.task
    async def double(number: int) -> int:
        return 2 * number

    async with app, sender:
        await app.engine.migrate()
        working = asyncio.create_task(app.work())
        await asyncio.sleep(0.5)  # it has found nothing, and waits
        async with asyncio.timeout(10):
            handles = [await sender.submit_spec(double.spec(number)) for number in range(5)]
            results = [await handle.result() for handle in handles]
        assert not app.engine.traits.pushes_wakeups
        working.cancel()
        await asyncio.wait([working])

    assert results == [0, 2, 4, 6, 8]


async def test_a_worker_that_cannot_listen_looks_four_times_a_second(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    app, looks = Longshore(f"{url}?pgbouncer=on"), 0
    exchange = PostgresSession.exchange

    async def counted(self: PostgresSession, *args: Any, **rest: Any) -> Exchanged:
        nonlocal looks
        looks += 1
        return await exchange(self, *args, **rest)

    monkeypatch.setattr(PostgresSession, "exchange", counted)

    @app.task
    async def nothing() -> None: ...

    async with app:
        await app.engine.migrate()
        working = asyncio.create_task(app.work())
        async with asyncio.timeout(10):
            while not looks:
                await asyncio.sleep(0.01)
        before = looks
        # On the same loop, so that a machine that is busy delays both.
        for _ in range(8):
            await asyncio.sleep(0.25)
        seen = looks - before
        working.cancel()
        await asyncio.wait([working])

    assert 5 <= seen <= 9, seen
