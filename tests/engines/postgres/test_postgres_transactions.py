"""Submitting inside the caller's own transaction, whatever driver the caller has."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import psycopg
import pytest
import sqlalchemy
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool
from ways import WAYS, alchemical, awaited, by_asyncpg, sync_engine

from longshore import Longshore
from longshore.contract import JobFilter, Reference
from longshore.core.job import CheckedJob, NewJob, Submitted, Verdict
from longshore.core.limit_settings import Layer, QueueSettings
from longshore.core.state import State
from longshore.engines.postgres.engine import PostgresEngine
from longshore.engines.postgres.url import from_url
from longshore.errors import (
    ConfigError,
    EngineBusyError,
    EngineError,
    EngineUnavailableError,
    IdempotencyError,
    JobNotFoundError,
    QueueFullError,
    SchemaError,
)
from longshore.records import queue_settings
from longshore.runtime.ids import IdSource
from longshore.testing.harness import eventually

ids = IdSource()


def a_job(**fields: Any) -> NewJob:
    return NewJob(**{"id": ids.make(), "type": "t", **fields})


@pytest.fixture
async def url(empty_postgres_url: str) -> str:
    return empty_postgres_url


@pytest.fixture
async def engine(url: str) -> AsyncIterator[PostgresEngine]:
    engine = from_url(url)
    yield engine
    await engine.close()


every_way = pytest.mark.parametrize("by", WAYS.values(), ids=WAYS.keys())

TABLE = "create table if not exists public.orders (id integer)"


@every_way
async def test_a_job_exists_exactly_if_the_callers_transaction_commits(
    engine: PostgresEngine, url: str, by: Any
) -> None:
    kept, dropped = a_job(payload=b'{"a":"\xc3\xa4"}', tags=("ä", "b")), a_job()
    async with by(url) as way:
        await way.execute(TABLE)
        await way.execute("truncate public.orders cascade")
        await way.execute("insert into public.orders values (1)")
        (answer,) = await way.submit(engine, [kept])
        with pytest.raises(JobNotFoundError):
            await engine.get(kept.id)
        await way.commit()
    async with by(url) as way:
        await way.execute("insert into public.orders values (2)")
        await way.submit(engine, [dropped])
        await way.rollback()

    assert (answer.id, answer.verdict) == (kept.id, Verdict.ACCEPTED)
    stored = await engine.get(kept.id)
    assert (stored.state, stored.payload, stored.tags) == (
        State.READY,
        kept.payload,
        kept.tags,
    )
    with pytest.raises(JobNotFoundError):
        await engine.get(dropped.id)
    assert len(await engine.events(after=0, limit=10)) == 1
    connection = await asyncpg.connect(url)
    assert await connection.fetch("select id from public.orders") == [(1,)]
    assert await connection.fetch("select * from longshore.misplaced()") == []
    await connection.close()


@every_way
async def test_an_id_of_another_tenant_is_taken_and_leaves_the_transaction_usable(
    engine: PostgresEngine, url: str, by: Any
) -> None:
    theirs, new = a_job(tenant="theirs", delay=3_600_000_000), a_job(tenant="mine")
    await engine.submit([theirs])
    mine = a_job(id=theirs.id, tenant="mine")

    async with by(url) as way:
        answers = await way.submit(engine, [mine, new])
        await way.commit()

    assert answers[0] == Submitted(theirs.id, Verdict.TAKEN)
    assert answers[1].verdict is Verdict.ACCEPTED
    assert (await engine.get(theirs.id)).tenant == "theirs"
    assert (await engine.get(new.id)).tenant == "mine"


@every_way
async def test_keys_hold_in_the_callers_transaction_and_leave_it_usable(
    engine: PostgresEngine, url: str, by: Any
) -> None:
    """A refusal that failed would abort the transaction, and the caller's data with it."""
    first = a_job(idempotency_key="k", fingerprint=b"1", unique_key="u")
    await engine.submit([first])
    same = a_job(idempotency_key="k", fingerprint=b"1")
    other = a_job(idempotency_key="k", fingerprint=b"2")
    twin, new = a_job(unique_key="u"), a_job(unique_key="v")

    async with by(url) as way:
        answers = await way.submit(engine, [first, same, other, twin, new, new])
        (again,) = await way.submit(engine, [new])
        await way.execute("select 1")
        await way.commit()

    assert [answer.verdict for answer in answers] == [
        Verdict.REPEATED,
        Verdict.REPEATED,
        Verdict.CONFLICT,
        Verdict.UNIQUE,
        Verdict.ACCEPTED,
        Verdict.REPEATED,
    ]
    assert {answer.id for answer in answers} == {first.id, new.id}
    assert (again.id, again.verdict) == (new.id, Verdict.REPEATED)
    assert (await engine.get(new.id)).state is State.READY
    assert len((await engine.find(JobFilter(), limit=10)).jobs) == 2


