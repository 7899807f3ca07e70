"""The same on a SQLite file, whose one write lock a handler's transaction holds meanwhile."""

import asyncio
import logging
import sqlite3
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from transaction_steps import (
    claimed,
    events,
    released,
    state_of,
    submitted,
    transaction,
    until,
    working,
)

from longshore import Longshore, current_job
from longshore.core import ids
from longshore.core.event import Name
from longshore.core.state import State
from longshore.engines.sqlite.transactional_completion import LONGEST
from longshore.errors import LeaseLostError, LongshoreError


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs.db"


@pytest.fixture
async def app(path: Path) -> AsyncIterator[Longshore]:
    async with Longshore(f"sqlite:///{path}") as app:
        yield app


@pytest.fixture
def db(app: Longshore, path: Path) -> Iterator[sqlite3.Connection]:
    """Someone who looks at the same file from outside."""
    with closing(sqlite3.connect(path, isolation_level=None, timeout=0.1)) as db:
        db.execute("create table done (n integer)")
        yield db


def write(connection: sqlite3.Connection, n: int) -> None:
    connection.execute("insert into done values (?)", (n,))


def written(db: sqlite3.Connection) -> list[int]:
    return [n for (n,) in db.execute("select n from done order by n")]


async def test_the_writes_and_the_success_are_one_commit(app: Longshore, db: Any) -> None:
    committed, go = asyncio.Event(), asyncio.Event()

    @app.task
    async def ship(n: int) -> str:
        job = current_job()
        async with job.transaction() as connection:
            write(connection, n)
            connection.row_factory = sqlite3.Row
            job.set_result("shipped")
        committed.set()
        await go.wait()
        return "shipped"

    handle = await ship.submit(1)
    async with working(app) as worker:
        async with asyncio.timeout(20):
            await committed.wait()
        # No exchange has told of it yet.
        assert written(db) == [1]
        assert await state_of(handle) is State.SUCCEEDED
        assert await handle.result() == "shipped"
        assert [(one.running, one.succeeded) for one in await app.engine.counts()] == [(0, 1)]
        go.set()

    job = await handle.get()
    assert (job.state, job.attempt, job.failures) == (State.SUCCEEDED, 1, 0)
    assert job.started_at is not None
    assert job.finished_at is not None
    assert job.started_at <= job.finished_at
    told = await events(app.engine, handle)
    assert told == [Name.SUBMITTED, Name.STARTED, Name.SUCCEEDED]
    assert worker.stats.lost_leases == 0


async def test_an_error_in_the_block_rolls_back_and_the_job_fails_as_usual(
    app: Longshore, db: Any
) -> None:
    @app.task(max_attempts=3, retry_base=0.01)
    async def ship(n: int) -> None:
        job = current_job()
        async with job.transaction() as connection:
            write(connection, n)
            if job.attempt == 1:
                raise ValueError("not yet")
            if job.attempt == 2:
                connection.execute("select * from nothing")

    handle = await ship.submit(1)
    async with working(app, ticks=True):
        await until(handle, State.SUCCEEDED)

    attempts = await app.engine.attempts(ids.parse(handle.id))
    kinds = [one.failure.kind for one in attempts if one.failure]
    assert kinds == ["ValueError", "OperationalError"]
    assert written(db) == [1]


async def fail() -> None:
    raise ValueError("too late")


async def linger() -> None:
    await asyncio.sleep(60)


async def again() -> None:
    with pytest.raises(LongshoreError, match="one block"):
        async with current_job().transaction():
            pass


@pytest.mark.parametrize(
    ("then", "warning"),
    [
        (fail, "handler failed after its commit"),
        (linger, "handler failed after its commit"),
        (again, None),
    ],
)
async def test_what_was_committed_stands_whatever_the_handler_does_then(
    app: Longshore, db: Any, caplog: pytest.LogCaptureFixture, then: Any, warning: str | None
) -> None:
    @app.task(timeout=0.3)
    async def ship(n: int) -> int | None:
        async with current_job().transaction() as connection:
            write(connection, n)
        return await then()

    handle = await ship.submit(1)
    with caplog.at_level(logging.WARNING, "longshore"):
        await app.work(until_idle=True)

    job = await handle.get()
    assert (job.state, job.failures, job.attempt) == (State.SUCCEEDED, 0, 1)
    assert written(db) == [1]
    assert [record.message for record in caplog.records] == ([warning] if warning else [])


async def wait() -> None:
    await asyncio.sleep(60)


async def block() -> None:
    time.sleep(LONGEST + 0.5)  # noqa: ASYNC251  # that is what it is for


