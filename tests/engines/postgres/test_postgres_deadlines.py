"""Calls to PostgreSQL that take too long, are cancelled, or lose their connection."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import asyncpg
import pytest
from calls import OURS, SLEEPING, Fetch, make_table, total, until

from longshore.engines.postgres.database import Connection, Database
from longshore.engines.postgres.faults import is_loss
from longshore.errors import (
    EngineUnavailableError,
)
from longshore_lab.servers import PostgresServer

# Deadlines and cancellation


@pytest.fixture(params=["pool", "lane"])
async def hasty(
    request: pytest.FixtureRequest, postgres_url: str
) -> AsyncIterator[tuple[Fetch, Database]]:
    """Calls that have a tenth of a second."""
    database = Database(postgres_url, size=1, call_seconds=0.1)
    lane = database.lane()
    yield (database.fetch if request.param == "pool" else lane.fetch), database
    await lane.close()
    await database.close()


async def test_a_call_that_takes_too_long_is_ended_here_and_on_the_server(
    hasty: tuple[Fetch, Database], observer: Connection
) -> None:
    fetch, _ = hasty

    with pytest.raises(EngineUnavailableError, match="no answer in time"):
        await fetch("select pg_sleep(59) /* late */")

    await until(observer, f"select not exists ({SLEEPING})", "%/* late */")
    assert await fetch("select 1")


async def test_a_call_waits_for_its_turn_no_longer_than_its_deadline(
    hasty: tuple[Fetch, Database],
) -> None:
    """One after the other they would take two seconds."""
    fetch, _ = hasty
    await fetch("select 1")
    start = time.monotonic()

    calls = [fetch("select pg_sleep(59)") for _ in range(20)]
    answers = await asyncio.gather(*calls, return_exceptions=True)

    assert time.monotonic() - start < 1.5
    assert {type(one) for one in answers} == {EngineUnavailableError}
    assert await fetch("select 1")


@pytest.mark.parametrize("turns", [0, 1, 2, 3, 5, 8, 13])
async def test_a_cancelled_call_leaves_no_connection_in_a_half_state(
    postgres_url: str, turns: int
) -> None:
    """At whichever of its steps it is cancelled, the next one gets its own answer."""
    database = Database(postgres_url, size=1)
    await database.fetch("select 1")

    for round in range(10):
        call = asyncio.create_task(database.fetch("select 'stale'::text as answer"))
        for _ in range(turns):
            await asyncio.sleep(0)
        call.cancel()
        (row,) = await database.fetch("select $1::int as answer", round)
        assert row["answer"] == round

    await database.close()


async def test_a_cancelled_call_stops_on_the_server_too(
    fetch: Fetch, observer: Connection
) -> None:
    call = asyncio.create_task(fetch("select pg_sleep(59) /* cancelled */"))
    await until(observer, SLEEPING, "%/* cancelled */")

    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call

    await until(observer, f"select not exists ({SLEEPING})", "%/* cancelled */")
    assert await fetch("select 1")


async def test_a_connection_whose_call_was_cancelled_is_not_used_again(
    postgres_url: str, observer: Connection
) -> None:
    database = Database(postgres_url, size=1)
    call = asyncio.create_task(database.fetch("select pg_sleep(59) /* doubtful */"))
    before = await until(observer, SLEEPING, "%/* doubtful */")

    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call

    assert (await database.fetch("select pg_backend_pid() as pid"))[0]["pid"] != before
    await database.close()


async def test_a_borrowed_connection_in_a_transaction_is_not_used_again(
    postgres_url: str,
) -> None:
    database = Database(postgres_url, size=1)
    async with database.borrowed() as connection:
        await connection.execute("begin")
        before = await connection.fetchval("select pg_backend_pid()")

    assert (await database.fetch("select pg_backend_pid() as pid"))[0]["pid"] != before
    await database.close()


async def test_a_cancelled_transaction_is_rolled_back_and_holds_no_lock(
    database: Database, observer: Connection
) -> None:
    await make_table(observer)
    inside = asyncio.Event()

    async def body(connection: Connection) -> None:
        await connection.execute("update public.tally set n = 7")
        inside.set()
        await asyncio.sleep(60)

    call = asyncio.create_task(database.transact(body))
    await inside.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call

    await observer.execute("set lock_timeout = '5s'")
    await observer.execute("update public.tally set n = n + 1 where id = 1")
    assert await total(observer) == 1


async def test_a_server_that_stops_answering_holds_up_nobody(
    postgres_url: str,
) -> None:
    """As after a cut cable: neither the deadline nor a cancellation waits for its answer."""
    async with _cable(postgres_url) as (url, cut):
        database = Database(url, call_seconds=0.2)
        await database.fetch("select 1")

        async def body(connection: Connection) -> None:
            cut.set()
            await connection.execute("select 1")

        async with asyncio.timeout(5):
            with pytest.raises(EngineUnavailableError, match="no answer in time"):
                await database.transact(body)
            await database.close()


@asynccontextmanager
async def _cable(url: str) -> AsyncIterator[tuple[str, asyncio.Event]]:
    """A way to the server that swallows everything once the event is set."""
    cut = asyncio.Event()
    ends: list[asyncio.StreamWriter] = []
    folder, _, port = url.partition("host=")[2].partition("&port=")

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while part := await reader.read(65_536):
            if not cut.is_set():
                writer.write(part)

    async def join(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far = await asyncio.open_unix_connection(f"{folder}/.s.PGSQL.{port}")
        ends.extend((writer, far[1]))
        with suppress(ConnectionError):
            await asyncio.gather(pump(reader, far[1]), pump(far[0], writer))

    server = await asyncio.start_server(join, "127.0.0.1", 0)
    port_here = server.sockets[0].getsockname()[1]
    try:
        yield f"postgresql://postgres@127.0.0.1:{port_here}/longshore?sslmode=disable", cut
    finally:
        server.close()
        for end in ends:
            end.close()
            with suppress(ConnectionError):
                await end.wait_closed()


# Losses


async def test_a_call_whose_connection_is_ended_fails_once_and_the_next_one_works(
    fetch: Fetch, observer: Connection
) -> None:
    call = asyncio.create_task(fetch("select pg_sleep(59) /* ended */"))
    pid = await until(observer, SLEEPING, "%/* ended */")

    await observer.execute("select pg_terminate_backend($1)", pid)
    with pytest.raises(EngineUnavailableError):
        await call

    assert await fetch("select 1")


def test_a_driver_that_lost_its_way_has_lost_its_connection() -> None:
    """So it meets a server's farewell between two statements; the others are gone as well."""
    assert is_loss(asyncpg.InternalClientError("cannot switch to state 15"))
    assert not is_loss(asyncpg.OutdatedSchemaCacheError("its schema changed"))


