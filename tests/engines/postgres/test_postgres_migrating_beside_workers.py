"""Migrations of PostgreSQL beside workers, of this code and of older code."""

import asyncio
import time
from collections.abc import AsyncIterator

import asyncpg
import pytest

from longshore.contract import Engine, Session
from longshore.engines import open_engine
from longshore.engines.postgres import schema_migration
from longshore.engines.postgres.connection import Connection
from longshore.engines.postgres.database import Database
from longshore.engines.postgres.schema_migration import MIGRATIONS, migrate
from longshore.errors import (
    EngineBusyError,
    EngineError,
    EngineUnavailableError,
    SchemaError,
)
from longshore.runtime.migrate import Migration

LEASE = 30_000_000


def following(text: str, *, after: int = 0) -> Migration:
    """A migration that comes after those of this version."""
    number = MIGRATIONS[-1].number + 1 + after
    return Migration(number, f"{number:04d}_next", text)


ADDITION = following(
    f"-- longshore: works-with {MIGRATIONS[-1].number:04d}\n"
    "alter table longshore.session add column note text not null default 'none'"
)
BREAK = following("alter table longshore.session rename column worker to who")
INDEX = following(
    f"-- longshore: works-with {MIGRATIONS[-1].number:04d}\n-- longshore: outside-transaction\n"
    "create index concurrently if not exists note_n on longshore.note (n)"
)


@pytest.fixture
def url(new_postgres_url: str) -> str:
    return new_postgres_url


@pytest.fixture
async def engine(new_postgres_url: str) -> AsyncIterator[Engine]:
    """One of this version, on its own schema."""
    engine = open_engine(new_postgres_url)
    await engine.migrate()
    yield engine
    await engine.close()


async def a_session(engine: Engine) -> Session:
    return await engine.open_session(worker="w", queues=["default"], types=["t"], lease=LEASE)


@pytest.mark.slow
async def test_many_who_wait_for_the_same_lock_leave_the_others_most_of_the_time(
    engine: Engine, database: Database, other: Connection, new_postgres_url: str
) -> None:
    databases = [Database(new_postgres_url) for _ in range(6)]
    long = other.transaction()
    await long.start()
    await other.fetch("select * from longshore.session")
    waiting = [
        asyncio.create_task(migrate(one, migrations=[*MIGRATIONS, ADDITION]))
        for one in databases
    ]

    began, waited = time.monotonic(), 0.0
    while time.monotonic() - began < 4:
        start = time.monotonic()
        await database.fetch("select count(*) from longshore.session")
        waited += time.monotonic() - start
        await asyncio.sleep(0.01)
    assert not any(one.done() for one in waiting)
    await long.commit()

    assert [name for one in waiting for name in await one] == [ADDITION.name]
    assert waited < 2.0
    for one in databases:
        await one.close()


async def test_older_code_works_beside_a_migration_that_says_so(
    engine: Engine, database: Database
) -> None:
    before = await a_session(engine)

    assert await migrate(database, migrations=[*MIGRATIONS, ADDITION], max_wait=0) == [
        ADDITION.name
    ]

    await engine.ping()
    assert await engine.migrate() == []
    await before.exchange(1, want=1)
    after = await a_session(engine)
    await after.exchange(1, want=1)


async def test_a_breaking_migration_waits_for_older_code_and_lets_no_more_of_it_in(
    engine: Engine, database: Database, other: Connection
) -> None:
    session = await a_session(engine)
    migration = asyncio.create_task(migrate(database, migrations=[*MIGRATIONS, BREAK]))

    async with asyncio.timeout(10):
        while not await other.fetchval(
            "select count(announced_until) from longshore.migration"
        ):
            await asyncio.sleep(0.01)
    with pytest.raises(SchemaError, match=f"about to go to {BREAK.name}.* upgrade longshore"):
        await engine.ping()
    with pytest.raises(SchemaError, match="upgrade longshore"):
        await a_session(engine)
    with pytest.raises(SchemaError, match="upgrade longshore"):
        await engine.migrate()
    await session.renew()
    await session.exchange(1, want=1)
    assert [one.token for one in (await engine.sessions()).sessions] == [session.token]
    assert not migration.done()
    await session.close()

    assert await migration == [BREAK.name]
    with pytest.raises(SchemaError, match=f"is at {BREAK.name}.* upgrade longshore"):
        await engine.ping()


async def test_a_lease_that_ran_out_holds_up_no_migration(
    engine: Engine, database: Database
) -> None:
    await engine.open_session(worker="w", queues=["default"], types=["t"], lease=1)

    assert await migrate(database, migrations=[*MIGRATIONS, BREAK], max_wait=0) == [BREAK.name]


async def test_a_session_of_unknown_code_counts_as_old(
    engine: Engine, database: Database, other: Connection
) -> None:
    await a_session(engine)
    await other.execute("delete from longshore.session_level")

    with pytest.raises(EngineBusyError, match="still hold a lease"):
        await migrate(database, migrations=[*MIGRATIONS, ADDITION], max_wait=0)


