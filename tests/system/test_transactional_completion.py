"""A handler's writes and its job's success are one commit, whatever happens around it."""

import asyncio
import logging
import re
import signal
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from longshore import Longshore, current_job
from longshore.core import ids, settle
from longshore.core.event import Name, expand
from longshore.core.job import Claim, Settlement
from longshore.core.state import State
from longshore.engine import Engine
from longshore.errors import (
    ConfigError,
    EngineUnavailableError,
    LeaseLostError,
    LongshoreError,
)
from longshore.handle import JobHandle
from longshore.scheduler.promote import Promoter
from longshore.testing.harness import eventually
from longshore.worker.settings import WorkerSettings
from longshore.worker.worker import Worker

SCRIPT = str(Path(__file__).with_name("transaction_process.py"))
TABLE = "create table if not exists public.done (n integer)"


@pytest.fixture
async def url(empty_postgres_url: str) -> str:
    connection = await asyncpg.connect(empty_postgres_url)
    await connection.execute(TABLE)
    await connection.execute("truncate public.done")
    await connection.close()
    return empty_postgres_url


@pytest.fixture
async def db(url: str) -> AsyncIterator[Any]:
    """Someone who looks at the same database from outside."""
    connection = await asyncpg.connect(url)
    yield connection
    await connection.close()


@pytest.fixture
async def app(url: str) -> AsyncIterator[Longshore]:
    app = Longshore(url)
    async with app:
        yield app


async def write(connection: Any, n: int) -> None:
    await connection.execute("insert into public.done values ($1)", n)


async def written(db: Any) -> list[int]:
    return [row["n"] for row in await db.fetch("select n from public.done order by n")]


async def events(engine: Engine, handle: JobHandle[Any]) -> list[str]:
    batches = await engine.events(after=0, limit=1_000)
    return [
        one.name
        for batch in batches
        for one in expand(batch)
        if one.job_id == ids.parse(handle.id)
    ]


@asynccontextmanager
async def working(app: Longshore, **settings: Any) -> AsyncIterator[Worker]:
    """A worker beside the test, told to leave at its end."""
    lease = settings.pop("lease", 10.0)
    ticks = [("promote", Promoter(app.engine).tick)] if settings.pop("ticks", False) else []
    wanted = WorkerSettings(lease=timedelta(seconds=lease), name="w", **settings)
    worker = Worker(app.engine, app.registry(), wanted, ticks=ticks)
    task = asyncio.create_task(worker.run())
    try:
        yield worker
    finally:
        worker.stop_now()
        async with asyncio.timeout(10):
            await task


async def state_of(handle: JobHandle[Any]) -> State:
    return (await handle.get()).state


async def until(handle: JobHandle[Any], state: State) -> None:
    async def reached() -> bool:
        return await state_of(handle) is state

    await eventually(reached, within=20)


async def assert_in_order(db: Any) -> None:
    assert await db.fetch("select * from longshore.misplaced()") == []


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


async def test_others_go_on_and_the_lease_is_kept_while_a_transaction_is_open(
    app: Longshore, db: Any
) -> None:
    opened = asyncio.Event()

    @app.task
    async def long(n: int) -> None:
        async with current_job().transaction() as connection:
            await write(connection, n)
            opened.set()
            await asyncio.sleep(2 * lease)

    @app.task
    async def short(n: int) -> None: ...

    lease = 2.0
    handle = await long.submit(1)
    async with working(app, lease=lease) as worker:
        async with asyncio.timeout(20):
            await opened.wait()
        for n in range(8):
            others = await app.submit_many([short.spec(n) for n in range(50)])
            for one in others:
                await one.result(5.0)
            await asyncio.sleep(lease / 8)
            assert await state_of(handle) is State.RUNNING
        await until(handle, State.SUCCEEDED)
        assert worker.stats.lost_leases == 0

    assert await written(db) == [1]
    assert (await handle.get()).attempt == 1
    told = await events(app.engine, handle)
    assert told == [Name.SUBMITTED, Name.STARTED, Name.SUCCEEDED]
    await assert_in_order(db)


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


async def claimed(app: Longshore, count: int = 1) -> tuple[Any, list[Claim]]:
    """A session without a worker, and the jobs it holds."""
    session = await app.engine.open_session(
        worker="w", queues=["default"], types=["ship"], lease=10_000_000
    )
    return session, (await session.exchange(1, want=count)).claims


def transaction(session: Any, claim: Claim) -> Any:
    return session.transaction((claim.handle, claim.delivery), started_at=claim.run_at)


def released(claim: Claim) -> Settlement:
    return settle.released(claim)


async def submitted(app: Longshore, count: int = 1) -> list[JobHandle[Any]]:
    return await app.submit_many([app.spec("ship", {"n": n}) for n in range(count)])


