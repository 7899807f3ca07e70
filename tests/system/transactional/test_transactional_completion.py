"""A handler's writes and its job's success are one commit, whatever the handler does."""

import asyncio
import logging
import statistics
import time
from contextlib import suppress
from typing import Any
from uuid import UUID

import asyncpg
import pytest
from transaction_steps import (
    assert_in_order,
    events,
    state_of,
    until,
    working,
    write,
    written,
)

from longshore import Longshore, current_job
from longshore.core import ids
from longshore.core.event import Name
from longshore.core.state import State
from longshore.errors import (
    ConfigError,
    LongshoreError,
)
from longshore.worker.worker import Worker

log = logging.getLogger(__name__)


async def test_the_writes_and_the_success_are_one_commit(app: Longshore, db: Any) -> None:
    committed, go = asyncio.Event(), asyncio.Event()

    @app.task
    async def ship(n: int) -> str:
        job = current_job()
        async with job.transaction() as connection:
            await write(connection, n)
            assert isinstance(await connection.fetchval("select gen_random_uuid()"), UUID)
            job.set_result("shipped")
        committed.set()
        await go.wait()
        return "shipped"

    handle = await ship.submit(1)
    async with working(app):
        async with asyncio.timeout(20):
            await committed.wait()
        # No exchange has told of it yet.
        assert await written(db) == [1]
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
    assert await db.fetchval("select count(*) from longshore.claim") == 0
    assert await db.fetchval("select count(*) from longshore.journal") == 0
    await assert_in_order(db)


async def test_an_error_in_the_block_rolls_back_and_the_job_fails_as_usual(
    app: Longshore, db: Any
) -> None:
    @app.task(max_attempts=3, retry_base=0.01)
    async def ship(n: int) -> None:
        job = current_job()
        async with job.transaction() as connection:
            await write(connection, n)
            if job.attempt == 1:
                raise ValueError("not yet")
            if job.attempt == 2:
                await connection.execute("select 1 / 0")

    handle = await ship.submit(1)
    async with working(app, ticks=True):
        await until(handle, State.SUCCEEDED)

    attempts = await app.engine.attempts(ids.parse(handle.id))
    assert [one.failure.kind for one in attempts if one.failure] == [
        "ValueError",
        "DivisionByZeroError",
    ]
    assert await state_of(handle) is State.SUCCEEDED
    assert await written(db) == [1]


async def test_a_deferred_refusal_of_the_commit_is_a_failure(app: Longshore, db: Any) -> None:
    await db.execute("create table if not exists public.one (n integer)")
    await db.execute("alter table public.one drop constraint if exists one_n")
    await db.execute(
        "alter table public.one add constraint one_n unique (n) deferrable initially deferred"
    )
    await db.execute("truncate public.one")

    @app.task(max_attempts=1)
    async def ship() -> None:
        async with current_job().transaction() as connection:
            await connection.execute("insert into public.one values (1), (1)")

    handle = await ship.submit()
    await app.work(until_idle=True)

    assert await state_of(handle) is State.DEAD
    assert await db.fetchval("select count(*) from public.one") == 0
    await assert_in_order(db)


async def fail() -> None:
    raise ValueError("too late")


async def linger() -> None:
    """Until the timeout, or until the worker leaves its handler behind."""
    await asyncio.sleep(60)


async def again() -> None:
    with pytest.raises(LongshoreError, match="one block"):
        async with current_job().transaction():
            pass


async def answer() -> int:
    return 5