@pytest.mark.slow
@pytest.mark.parametrize("dawdle", [wait, block])
async def test_a_transaction_that_takes_too_long_is_rolled_back_and_says_so(
    app: Longshore, db: Any, dawdle: Any
) -> None:
    @app.task(max_attempts=1)
    async def ship(n: int) -> None:
        async with current_job().transaction() as connection:
            write(connection, n)
            await dawdle()
            with pytest.raises(sqlite3.OperationalError):
                write(connection, n + 1)

    handle = await ship.submit(1)
    began = time.monotonic()
    await app.work(until_idle=True)

    job = await handle.get()
    assert time.monotonic() - began < LONGEST + 3
    assert (job.state, written(db)) == (State.DEAD, [])
    assert job.failure is not None
    assert "has 2 s" in job.failure.message
    assert (job.lapses, job.crashes) == (0, 0)


async def test_a_block_that_was_rolled_back_may_be_followed_by_another(
    app: Longshore, db: Any
) -> None:
    @app.task
    async def ship() -> None:
        job = current_job()
        with pytest.raises(ValueError, match="no"):
            async with job.transaction() as connection:
                write(connection, 1)
                raise ValueError("no")
        async with job.transaction() as connection:
            write(connection, 2)

    handle = await ship.submit()
    await app.work(until_idle=True)

    assert await state_of(handle) is State.SUCCEEDED
    assert written(db) == [2]


@pytest.mark.parametrize("how", ["commit", "rollback", "statement"])
async def test_a_handler_that_ends_its_transaction_fails(
    app: Longshore, db: Any, how: str
) -> None:
    @app.task(max_attempts=1)
    async def ship() -> None:
        async with current_job().transaction() as connection:
            write(connection, 1)
            if how == "statement":
                connection.execute("rollback")
            else:
                getattr(connection, how)()

    handle = await ship.submit()
    await app.work(until_idle=True)

    job = await handle.get()
    assert (job.state, written(db)) == (State.DEAD, [])
    assert "ended its transaction" in str(job.failure)


async def test_a_helpers_own_block_around_the_connection_ends_nothing(
    app: Longshore, db: Any
) -> None:
    @app.task(max_attempts=1)
    async def ship() -> None:
        async with current_job().transaction() as connection:
            with connection:
                write(connection, 1)
            assert written(db) == []

    handle = await ship.submit()
    await app.work(until_idle=True)

    assert await state_of(handle) is State.SUCCEEDED
    assert written(db) == [1]


@pytest.mark.parametrize("is_reclaimed", [False, True])
async def test_a_lost_lease_takes_the_writes_back(
    app: Longshore, db: Any, is_reclaimed: bool
) -> None:
    (handle,) = await submitted(app)
    session, (claim,) = await claimed(app)
    db.execute("update longshore_session set expires_at = 0")
    if is_reclaimed:
        await app.engine.end_session(session.token, [released(claim)], grace=0)

    with pytest.raises(LeaseLostError):
        async with transaction(session, claim) as one:
            write(one.connection, 1)

    assert written(db) == []
    assert await state_of(handle) is (State.READY if is_reclaimed else State.RUNNING)
    assert Name.SUCCEEDED not in await events(app.engine, handle)


async def test_whatever_is_settled_after_the_commit_changes_nothing(
    app: Longshore, db: Any
) -> None:
    (handle,) = await submitted(app)
    session, (claim,) = await claimed(app)
    async with transaction(session, claim) as one:
        write(one.connection, 1)

    held = [(claim.handle, claim.delivery)]
    renewed = await session.renew(number=1, held=held)
    answer = await session.exchange(2, settlements=[released(claim)], want=1)

    assert (renewed.lost, answer.stale, answer.claims) == ([], [], [])
    assert await state_of(handle) is State.SUCCEEDED
    with pytest.raises(LeaseLostError):
        async with transaction(session, claim) as one:
            write(one.connection, 2)
    assert written(db) == [1]


async def test_more_handlers_than_one_take_turns_and_others_write_between(
    app: Longshore, db: Any
) -> None:
    @app.task
    async def ship(n: int) -> None:
        async with current_job().transaction() as connection:
            write(connection, n)
            await asyncio.sleep(0.002)

    handles = await app.submit_many([ship.spec(n) for n in range(100)])
    async with working(app, lease=2.0, concurrency=100) as worker:
        for handle in handles:
            await until(handle, State.SUCCEEDED)

    assert written(db) == list(range(100))
    assert worker.stats.lost_leases == 0