@pytest.mark.parametrize("is_reclaimed", [False, True])
async def test_a_lost_lease_takes_the_writes_back(
    app: Longshore, db: Any, is_reclaimed: bool
) -> None:
    (handle,) = await submitted(app)
    session, (claim,) = await claimed(app)

    with pytest.raises(LeaseLostError):
        async with transaction(session, claim) as one:
            await write(one.connection, 1)
            await db.execute("update longshore.session set expires_at = 0")
            if is_reclaimed:
                await app.engine.reclaim(session.token, [], grace=0)

    assert await written(db) == []
    assert await state_of(handle) is (State.READY if is_reclaimed else State.RUNNING)
    told = await events(app.engine, handle)
    assert Name.SUCCEEDED not in told
    await assert_in_order(db)


@asynccontextmanager
async def outbox_is_locked(url: str) -> AsyncIterator[Any]:
    """Whoever appends to the outbox waits, which a completion does behind the fence."""
    blocker = await asyncpg.connect(url)
    lock = blocker.transaction()
    await lock.start()
    await blocker.execute("lock table longshore.outbox in share mode")
    try:
        yield lock.rollback
    finally:
        await blocker.close()


async def _waiting(db: Any, count: int) -> None:
    statement = "select count(*) from pg_stat_activity where wait_event_type = 'Lock'"

    async def reached() -> bool:
        return await db.fetchval(statement) == count

    await eventually(reached, within=10)


async def complete(session: Any, claim: Claim, n: int = 1) -> None:
    async with transaction(session, claim) as one:
        await write(one.connection, n)


async def test_reclaim_waits_for_a_commit_under_way_and_heeds_it(
    app: Longshore, url: str, db: Any
) -> None:
    """The fence was passed, then the lease ends: the commit counts, and reclaim sees it."""
    (handle,) = await submitted(app)
    session, (claim,) = await claimed(app)
    async with outbox_is_locked(url) as unlock:
        completing = asyncio.create_task(complete(session, claim))
        await _waiting(db, 1)
        await db.execute("update longshore.session set expires_at = 0")
        reclaiming = asyncio.create_task(app.engine.reclaim(session.token, [], grace=0))
        await _waiting(db, 2)
        await unlock()
        await completing
        await reclaiming

    assert await written(db) == [1]
    assert await state_of(handle) is State.SUCCEEDED
    assert await db.fetchval("select count(*) from longshore.claim") == 0
    assert await db.fetchval("select count(*) from longshore.journal") == 0
    await assert_in_order(db)


async def test_a_cancelled_handler_learns_of_it_when_its_commit_is_over(
    app: Longshore, url: str, db: Any
) -> None:
    """Else the worker would retry a job whose commit is still under way."""
    (handle,) = await submitted(app)
    session, (claim,) = await claimed(app)
    async with outbox_is_locked(url) as unlock:
        completing = asyncio.create_task(complete(session, claim))
        await _waiting(db, 1)
        for _ in range(3):
            completing.cancel()
            await asyncio.wait([completing], timeout=0.01)
        assert not completing.done()
        await unlock()
        with pytest.raises(asyncio.CancelledError):
            await completing

    assert await written(db) == [1]
    assert await state_of(handle) is State.SUCCEEDED
    await session.close()
    await assert_in_order(db)


async def test_a_job_is_not_given_back_while_it_is_being_committed(
    app: Longshore, url: str, db: Any
) -> None:
    """A worker that leaves gives back what still runs, such as a handler in its commit."""
    (handle,) = await submitted(app)
    session, (claim,) = await claimed(app)
    async with outbox_is_locked(url) as unlock:
        completing = asyncio.create_task(complete(session, claim))
        await _waiting(db, 1)
        renewed = await session.renew(number=1, held=[(claim.handle, claim.delivery)])
        giving_back = asyncio.create_task(session.exchange(2, settlements=[released(claim)]))
        await asyncio.wait([giving_back], timeout=0.05)
        assert not giving_back.done()
        await unlock()
        await completing
        answer = await giving_back

    assert (renewed.lost, answer.stale) == ([], [])
    assert await state_of(handle) is State.SUCCEEDED
    assert await db.fetchval("select count(*) from longshore.claim") == 0
    await assert_in_order(db)


async def test_nor_when_the_commit_begins_while_that_waits_for_its_turn(
    app: Longshore, url: str, db: Any
) -> None:
    handle, _ = await submitted(app, 2)
    session, (claim, other) = await claimed(app, 2)
    async with outbox_is_locked(url) as unlock:
        started = [(other.handle, other.delivery)]
        before = asyncio.create_task(session.exchange(2, started=started))
        await _waiting(db, 1)
        giving_back = asyncio.create_task(session.exchange(3, settlements=[released(claim)]))
        completing = asyncio.create_task(complete(session, claim))
        await _waiting(db, 2)
        await unlock()
        await asyncio.gather(before, completing)
        answer = await giving_back

    assert answer.stale == []
    assert await state_of(handle) is State.SUCCEEDED
    await session.close()
    await assert_in_order(db)