@every_way
async def test_a_full_queue_takes_nothing_in_the_callers_transaction_and_leaves_it_usable(
    engine: PostgresEngine, url: str, by: Any
) -> None:
    """What the transaction itself put there counts."""
    most = QueueSettings(max_depth=9, max_depth_per_tenant=2)
    await queue_settings.put(engine, "default", Layer.OVERRIDDEN, most)
    await engine.submit([a_job()])
    kept = a_job(idempotency_key="k", fingerprint=b"same")
    new = a_job(idempotency_key="k", fingerprint=b"same")

    async with by(url) as way:
        await way.submit(engine, [kept])
        with pytest.raises(QueueFullError) as refused:
            await way.submit(engine, [a_job()])
        (again,), (by_key,) = [await way.submit(engine, [job]) for job in (kept, new)]
        await way.submit(engine, [a_job(tenant="other")])
        await way.commit()

    assert refused.value.tenant == "default"
    assert 1.0 <= refused.value.retry_after <= 30.0  # more than 1 where counting was slow
    assert (
        (again.id, again.verdict) == (by_key.id, by_key.verdict) == (kept.id, Verdict.REPEATED)
    )
    assert [one.ready for one in await engine.counts()] == [3]


SETTINGS = "select string_agg(name || '=' || setting, ' ' order by name) from pg_settings"


@every_way
async def test_nothing_stays_on_the_callers_connection(
    engine: PostgresEngine, url: str, by: Any
) -> None:
    async with by(url) as way:
        await way.execute("do 'begin end'")  # the language brings settings of its own
        await way.execute("create temp table before as " + SETTINGS)
        await way.submit(engine, [a_job()])
        await way.execute("create temp table after as " + SETTINGS)
        # Fails, and the test with it, unless both are alike.
        await way.execute(
            "select 1 / (select count(*) from before natural join after)::integer"
        )
        await way.commit()


async def test_a_savepoint_of_the_callers_own_takes_the_job_back(
    engine: PostgresEngine, url: str
) -> None:
    kept, dropped = a_job(), a_job(unique_key="u")
    async with by_asyncpg(url) as way:
        await way.submit(engine, [kept])
        with pytest.raises(ZeroDivisionError):
            async with way.connection.transaction():
                await way.submit(engine, [dropped])
                raise ZeroDivisionError
        await way.commit()

    assert [job.id for job in (await engine.find(JobFilter(), limit=10)).jobs] == [kept.id]
    (answer,) = await engine.submit([a_job(unique_key="u")])
    assert answer.verdict is Verdict.ACCEPTED


async def test_without_a_transaction_the_promise_would_be_broken(
    engine: PostgresEngine, url: str
) -> None:
    connection = await asyncpg.connect(url)
    autocommit = psycopg.connect(url, autocommit=True)
    other = await psycopg.AsyncConnection.connect(url, autocommit=True)

    with pytest.raises(ConfigError, match="begin"):
        await awaited(engine.submit_on(connection, [a_job()]))
    with pytest.raises(ConfigError, match="begin"):
        engine.submit_on(autocommit, [a_job()])
    with pytest.raises(ConfigError, match="begin"):
        await awaited(engine.submit_on(other, [a_job()]))
    for driver in ("psycopg", "asyncpg"):
        alchemist = create_async_engine(
            alchemical(url, driver), isolation_level="AUTOCOMMIT", poolclass=NullPool
        )
        async with alchemist.begin() as one:
            with pytest.raises(ConfigError, match="begin"):
                await awaited(engine.submit_on(one, [a_job()]))
    with (
        sync_engine(url, isolation_level="AUTOCOMMIT") as sync,
        sync.begin() as one,
        pytest.raises(ConfigError, match="begin"),
    ):
        engine.submit_on(one, [a_job()])

    assert (await engine.find(JobFilter(), limit=10)).jobs == []
    await connection.close()
    autocommit.close()
    await other.close()