@pytest.mark.parametrize(
    ("then", "warning"),
    [
        (fail, "handler failed after its commit"),
        (linger, "handler failed after its commit"),
        (again, None),
        (answer, "result not kept: use job.set_result"),
    ],
)
async def test_what_was_committed_stands_whatever_the_handler_does_then(
    app: Longshore, db: Any, caplog: pytest.LogCaptureFixture, then: Any, warning: str | None
) -> None:
    @app.task(timeout=0.2)
    async def ship(n: int) -> int | None:
        async with current_job().transaction() as connection:
            await write(connection, n)
        return await then()

    handle = await ship.submit(1)
    with caplog.at_level(logging.WARNING, "longshore"):
        await app.work(until_idle=True)

    job = await handle.get()
    assert (job.state, job.failures, job.attempt) == (State.SUCCEEDED, 0, 1)
    assert await written(db) == [1]
    assert await handle.result() is None
    assert [record.message for record in caplog.records] == ([warning] if warning else [])
    await assert_in_order(db)


async def test_a_worker_that_leaves_after_the_commit_gives_nothing_back(
    app: Longshore, db: Any
) -> None:
    @app.task
    async def ship(n: int) -> None:
        async with current_job().transaction() as connection:
            await write(connection, n)
        while not is_over:  # whatever it is told
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(0.01)

    is_over = False
    handle = await ship.submit(1)
    async with working(app):
        await until(handle, State.SUCCEEDED)
    is_over = True

    job = await handle.get()
    assert (job.state, job.attempt) == (State.SUCCEEDED, 1)
    assert Name.RELEASED not in await events(app.engine, handle)
    assert await db.fetchval("select count(*) from longshore.claim") == 0
    await assert_in_order(db)


async def test_a_block_that_was_rolled_back_may_be_followed_by_another(
    app: Longshore, db: Any
) -> None:
    @app.task
    async def ship() -> None:
        job = current_job()
        with pytest.raises(ValueError, match="no"):
            async with job.transaction() as connection:
                await connection.execute("set search_path = nowhere")
                await connection.execute("select pg_advisory_lock(1)")
                await write(connection, 1)
                raise ValueError("no")
        async with job.transaction() as connection:
            assert await connection.fetchval("show search_path") != "nowhere"
            with pytest.raises(asyncpg.UniqueViolationError):
                # A helper's own transaction is a savepoint in ours.
                async with connection.transaction():
                    await connection.execute("create temp table t (n int unique)")
                    await connection.execute("insert into t values (1), (1)")
            await write(connection, 2)

    handle = await ship.submit()
    await app.work(until_idle=True)

    assert await state_of(handle) is State.SUCCEEDED
    assert await written(db) == [2]
    assert await db.fetchval("select pg_try_advisory_lock(1)")


async def test_misuse_is_said_so(app: Longshore, db: Any) -> None:
    said: list[str] = []

    @app.task(max_attempts=1)
    async def ends_it_itself() -> None:
        async with current_job().transaction() as connection:
            await write(connection, 1)
            await connection.execute("commit")

    @app.task
    def plain() -> None:
        async def inner() -> None:
            async with current_job().transaction():
                pass

        with pytest.raises(ConfigError, match="async tasks"):
            asyncio.run(inner())
        said.append("plain")

    @app.task
    async def too_early() -> None:
        with pytest.raises(LongshoreError, match="inside"):
            current_job().set_result(1)
        async with current_job().transaction():
            with pytest.raises(LongshoreError, match="one block"):
                async with current_job().transaction():
                    pass
        said.append("early")

    first, _, last = [await task.submit() for task in (ends_it_itself, plain, too_early)]
    await app.work(until_idle=True)

    assert "ended its transaction" in str((await first.get()).failure)
    assert await state_of(last) is State.SUCCEEDED
    assert sorted(said) == ["early", "plain"]
    await assert_in_order(db)


async def test_an_engine_that_cannot_do_it_says_so() -> None:
    app = Longshore("sqlite://:memory:")

    @app.task(max_attempts=1)
    async def ship() -> None:
        async with current_job().transaction():
            pass

    async with app:
        handle = await ship.submit()
        await app.work(until_idle=True)
        failure = (await handle.get()).failure

    assert failure is not None
    assert (failure.kind, "PostgreSQL can" in failure.message) == ("ConfigError", True)


