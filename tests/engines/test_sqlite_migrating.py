"""Migrations of SQLite: beside those who can go on, and after those who cannot."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from longshore.core.job import Failure, JobId, NewJob
from longshore.engine import Engine, Session
from longshore.engines import open_engine
from longshore.engines.sqlite import submitting
from longshore.engines.sqlite.connection import Store
from longshore.engines.sqlite.migrating import MIGRATIONS, migrate
from longshore.engines.sqlite.sql import SQL
from longshore.engines.sqlite.writer import Writer
from longshore.errors import EngineBusyError, SchemaError
from longshore.runtime.clock import SystemClock
from longshore.runtime.migrate import Migration

LEASE = 30_000_000
NEXT = len(MIGRATIONS) + 1
ADDITION = Migration(
    NEXT,
    f"{NEXT:04d}_addition",
    f"-- longshore: works-with {NEXT - 1:04d}\n"
    "alter table longshore_session add column note text not null default 'none';",
)
BREAK = Migration(
    NEXT, f"{NEXT:04d}_break", "alter table longshore_session rename column worker to who;"
)


@pytest.fixture
async def newer(path: Path, engine: Engine) -> AsyncIterator[Writer]:
    """Of the next version, on the file of an engine of this one."""
    store = Store(path=str(path), clock=SystemClock())
    writer = Writer(store, submitting.submit, lambda _: None)
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

    applied = await migrate(newer, migrations=[*MIGRATIONS, ADDITION], patience=0)

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
    assert [one.token for one in await engine.sessions()] == [session.token]
    await session.close()

    assert await migration == [BREAK.name]
    with pytest.raises(SchemaError, match=rf"is at {BREAK.name}.* upgrade longshore"):
        await engine.migrate()


async def test_whoever_only_opens_the_file_asks_nobody_to_leave(
    engine: Engine, newer: Writer, path: Path
) -> None:
    await a_session(engine)

    with pytest.raises(EngineBusyError, match="stop them, or run `longshore migrate`"):
        await migrate(newer, migrations=[*MIGRATIONS, BREAK], patience=0)

    await engine.ping()


async def test_a_migrator_that_gives_up_lets_older_code_in_again(
    engine: Engine, newer: Writer
) -> None:
    await a_session(engine)

    with pytest.raises(EngineBusyError, match=f"beside {BREAK.name} are at work"):
        await migrate(newer, migrations=[*MIGRATIONS, BREAK], patience=0.2)

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

    applied = await migrate(newer, migrations=[*MIGRATIONS, BREAK], patience=0)

    assert applied == [BREAK.name]


async def test_the_levels_of_sessions_that_are_gone_are_forgotten(
    engine: Engine, path: Path
) -> None:
    for _ in range(3):
        await (await a_session(engine)).close()
    session = await a_session(engine)

    with closing(sqlite3.connect(path)) as db:
        rows = db.execute("select token, level from longshore_session_level").fetchall()
    assert rows == [(session.token, len(MIGRATIONS))]


async def test_jobs_are_what_they_were_when_each_state_gets_a_table_of_its_own(
    path: Path,
) -> None:
    with closing(sqlite3.connect(path)) as db, db:
        _at_level(db, 2)
        db.execute(
            "insert into longshore_session (token, worker, queues, types, lease, opened_at,"
            " renewed_at, expires_at, exchange) values (7, 'w', '[]', '[]', 1, 1, 1, ?, 3)",
            (2**60,),
        )
        for row in OLD_ROWS:
            _insert(db, "longshore_job", row)
        failed: dict[str, object] = {
            "seq": 1,
            "delivery": 2,
            "attempt": 1,
            "outcome": "failed",
            "failure": WHY,
        }
        _insert(db, "longshore_attempt", failed)
        _insert(db, "longshore_job", {**OLD_ROWS[0], "seq": 90, "id": bytes([90] * 16)})
        db.execute("delete from longshore_job where seq = 90")
    engine = open_engine(f"sqlite:///{path}")

    # The session is of older code, and holds a lease: only it has to leave first.
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("update longshore_session set expires_at = 1")
    assert "0004_states" in await engine.migrate(patience=0)

    jobs = [await engine.get(JobId(row["id"])) for row in OLD_ROWS]  # pyright: ignore[reportArgumentType]  # bytes above
    for job, row in zip(jobs, OLD_ROWS, strict=True):
        now = msgspec.structs.asdict(job)
        assert {name: now[name] for name in row if name in now} == {
            name: value for name, value in row.items() if name in now
        }
    assert jobs[0].failure == Failure("ValueError", "no")
    assert [one.handle for one in await engine.held(7) or []] == [3]
    await engine.submit([NewJob(id=JobId(bytes([91] * 16)), type="t", queue="q")])
    with closing(sqlite3.connect(path)) as db:
        newest = db.execute("select max(seq) from longshore_job").fetchone()
        assert newest == (91,), "a number was used twice"
        assert db.execute("pragma integrity_check").fetchone() == ("ok",)
    await engine.close()


WHY = '{"kind":"ValueError","message":"no"}'
_ROW: dict[str, object] = {
    "tenant": "x",
    "queue": "q",
    "type": "t",
    "priority": 5,
    "rank": 1,
    "run_at": 7,
    "created_at": 5,
    "max_attempts": 5,
    "timeout": 9,
    "delivery": 2,
    "attempt": 1,
    "failures": 1,
    "crashes": 2,
    "lapses": 3,
    "unique_key": "u",
    "idempotency_key": "i",
    "ordering_key": "o",
    "trace": "tr",
    "payload": b"{}",
}
_STATES: list[dict[str, object]] = [
    {"state": "scheduled", "started_at": 6},
    {"state": "ready"},
    {
        "state": "running",
        "token": 7,
        "claimed_by": 3,
        "reason": "r",
        "cancel_requested": 1,
    },
    {"state": "succeeded", "finished_at": 8, "token": 7, "result": b"1"},
    {"state": "dead", "finished_at": 8, "token": 7, "reason": "r"},
    {"state": "cancelled", "finished_at": 8, "reason": "r"},
]
OLD_ROWS = [
    {**_ROW, "seq": seq, "id": bytes([seq] * 16), **more}
    for seq, more in enumerate(_STATES, start=1)
]


def _at_level(db: sqlite3.Connection, level: int) -> None:
    """The schema as it was."""
    db.execute(SQL.migration_table)
    for one in MIGRATIONS[:level]:
        db.executescript(one.statements)
        facts = {"number": one.number, "name": one.name, "checksum": one.checksum}
        db.execute(SQL.migration_add, {**facts, "works_with": one.works_with, "now": 1})


def _insert(db: sqlite3.Connection, table: str, row: dict[str, object]) -> None:
    names, places = ", ".join(row), ", ".join(f":{name}" for name in row)
    db.execute(f"insert into {table} ({names}) values ({places})", row)