async def test_a_connection_to_another_database_is_refused(
    engine: PostgresEngine, url: str, new_postgres_url: str
) -> None:
    """Also to one that has jobs, where they would go to the workers of others."""
    for is_migrated in (False, True):
        async with by_asyncpg(new_postgres_url) as way:
            with pytest.raises(ConfigError if is_migrated else SchemaError):
                await way.submit(engine, [a_job()])
            if is_migrated:
                await way.execute("select 1")
        with (
            psycopg.connect(new_postgres_url) as one,
            pytest.raises(ConfigError if is_migrated else SchemaError),
        ):
            engine.submit_on(one, [a_job()])
        neighbour = from_url(new_postgres_url)
        await neighbour.migrate()
        await neighbour.close()

    # The connection was wrong, and nothing else.
    async with by_asyncpg(url) as way:
        await way.submit(engine, [a_job()])


async def test_something_that_is_no_connection_is_refused(engine: PostgresEngine) -> None:
    sqlite = sqlalchemy.create_engine("sqlite://")
    for connection in (object(), "postgresql://", sqlite):
        with pytest.raises(ConfigError, match="asyncpg or psycopg"):
            engine.submit_on(connection, [a_job()])
    with sqlite.connect() as one, pytest.raises(ConfigError, match="sqlite"):
        engine.submit_on(one, [a_job()])
    sqlite.dispose()


@pytest.mark.parametrize("fields", [{"queue": "\ud800"}, {"unique_key": "a\0b"}])
async def test_what_cannot_be_stored_is_refused_before_it_costs_the_transaction(
    engine: PostgresEngine, url: str, fields: Any
) -> None:
    good = a_job()
    async with by_asyncpg(url) as way:
        with pytest.raises(ConfigError):
            await way.submit(
                engine, [a_job(), CheckedJob(id=ids.make(), **({"type": "t"} | fields))]
            )
        await way.submit(engine, [good])
        await way.commit()

    assert [job.id for job in (await engine.find(JobFilter(), limit=10)).jobs] == [good.id]


@pytest.mark.parametrize("encoding", ["latin1", "sql_ascii", "utf8"])
async def test_the_encoding_of_a_connection_does_not_matter(
    engine: PostgresEngine, url: str, encoding: str
) -> None:
    job = a_job(tags=("日本",), payload='{"name":"日本"}'.encode())
    with psycopg.connect(url, client_encoding=encoding) as one:
        engine.submit_on(one, [job])

    stored = await engine.get(job.id)
    assert (stored.tags, stored.payload) == (job.tags, job.payload)


@pytest.mark.slow
async def test_many_and_heavy_jobs_travel_in_parts(engine: PostgresEngine, url: str) -> None:
    jobs = [a_job(payload=b'{"x":"%s"}' % (b"1" * 1_000_000)) for _ in range(20)]
    jobs += [a_job(queue=f"q{n % 3}", delay=n % 2, priority=1 + n % 9) for n in range(1_000)]
    with psycopg.connect(url) as one:
        answers = engine.submit_on(one, jobs)

    assert [answer.id for answer in answers] == [job.id for job in jobs]
    assert {answer.verdict for answer in answers} == {Verdict.ACCEPTED}
    assert sum(one.ready + one.scheduled for one in await engine.counts()) == len(jobs)


