"""Migrations of PostgreSQL: once, whoever runs them, and in nobody's way."""

import asyncio
import time

import pytest

from longshore import Longshore
from longshore.engines import open_engine
from longshore.engines.postgres import schema_migration
from longshore.engines.postgres.connection import Connection
from longshore.engines.postgres.database import Database
from longshore.engines.postgres.schema_migration import MIGRATIONS, migrate, verify
from longshore.errors import (
    ConfigError,
    EngineBusyError,
    EngineError,
    EngineUnavailableError,
    SchemaError,
)
from longshore.runtime.migrate import Migration
from longshore_lab.servers import PostgresServer

FIRST = Migration(1, "0001_note", "create table longshore.note (n int)")
SECOND = Migration(2, "0002_more", "alter table longshore.note add column more int")


@pytest.fixture
def url(new_postgres_url: str) -> str:
    return new_postgres_url


async def test_the_schema_of_this_version_is_made_once(database: Database) -> None:
    names = [one.name for one in MIGRATIONS]

    assert await migrate(database) == names
    assert await migrate(database) == []
    await verify(database)


async def test_what_came_later_is_added_to_what_is_there(
    database: Database, other: Connection
) -> None:
    await migrate(database, migrations=[FIRST])

    assert await migrate(database, migrations=[FIRST, SECOND]) == ["0002_more"]

    rows = await other.fetch("select number, name, checksum from longshore.migration")
    assert [tuple(row) for row in rows] == [
        (1, "0001_note", FIRST.checksum),
        (2, "0002_more", SECOND.checksum),
    ]


async def test_many_at_once_apply_each_migration_once(new_postgres_url: str) -> None:
    databases = [Database(new_postgres_url) for _ in range(6)]

    applied = await asyncio.gather(*(migrate(one) for one in databases))

    assert sorted(name for names in applied for name in names) == [
        one.name for one in MIGRATIONS
    ]
    for one in databases:
        await one.close()


async def test_a_migration_that_fails_leaves_nothing_of_itself(
    database: Database, other: Connection
) -> None:
    broken = Migration(2, "0002_broken", "create table longshore.half (n int); zelect")

    with pytest.raises(EngineError, match="syntax error"):
        await migrate(database, migrations=[FIRST, broken])

    assert await other.fetchval("select to_regclass('longshore.half')") is None
    assert await other.fetchval("select max(number) from longshore.migration") == 1
    assert await migrate(database, migrations=[FIRST, SECOND]) == ["0002_more"]


async def test_a_missing_a_newer_and_a_changed_schema_are_told_apart(
    database: Database,
) -> None:
    changed = Migration(1, "0001_note", "create table longshore.other (n int)")
    with pytest.raises(SchemaError, match="run `longshore migrate`"):
        await verify(database, migrations=[FIRST])
    await migrate(database, migrations=[FIRST, SECOND])
    third = Migration(3, "0003_third", "select 1")

    with pytest.raises(SchemaError, match="0003_third is missing; run `longshore migrate`"):
        await verify(database, migrations=[FIRST, SECOND, third])
    with pytest.raises(SchemaError, match="upgrade longshore"):
        await verify(database, migrations=[FIRST])
    with pytest.raises(SchemaError, match="upgrade longshore"):
        await migrate(database, migrations=[FIRST])
    with pytest.raises(SchemaError, match="changed after it was applied"):
        await migrate(database, migrations=[changed, SECOND])


async def test_an_empty_schema_made_by_someone_else_is_used(
    database: Database, other: Connection
) -> None:
    """By an administrator, for a user who may not make one."""
    await other.execute("create schema longshore")

    assert await migrate(database, migrations=[FIRST]) == ["0001_note"]


async def test_a_user_who_may_not_create_is_told_so(
    postgres_server: PostgresServer, new_postgres_url: str, other: Connection
) -> None:
    await other.execute("drop role if exists guest; create role guest login")
    guest = Database(new_postgres_url.replace("postgres@", "guest@"))

    with pytest.raises(ConfigError, match="lacks a privilege"):
        await migrate(guest)

    await guest.close()
    await other.execute("drop role guest")