async def test_a_job_that_was_given_back_cannot_be_completed(app: Longshore, db: Any) -> None:
    (handle,) = await submitted(app)
    session, (claim,) = await claimed(app)
    with pytest.raises(LeaseLostError):
        async with transaction(session, claim) as one:
            await write(one.connection, 1)
            await session.exchange(2, settlements=[released(claim)])

    assert await written(db) == []
    assert await state_of(handle) is State.READY


async def end_by_settling(app: Longshore, session: Any, claims: list[Claim]) -> None:
    rest = [released(claims[n]) for n in (5, 6, 7, 8)]
    rest += [
        settle.succeeded(claims[n], started_at=1, finished_at=2, result=None) for n in (0, 2, 4)
    ]
    assert (await session.exchange(3, settlements=rest)).stale == []


async def end_by_closing(app: Longshore, session: Any, claims: list[Claim]) -> None:
    await session.close()


async def end_by_dying(app: Longshore, session: Any, claims: list[Claim]) -> None:
    database = app.engine._database  # pyright: ignore
    await database.fetch("update longshore.session set expires_at = 0")
    (lapsed,) = await app.engine.lapsed(grace=0, limit=10)
    assert {one.handle for one in lapsed.held} == {one.handle for one in claims[5:]}
    await app.engine.reclaim(session.token, [], grace=0)


@pytest.mark.parametrize("doubt", [False, True])
@pytest.mark.parametrize("end", [end_by_settling, end_by_closing, end_by_dying])
async def test_completed_jobs_leave_the_others_of_their_span_alone(
    app: Longshore, url: str, db: Any, end: Any, doubt: bool
) -> None:
    handles = await submitted(app, 9)
    session, claims = await claimed(app, 9)
    for n in (0, 3, 4):
        await complete(session, claims[n], n)
        await assert_in_order(db)
    third = settle.succeeded(claims[3], started_at=1, finished_at=2, result=b"late")
    settlements = [third, released(claims[1])]
    if doubt:
        async with outbox_is_locked(url):
            lost = asyncio.create_task(session.exchange(2, settlements=settlements))
            await _waiting(db, 1)
            lost.cancel()
            await asyncio.wait([lost])
    assert (await session.exchange(2, settlements=settlements)).stale == []
    held = [(one.handle, one.delivery) for n, one in enumerate(claims) if n not in (1, 3)]
    assert (await session.renew(number=2, held=held)).lost == []
    await complete(session, claims[2], 2)
    await end(app, session, claims)

    states = [await state_of(handle) for handle in handles]
    assert [n for n, state in enumerate(states) if state is State.SUCCEEDED] == [0, 2, 3, 4]
    assert states.count(State.READY) == 5
    assert await written(db) == [0, 2, 3, 4]
    assert await db.fetchval("select count(*) from longshore.claim") == 0
    await assert_in_order(db)


async def test_a_start_that_is_on_record_is_told_once(
    app: Longshore, url: str, db: Any
) -> None:
    handles = await submitted(app, 3)
    session, claims = await claimed(app, 3)
    names = [(one.handle, one.delivery) for one in claims]
    await session.exchange(2, started=names[:1])
    await complete(session, claims[0])
    async with outbox_is_locked(url) as unlock:
        # A start under way is waited for, and one of a job under way is left to its end.
        telling = asyncio.create_task(session.exchange(3, started=names[1:2]))
        await _waiting(db, 1)
        completing = [asyncio.create_task(complete(session, one)) for one in claims[1:]]
        await _waiting(db, 2)
        await unlock()
        await asyncio.gather(telling, *completing)
    await session.exchange(4, started=names)

    for handle in handles:
        told = await events(app.engine, handle)
        assert told == [Name.SUBMITTED, Name.STARTED, Name.SUCCEEDED]
    await session.close()
    await assert_in_order(db)


async def test_a_start_that_a_commit_under_way_tells_is_not_told_besides(
    app: Longshore, url: str, db: Any
) -> None:
    (handle,) = await submitted(app)
    session, (claim,) = await claimed(app)
    async with outbox_is_locked(url) as unlock:
        completing = asyncio.create_task(complete(session, claim))
        await _waiting(db, 1)
        async with asyncio.timeout(5):
            await session.exchange(2, started=[(claim.handle, claim.delivery)])
        await unlock()
        await completing

    told = await events(app.engine, handle)
    assert told == [Name.SUBMITTED, Name.STARTED, Name.SUCCEEDED]
    await session.close()