@pytest.mark.slow
async def test_others_go_on_and_the_lease_is_kept_while_a_transaction_is_open(
    app: Longshore, db: Any
) -> None:
    opened, go = asyncio.Event(), asyncio.Event()

    @app.task
    async def long(n: int) -> None:
        async with current_job().transaction() as connection:
            await write(connection, n)
            opened.set()
            await go.wait()

    @app.task
    async def short(n: int) -> None: ...

    lease = 2.0
    handle = await long.submit(1)
    async with working(app, lease=lease) as worker:
        async with asyncio.timeout(20):
            await opened.wait()
        ends = time.monotonic() + 2.2 * lease
        while time.monotonic() < ends:
            others = await app.submit_many([short.spec(n) for n in range(50)])
            for one in others:
                await one.result(20.0)
            assert await state_of(handle) is State.RUNNING
            await asyncio.sleep(lease / 8)
        go.set()
        await until(handle, State.SUCCEEDED)
        assert worker.stats.lost_leases == 0

    assert await written(db) == [1]
    assert (await handle.get()).attempt == 1
    told = await events(app.engine, handle)
    assert told == [Name.SUBMITTED, Name.STARTED, Name.SUCCEEDED]
    await assert_in_order(db)


async def finished_per_s(app: Longshore, worker: Worker, task: Any, seconds: float) -> float:
    """The rate of a worker that always finds jobs of a task."""
    begin, before = time.monotonic(), worker.stats.succeeded
    ahead = 0

    async def caller() -> None:
        nonlocal ahead
        while time.monotonic() < begin + seconds:
            if ahead - (worker.stats.succeeded - before) > 2_000:
                await asyncio.sleep(0.002)
                continue
            ahead += 100
            await app.submit_many([task.spec(n) for n in range(100)])

    await asyncio.gather(*(caller() for _ in range(4)))
    return (worker.stats.succeeded - before) / (time.monotonic() - begin)


@pytest.mark.prove
async def test_a_transaction_that_is_open_for_two_leases_leaves_others_their_rate(
    app: Longshore, db: Any
) -> None:
    opened, go = asyncio.Event(), asyncio.Event()

    @app.task
    async def long(n: int) -> None:
        async with current_job().transaction() as connection:
            await write(connection, n)
            opened.set()
            await go.wait()

    @app.task
    async def short(n: int) -> None: ...

    lease = 2.0
    rates: dict[bool, list[float]] = {False: [], True: []}
    async with working(app, lease=lease, concurrency=64) as worker:
        await finished_per_s(app, worker, short, 2.0)
        for number in range(3):
            rates[False].append(await finished_per_s(app, worker, short, 2.2 * lease))
            handle = await long.submit(number)
            await opened.wait()
            rates[True].append(await finished_per_s(app, worker, short, 2.2 * lease))
            assert await state_of(handle) is State.RUNNING
            go.set()
            await until(handle, State.SUCCEEDED)
            opened.clear()
            go.clear()
        assert worker.stats.lost_leases == 0

    log.info("jobs/s without and with an open transaction: %s", rates)
    assert await written(db) == [0, 1, 2]
    assert statistics.median(rates[True]) >= 0.8 * statistics.median(rates[False])


async def test_more_handlers_than_connections_take_turns(app: Longshore, db: Any) -> None:
    @app.task
    async def ship(n: int) -> None:
        async with current_job().transaction() as connection:
            await write(connection, n)

    handles = await app.submit_many([ship.spec(n) for n in range(200)])
    await app.work(until_idle=True, concurrency=100)

    assert {await state_of(handle) for handle in handles} == {State.SUCCEEDED}
    assert await written(db) == list(range(200))
    opened = (
        "select count(*) from pg_stat_activity where application_name = 'longshore handler'"
    )
    assert await db.fetchval(opened) <= 8
    assert await db.fetchval("select count(*) from longshore.claim") == 0
    await assert_in_order(db)