async def test_a_migrator_that_gives_up_lets_older_code_in_again(
    engine: Engine, database: Database
) -> None:
    await a_session(engine)

    with pytest.raises(EngineBusyError, match=f"beside {BREAK.name} still hold a lease .1."):
        await migrate(database, migrations=[*MIGRATIONS, BREAK], max_wait=0.2)

    await engine.ping()
    await a_session(engine)


async def test_a_migrator_that_is_interrupted_lets_older_code_in_again(
    engine: Engine, database: Database, other: Connection
) -> None:
    await a_session(engine)
    migration = asyncio.create_task(migrate(database, migrations=[*MIGRATIONS, BREAK]))
    async with asyncio.timeout(10):
        while not await other.fetchval(
            "select count(announced_until) from longshore.migration"
        ):
            await asyncio.sleep(0.01)

    migration.cancel()
    with pytest.raises(asyncio.CancelledError):
        await migration

    await a_session(engine)


async def test_an_announcement_whose_migrator_died_lapses(
    engine: Engine, database: Database, other: Connection
) -> None:
    await other.execute(
        schema_migration.SQL.migration_announce, BREAK.number, BREAK.name, "x", BREAK.works_with
    )
    with pytest.raises(SchemaError, match="about to go to"):
        await engine.ping()

    await other.execute("update longshore.migration set announced_until = now()")

    await a_session(engine)
    await engine.ping()


async def test_the_levels_of_sessions_that_are_gone_are_forgotten(
    engine: Engine, other: Connection
) -> None:
    for _ in range(3):
        await (await a_session(engine)).close()
    session = await a_session(engine)

    rows = await other.fetch("select token, level from longshore.session_level")
    assert [tuple(row) for row in rows] == [(session.token, MIGRATIONS[-1].number)]


async def test_beside_workers_a_statement_that_takes_long_is_given_up(
    engine: Engine, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema_migration, "_BRISKLY", "set local statement_timeout = '100ms'")
    slow = following(
        f"-- longshore: works-with {MIGRATIONS[-1].number:04d}\nselect pg_sleep(30)"
    )

    with pytest.raises(EngineUnavailableError, match="took too long"):
        await migrate(database, migrations=[*MIGRATIONS, slow])

    await engine.ping()


async def test_an_index_is_built_outside_a_transaction_once(
    engine: Engine, database: Database, new_postgres_url: str, other: Connection
) -> None:
    await other.execute("create table longshore.note (n int)")
    databases = [Database(new_postgres_url) for _ in range(4)]

    applied = await asyncio.gather(
        *(migrate(one, migrations=[*MIGRATIONS, INDEX]) for one in databases)
    )

    assert [name for names in applied for name in names] == [INDEX.name]
    assert await is_valid(other, "note_n") is True
    for one in databases:
        await one.close()


async def test_an_index_that_was_left_half_built_is_built_anew(
    engine: Engine, database: Database, other: Connection
) -> None:
    await other.execute(
        "create table longshore.note (n int); insert into longshore.note values (1), (1)"
    )
    with pytest.raises(asyncpg.UniqueViolationError):
        await other.execute("create unique index concurrently note_n on longshore.note (n)")
    assert await is_valid(other, "note_n") is False

    await migrate(database, migrations=[*MIGRATIONS, INDEX])

    assert await is_valid(other, "note_n") is True


async def test_an_index_that_was_built_and_not_remembered_is_kept(
    engine: Engine, database: Database, other: Connection
) -> None:
    """The migrator died between its statement and its commit."""
    await other.execute(
        "create table longshore.note (n int); create index note_n on longshore.note (n)"
    )
    number = await other.fetchval("select 'longshore.note_n'::regclass::oid")

    assert await migrate(database, migrations=[*MIGRATIONS, INDEX]) == [INDEX.name]

    assert await other.fetchval("select 'longshore.note_n'::regclass::oid") == number


async def test_an_index_that_cannot_be_built_leaves_nothing_of_itself(
    engine: Engine, database: Database, other: Connection
) -> None:
    """Half built it would still refuse what it finds doubled."""
    await other.execute(
        "create table longshore.note (n int); insert into longshore.note values (1), (1)"
    )
    unique = following(INDEX.statements.replace("create index", "create unique index"))

    with pytest.raises(EngineError, match="could not create unique index"):
        await migrate(database, migrations=[*MIGRATIONS, unique])

    assert await is_valid(other, "note_n") is None
    await engine.ping()


async def test_while_an_index_waits_for_a_long_transaction_nobody_waits_for_the_index(
    engine: Engine, database: Database, other: Connection, new_postgres_url: str
) -> None:
    await other.execute("create table longshore.note (n int)")
    long = other.transaction()
    await long.start()
    await other.execute("insert into longshore.note values (1)")
    waiting = asyncio.create_task(migrate(database, migrations=[*MIGRATIONS, INDEX]))

    waits = []
    while len(waits) < 50:
        start = time.monotonic()
        await database.fetch("insert into longshore.note values (2)")
        waits.append(time.monotonic() - start)
        await asyncio.sleep(0.01)
    assert not waiting.done()
    await long.commit()

    assert await waiting == [INDEX.name]
    assert max(waits) < 1.0


async def is_valid(connection: Connection, index: str) -> bool | None:
    return await connection.fetchval(
        "select indisvalid from pg_index where indexrelid = to_regclass('longshore.' || $1)",
        index,
    )