async def test_a_lost_answer_beside_a_commit_disturbs_neither(
    app: Longshore, url: str, db: Any
) -> None:
    """The journal's numbers are given once, though its book is read again meanwhile."""
    handles = await submitted(app, 2)
    session, (claim, other) = await claimed(app, 2)
    started = [(other.handle, other.delivery)]
    async with outbox_is_locked(url) as unlock:
        completing = asyncio.create_task(complete(session, claim))
        await _waiting(db, 1)
        lost = asyncio.create_task(session.exchange(2, started=started))
        await _waiting(db, 2)
        lost.cancel()
        await asyncio.wait([lost])
        await _waiting(db, 1)
        again = asyncio.create_task(session.exchange(2, started=started))
        await _waiting(db, 2)
        await unlock()
        await asyncio.gather(completing, again)

    assert [await state_of(one) for one in handles] == [State.SUCCEEDED, State.RUNNING]
    await session.close()
    assert [await state_of(one) for one in handles] == [State.SUCCEEDED, State.READY]
    await assert_in_order(db)


@pytest.mark.slow
@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_job_is_run_again_exactly_if_its_worker_was_killed_before_the_commit(
    app: Longshore, url: str, db: Any, when: str
) -> None:
    """A real process and a real SIGKILL, in the handler itself."""
    (handle,) = await submitted(app)
    for ending in (-signal.SIGKILL, 0):
        process = await asyncio.create_subprocess_exec(sys.executable, SCRIPT, url, when)
        async with asyncio.timeout(60):
            assert await process.wait() == ending
        is_done = when == "after" or ending == 0
        # At once, and not when the session is buried.
        assert await written(db) == ([0] if is_done else [])
        assert await state_of(handle) is (State.SUCCEEDED if is_done else State.RUNNING)
        await assert_in_order(db)
        await db.execute("update longshore.session set expires_at = 0")
        await app.engine.lapsed(grace=0, limit=10)
        for token in [row["token"] for row in await db.fetch("table longshore.session")]:
            await app.engine.reclaim(token, [], grace=0)

    job = await handle.get()
    assert (job.state, job.delivery) == (State.SUCCEEDED, 1 if when == "after" else 2)
    assert await db.fetchval("select count(*) from longshore.claim") == 0
    assert await db.fetchval("select count(*) from longshore.journal") == 0
    await assert_in_order(db)


class Line:
    """A line to the server that is cut when the handler's transaction commits."""

    def __init__(self, target: str, cut: str) -> None:
        self._target, self._cut = target, cut
        self._tasks: set[asyncio.Task[None]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, away = await asyncio.open_unix_connection(self._target)
        back = asyncio.create_task(self._pump(there, writer))
        while data := await reader.read(65_536):
            if b"COMMIT;" in data:
                await self._end(back, writer, away, data)
                return
            away.write(data)
        away.close()
        await asyncio.wait([back])

    async def _end(
        self, back: asyncio.Task[None], here: Any, away: asyncio.StreamWriter, commit: bytes
    ) -> None:
        back.cancel()
        here.close()
        if self._cut == "after a while":
            await asyncio.sleep(0.3)
        if self._cut != "before":
            away.write(commit)
            await away.drain()
        away.close()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65_536):
            writer.write(data)
        writer.close()


@pytest.mark.parametrize("cut", ["before", "after", "after a while"])
async def test_the_truth_about_a_commit_without_answer_is_learned(
    url: str, db: Any, cut: str
) -> None:
    """Before the server heard of it, or after; also when it hears of it much later."""
    (host, port) = re.search(r"host=([^&]+)&port=(\d+)", url).groups()  # pyright: ignore
    with tempfile.TemporaryDirectory(prefix="ls-") as folder:
        line = Line(f"{host}/.s.PGSQL.{port}", cut)
        server = await asyncio.start_unix_server(line.serve, f"{folder}/.s.PGSQL.{port}")
        app = Longshore(url.replace(host, folder))
        async with server, app:
            (handle,) = await submitted(app)
            session, (claim,) = await claimed(app)
            outcome = await asyncio.gather(complete(session, claim), return_exceptions=True)
            is_done = cut != "before"
            assert await state_of(handle) is (State.SUCCEEDED if is_done else State.RUNNING)
            # The session goes on in either case.
            answer = await session.exchange(2, settlements=[released(claim)])
            assert answer.stale == []
            state = await state_of(handle)
            await session.close()

    assert state is (State.SUCCEEDED if is_done else State.READY)
    assert [type(error) for error in outcome] == [
        type(None) if is_done else EngineUnavailableError
    ]
    assert await written(db) == ([1] if is_done else [])
    await assert_in_order(db)