async def test_a_read_only_server_is_unavailable(database: Database, other: Connection) -> None:
    await migrate(database, migrations=[FIRST])
    await database.close()
    name = await other.fetchval("select current_database()")
    await other.execute(f'alter database "{name}" set default_transaction_read_only = on')

    with pytest.raises(EngineUnavailableError, match="read-only"):
        await verify(database, migrations=[FIRST])


async def test_a_migration_lets_others_pass_while_a_long_transaction_is_in_its_way(
    database: Database, other: Connection, new_postgres_url: str
) -> None:
    """An ALTER that waits for its lock would make every later reader wait behind it."""
    await migrate(database, migrations=[FIRST])
    long = other.transaction()
    await long.start()
    await other.execute("insert into longshore.note values (1)")
    waiting = asyncio.create_task(migrate(database, migrations=[FIRST, SECOND]))

    waits = []
    while len(waits) < 50:
        start = time.monotonic()
        await database.fetch("select count(*) from longshore.note")
        waits.append(time.monotonic() - start)
        await asyncio.sleep(0.01)
    assert not waiting.done()
    await long.commit()

    assert await waiting == ["0002_more"]
    assert max(waits) < 1.5


async def test_a_migration_gives_up_on_a_transaction_that_does_not_end(
    database: Database, other: Connection
) -> None:
    await migrate(database, migrations=[FIRST])
    async with other.transaction():
        await other.execute("insert into longshore.note values (1)")

        with pytest.raises(EngineBusyError, match="holds a lock"):
            await migrate(database, migrations=[FIRST, SECOND], max_wait=0)


async def test_a_migrator_that_hangs_holds_up_the_others_for_a_bounded_time(
    database: Database, other: Connection
) -> None:
    async with other.transaction():
        await other.fetch(schema_migration.SQL.migration_lock)

        with pytest.raises(EngineBusyError, match="another process is migrating"):
            await migrate(database, migrations=[FIRST], max_wait=0.2)

    assert await migrate(database, migrations=[FIRST]) == ["0001_note"]


async def test_an_ended_connection_leaves_a_schema_that_can_be_migrated(
    database: Database, other: Connection
) -> None:
    slow = Migration(2, "0002_slow", "select pg_sleep(59); create table longshore.slow_jobs ()")
    migration = asyncio.create_task(migrate(database, migrations=[FIRST, slow]))
    async with asyncio.timeout(10):
        while not await other.fetchval(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where application_name = 'longshore migrate' and query like '%pg_sleep(59)%'"
            " and state = 'active'"
        ):
            await asyncio.sleep(0.01)

    with pytest.raises(EngineUnavailableError):
        await migration

    assert await migrate(database, migrations=[FIRST, SECOND]) == ["0002_more"]


async def test_a_database_of_an_unreleased_version_is_refused_and_left_as_it_is(
    database: Database, other: Connection, new_postgres_url: str
) -> None:
    first = Migration(1, "0001_tables", "create table longshore.note (n int)")
    await migrate(database, migrations=[first, SECOND])
    engine = open_engine(new_postgres_url)

    for call in (engine.migrate, engine.ping):
        with pytest.raises(
            SchemaError,
            match="made by an unreleased version of longshore: its schema begins with 0001_t",
        ):
            await call()
    await engine.close()

    tables = "select array_agg(relname::text order by relname) from pg_class"
    assert await other.fetchval(
        f"{tables} where relkind = 'r' and relnamespace = 'longshore'::regnamespace"
    ) == ["migration", "note", "session_level"]
    assert await other.fetchval("select count(*) from longshore.migration") == 2


async def test_a_worker_does_not_begin_on_a_database_of_an_unreleased_version(
    database: Database, other: Connection, new_postgres_url: str
) -> None:
    await migrate(database)
    await other.execute("update longshore.migration set name = '0001_tables'")

    with pytest.raises(SchemaError, match="made by an unreleased version of longshore"):
        async with asyncio.timeout(10):
            await Longshore(new_postgres_url).work(queues=["default"])

    assert await other.fetchval("select count(*) from longshore.session") == 0