async def test_connections_that_were_ended_while_idle_cost_no_call(
    database: Database, observer: Connection
) -> None:
    await asyncio.gather(*(database.fetch("select pg_sleep(0.01)") for _ in range(8)))

    await observer.execute(
        "select pg_terminate_backend(pid) from pg_stat_activity"
        " where application_name like 'longshore%'"
    )
    await until(observer, f"select not exists ({OURS} having count(*) > 0)")

    rows = await asyncio.gather(*(database.fetch("select 1 as one") for _ in range(8)))
    assert [row[0]["one"] for row in rows] == [1] * 8


async def test_a_transaction_whose_connection_is_ended_changes_nothing(
    database: Database, observer: Connection
) -> None:
    await make_table(observer)

    async def body(connection: Connection) -> None:
        await connection.execute("update public.tally set n = 7")
        pid = await connection.fetchval("select pg_backend_pid()")
        await observer.execute("select pg_terminate_backend($1)", pid)
        await connection.execute("update public.tally set n = 8")

    with pytest.raises(EngineUnavailableError):
        await database.transact(body)

    assert await total(observer) == 0
    assert await database.fetch("select 1")


@pytest.mark.slow
async def test_calls_work_again_within_seconds_of_a_crashed_servers_return() -> None:
    async with PostgresServer() as server:
        database, lane_of = Database(server.url()), Database(server.url())
        lane = lane_of.lane()
        await database.fetch("select 1")
        await lane.fetch("select 1")

        await asyncio.to_thread(server.stop, immediate=True)
        for _ in range(3):
            with pytest.raises(EngineUnavailableError):
                await database.fetch("select 1")
            with pytest.raises(EngineUnavailableError):
                await lane.fetch("select 1")
        await asyncio.to_thread(server.start)

        start = time.monotonic()
        assert await database.fetch("select 1")
        assert await lane.fetch("select 1")
        assert time.monotonic() - start < 3
        await lane.close()
        await database.close()
        await lane_of.close()


@pytest.mark.slow
async def test_a_server_without_a_connection_left_is_unavailable_for_now() -> None:
    few = {"max_connections": "5", "superuser_reserved_connections": "0"}
    async with PostgresServer(settings={**few, "reserved_connections": "0"}) as server:
        greedy, modest = Database(server.url(), size=6), Database(server.url())

        calls = [greedy.fetch("select pg_sleep(0.5)") for _ in range(6)]
        answers = await asyncio.gather(*calls, return_exceptions=True)
        await greedy.close()

        refused = [one for one in answers if isinstance(one, BaseException)]
        assert [type(one) for one in refused] == [EngineUnavailableError]
        assert "no connection left" in str(refused[0])
        assert await modest.fetch("select 1")
        await modest.close()


async def test_a_statement_survives_a_migration_beneath_it(
    database: Database, observer: Connection
) -> None:
    await make_table(observer)
    for _ in range(3):
        await database.transact(lambda one: one.fetch("select * from public.tally"))

    await observer.execute("alter table public.tally add column more text")

    rows = await database.transact(lambda one: one.fetch("select * from public.tally"))
    assert "more" in rows[0]
