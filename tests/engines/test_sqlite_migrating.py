"""Migrations of SQLite: beside those who can go on, and after those who cannot."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest

from longshore import Longshore
from longshore.contract import Engine, Session
from longshore.engines import open_engine
from longshore.engines.sqlite import submission
from longshore.engines.sqlite.connection import Store
from longshore.engines.sqlite.schema_migration import MIGRATIONS, migrate
from longshore.engines.sqlite.writer import Writer
from longshore.errors import EngineBusyError, SchemaError
from longshore.runtime.clock import SystemClock
from longshore.runtime.migrate import Migration

LEASE = 30_000_000
NEXT = MIGRATIONS[-1].number + 1
ADDITION = Migration(
    NEXT,
    f"{NEXT:04d}_addition",
    f"-- longshore: works-with {NEXT - 1:04d}\n"
    "alter table longshore_session add column note text not null default 'none';",
)
BREAK = Migration(
    NEXT, f"{NEXT:04d}_break", "alter table longshore_session rename column worker to who;"
)


UNRELEASED = [
    Migration(
        1,
        "0001_jobs",
        "create table longshore_session (token int, expires_at int, closed_at int);",
    ),
    Migration(2, "0002_accounts", "create table longshore_tenant (name text);"),
]


@pytest.fixture
async def newer(path: Path, engine: Engine) -> AsyncIterator[Writer]:
    """Of the next version, on the file of an engine of this one."""
    store = Store(path=str(path), clock=SystemClock())
    writer = Writer(store, submission.submit, lambda _: None)
    yield writer
    await writer.close()


async def a_session(engine: Engine) -> Session:
    return await engine.open_session(worker="w", queues=["default"], types=["t"], lease=LEASE)


async def announced(path: Path) -> None:
    """Return when a migration is announced."""
    async with asyncio.timeout(10):
        with closing(sqlite3.connect(path)) as db:
            ahead = "select 1 from longshore_migration where applied_at is null"
            while db.execute(ahead).fetchone() is None:
                await asyncio.sleep(0.01)


async def test_older_code_works_beside_a_migration_that_says_so(
    engine: Engine, newer: Writer
) -> None:
    before = await a_session(engine)

    applied = await migrate(newer, migrations=[*MIGRATIONS, ADDITION], max_wait=0)

    assert applied == [ADDITION.name]
    await engine.ping()
    assert await engine.migrate() == []
    await before.exchange(1, want=1)
    await (await a_session(engine)).exchange(1, want=1)


async def test_a_breaking_migration_waits_for_older_code_and_lets_no_more_of_it_in(
    engine: Engine, newer: Writer, path: Path
) -> None:
    session = await a_session(engine)
    migration = asyncio.create_task(migrate(newer, migrations=[*MIGRATIONS, BREAK]))

    await announced(path)
    with pytest.raises(SchemaError, match=rf"about to go to {BREAK.name}.* upgrade longshore"):
        await engine.ping()
    with pytest.raises(SchemaError, match="upgrade longshore"):
        await a_session(engine)
    await session.renew()
    await session.exchange(1, want=1)
    assert [one.token for one in (await engine.sessions()).sessions] == [session.token]
    await session.close()

    assert await migration == [BREAK.name]
    with pytest.raises(SchemaError, match=rf"is at {BREAK.name}.* upgrade longshore"):
        await engine.migrate()


async def test_whoever_only_opens_the_file_asks_nobody_to_leave(
    engine: Engine, newer: Writer, path: Path
) -> None:
    await a_session(engine)

    with pytest.raises(EngineBusyError, match="stop them, or run `longshore migrate`"):
        await migrate(newer, migrations=[*MIGRATIONS, BREAK], max_wait=0)

    await engine.ping()


async def test_a_migrator_that_gives_up_lets_older_code_in_again(
    engine: Engine, newer: Writer
) -> None:
    await a_session(engine)

    with pytest.raises(EngineBusyError, match=f"beside {BREAK.name} are at work"):
        await migrate(newer, migrations=[*MIGRATIONS, BREAK], max_wait=0.2)

    await a_session(engine)


async def test_an_announcement_whose_migrator_died_lapses(
    engine: Engine, newer: Writer, path: Path
) -> None:
    with closing(sqlite3.connect(path)) as db, db:
        later = "insert into longshore_migration values (99, '0099_later', 'x', 99, 1, null)"
        db.execute(later)

    await engine.ping()
    await a_session(engine)


async def test_a_lease_that_ran_out_holds_up_no_migration(
    engine: Engine, newer: Writer
) -> None:
    await engine.open_session(worker="w", queues=["default"], types=["t"], lease=1)

    applied = await migrate(newer, migrations=[*MIGRATIONS, BREAK], max_wait=0)

    assert applied == [BREAK.name]


async def test_the_levels_of_sessions_that_are_gone_are_forgotten(
    engine: Engine, path: Path
) -> None:
    for _ in range(3):
        await (await a_session(engine)).close()
    session = await a_session(engine)

    with closing(sqlite3.connect(path)) as db:
        rows = db.execute("select token, level from longshore_session_level").fetchall()
    assert rows == [(session.token, MIGRATIONS[-1].number)]


async def test_a_file_of_an_unreleased_version_is_refused_and_left_as_it_is(path: Path) -> None:
    writer = Writer(
        Store(path=str(path), clock=SystemClock()), submission.submit, lambda _: None
    )
    await migrate(writer, migrations=UNRELEASED)
    await writer.close()
    before = path.read_bytes()
    engine = open_engine(f"sqlite:///{path}")

    for call in (engine.migrate, engine.ping, Longshore(f"sqlite:///{path}").__aenter__):
        with pytest.raises(
            SchemaError,
            match=r"made by an unreleased version of longshore: .* begins with 0001_jobs",
        ):
            await call()
    await engine.close()

    assert path.read_bytes() == before