async def test_a_key_that_someone_holds_is_waited_for_as_long_as_the_caller_allows(
    engine: PostgresEngine, url: str
) -> None:
    async with by_asyncpg(url) as holder, by_asyncpg(url) as way:
        await holder.submit(engine, [a_job(unique_key="u")])
        await way.execute("set local lock_timeout = '10ms'")
        with pytest.raises(EngineBusyError):
            await way.submit(engine, [a_job(unique_key="u")])
    with psycopg.connect(url) as one:
        one.execute("set transaction read only")
        with pytest.raises(EngineUnavailableError, match="read-only"):
            engine.submit_on(one, [a_job()])
        with pytest.raises(EngineError, match="aborted"):
            engine.submit_on(one, [a_job()])
    with pytest.raises(EngineUnavailableError, match="closed"):
        engine.submit_on(one, [a_job()])


async def _lasts(session: Any, seconds: float) -> bool:
    """Whether nothing woke a wait before its time."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    await session.wait(seconds)
    return loop.time() - began >= seconds


@pytest.mark.parametrize("key", [None, "k"], ids=["alone", "in line"])
async def test_a_worker_that_began_to_wait_before_the_commit_hears_of_it(
    engine: PostgresEngine, url: str, key: str | None
) -> None:
    """The submit itself cannot see that anyone waits: it was there before."""
    session = await engine.open_session(
        worker="w", queues=["default"], types=["t"], lease=30_000_000
    )
    async with by_asyncpg(url) as way:
        await way.submit(engine, [a_job(ordering_key=key)])
        assert (await session.exchange(1, want=1)).claims == []
        await session.wait(0.0)
        # It looks again when it listens, and once more behind an empty look.
        waker = engine._database.waker  # pyright: ignore
        await eventually(lambda: waker.is_listening)
        await eventually(lambda: _lasts(session, 0.1))
        waiting = asyncio.create_task(session.wait(30.0))
        await way.commit()
        async with asyncio.timeout(5):
            await waiting

    assert len((await session.exchange(2, want=1)).claims) == 1
    await session.close()


async def test_the_sdk_submits_on_a_connection_with_and_without_await(url: str) -> None:
    app = Longshore(url)

    @app.task
    async def ship(order: int) -> None: ...

    async with app:
        async with by_asyncpg(url) as way:
            first = await ship.using(connection=way.connection).submit(1)
            await way.commit()
            with pytest.raises(ConfigError, match="await"):
                app.submit_here(ship.using(connection=way.connection).spec(2))
        with psycopg.connect(url) as one:
            second = app.sync.submit(ship.using(connection=one, key="k").spec(3))
            with pytest.raises(IdempotencyError):
                app.sync.submit(ship.using(connection=one, key="k").spec(4))
        states = [(await handle.get()).state for handle in (first, second)]

    assert states == [State.READY, State.READY]


async def test_a_process_that_never_awaits_submits_on_psycopg(url: str) -> None:
    app = Longshore(url)

    @app.task
    def ship(order: int) -> None: ...

    def serve() -> State:
        app.sync.open()
        try:
            with psycopg.connect(url) as one:
                handle = app.sync.submit(ship.using(connection=one).spec(1))
            return app.sync.get(handle).state
        finally:
            app.sync.close()

    assert await asyncio.to_thread(serve) is State.READY


async def test_jobs_are_submitted_and_completed_behind_a_pooler(new_pooled_url: str) -> None:
    engine = from_url(f"{new_pooled_url}?pgbouncer=on")
    await engine.migrate()
    connection = await asyncpg.connect(new_pooled_url, statement_cache_size=0)
    jobs = [a_job() for _ in range(3)]
    for job in jobs:
        async with connection.transaction():
            await awaited(engine.submit_on(connection, [job]))
    session = await engine.open_session(
        worker="w", queues=["default"], types=["t"], lease=30_000_000
    )
    claims = (await session.exchange(1, want=3)).claims

    async def complete(reference: Reference) -> None:
        async with session.transaction(reference, started_at=1) as one:
            await one.connection.execute("create table if not exists public.t (n int)")
            await one.connection.execute("insert into public.t values ($1)", 1)

    for claim in claims:
        await complete((claim.handle, claim.delivery))
    states = [(await engine.get(job.id)).state for job in jobs]
    await session.close()
    await engine.close()
    await connection.close()

    assert states == [State.SUCCEEDED] * 3
