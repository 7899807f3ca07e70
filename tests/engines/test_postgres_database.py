"""Calls to PostgreSQL: each ends in time, in an answer or in one clear error."""

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import asyncpg
import pytest

from longshore.engines.postgres.database import Connection, Database
from longshore.engines.postgres.faults import is_loss, sqlstate
from longshore.errors import (
    ConfigError,
    EngineBusyError,
    EngineError,
    EngineUnavailableError,
    SchemaError,
)
from longshore.runtime.clock import ManualClock
from longshore_lab.servers import PostgresServer

Fetch = Callable[..., Awaitable[list[asyncpg.Record]]]


@pytest.fixture
async def database(postgres_url: str) -> AsyncIterator[Database]:
    database = Database(postgres_url)
    yield database
    await database.close()


@pytest.fixture
async def observer(postgres_url: str) -> AsyncIterator[Connection]:
    """Someone else's connection to the same database."""
    connection = await asyncpg.connect(postgres_url)
    yield connection
    await connection.close()


@pytest.fixture(params=["pool", "lane"])
async def fetch(request: pytest.FixtureRequest, database: Database) -> AsyncIterator[Fetch]:
    """A call on a pooled connection, and one on a lane."""
    lane = database.lane()
    yield database.fetch if request.param == "pool" else lane.fetch
    await lane.close()


async def _until(observer: Connection, statement: str, *args: object) -> object:
    """What the server says once it says something."""
    async with asyncio.timeout(10):
        while not (value := await observer.fetchval(statement, *args)):
            await asyncio.sleep(0.005)
    return value


SLEEPING = """
    select pid from pg_stat_activity where query like $1 and state = 'active'
       and application_name like 'longshore%'
"""
OURS = "select count(*) from pg_stat_activity where application_name like 'longshore%'"


async def test_nothing_is_touched_before_the_first_call() -> None:
    database = Database("postgresql://nobody@203.0.113.1/nowhere")
    lane = database.lane()

    await lane.close()
    await database.close()


async def test_ids_travel_as_sixteen_bytes_and_documents_as_text(fetch: Fetch) -> None:
    sent = bytes(range(16))

    (row,) = await fetch(
        "select $1::uuid as one, $2::uuid[] as many, $3::jsonb as document,"
        " $1::uuid::text as text",
        sent,
        [sent, bytes(16)],
        '{"a": 1}',
    )

    assert (row["one"], row["many"], row["document"]) == (sent, [sent, bytes(16)], '{"a": 1}')
    assert row["text"] == "00010203-0405-0607-0809-0a0b0c0d0e0f"


async def test_a_connection_says_what_it_is_and_how_long_it_waits(fetch: Fetch) -> None:
    (row,) = await fetch(
        "select current_setting('application_name') as name, current_setting('jit') as jit,"
        " current_setting('statement_timeout') as seconds,"
        " current_setting('transaction_isolation') as isolation,"
        " current_setting('search_path') as path"
    )

    assert row["name"].startswith("longshore")
    assert (row["jit"], row["seconds"]) == ("off", "30s")
    assert (row["isolation"], row["path"]) == ("read committed", '"$user", public')


async def test_the_time_is_the_clocks_or_else_the_servers(postgres_url: str) -> None:
    clock = ManualClock()

    assert Database(postgres_url, clock=clock).now() == clock.now()
    assert Database(postgres_url).now() is None


async def test_calls_share_no_more_connections_than_the_pool_has(
    postgres_url: str, observer: Connection
) -> None:
    database = Database(postgres_url, size=3)

    await asyncio.gather(*(database.fetch("select pg_sleep(0.01)") for _ in range(20)))

    assert await observer.fetchval(OURS) == 3
    await database.close()


async def test_a_lane_has_a_connection_of_its_own_and_takes_turns_on_it(
    database: Database,
) -> None:
    lane = database.lane()

    rows = await asyncio.gather(
        *(lane.fetch("select pg_backend_pid() as pid") for _ in range(5)),
        *(database.fetch("select pg_backend_pid() as pid") for _ in range(5)),
    )

    lanes = {row[0]["pid"] for row in rows[:5]}
    assert len(lanes) == 1
    assert not lanes & {row[0]["pid"] for row in rows[5:]}
    await lane.close()


async def test_closing_leaves_no_connection_and_a_later_call_opens_one(
    postgres_url: str, observer: Connection
) -> None:
    database = Database(postgres_url)
    lane = database.lane()
    await asyncio.gather(
        *(database.fetch("select 1") for _ in range(4)), lane.fetch("select 1")
    )

    await lane.close()
    await database.close()
    await database.close()

    assert not await observer.fetchval(f"{OURS} and state <> 'idle'")
    await _until(observer, f"select not exists ({OURS} having count(*) > 0)")
    assert (await database.fetch("select 1 as one"))[0]["one"] == 1
    await database.close()


async def test_two_event_loops_have_connections_of_their_own(postgres_url: str) -> None:
    database = Database(postgres_url)
    await database.fetch("select 1")

    async def elsewhere() -> None:
        await database.fetch("select 1")
        await database.close()

    await asyncio.to_thread(asyncio.run, elsewhere())

    await database.fetch("select 1")
    await database.close()


# Transactions


async def _table(observer: Connection) -> None:
    await observer.execute(
        "drop table if exists public.tally;"
        " create table public.tally (id int primary key, n int not null);"
        " insert into public.tally values (1, 0), (2, 0)"
    )


async def _sum(observer: Connection) -> object:
    return await observer.fetchval("select sum(n) from public.tally")


async def test_a_transaction_commits_what_its_body_did(
    database: Database, observer: Connection
) -> None:
    await _table(observer)

    async def body(connection: Connection) -> str:
        await connection.execute("update public.tally set n = 7 where id = 1")
        assert await _sum(observer) == 0
        return "done"

    assert await database.transact(body) == "done"
    assert await _sum(observer) == 7


async def test_a_body_that_raises_changes_nothing_and_spoils_no_connection(
    postgres_url: str, observer: Connection
) -> None:
    await _table(observer)
    database = Database(postgres_url, size=1)

    async def body(connection: Connection) -> None:
        await connection.execute("update public.tally set n = 7")
        raise SchemaError("changed my mind")

    (before,) = await database.fetch("select pg_backend_pid()")
    with pytest.raises(SchemaError, match="changed my mind"):
        await database.transact(body)

    assert await _sum(observer) == 0
    assert await database.fetch("select pg_backend_pid()") == [before]
    await database.close()


async def test_a_body_that_hides_a_servers_error_is_not_taken_for_committed(
    database: Database, observer: Connection
) -> None:
    await _table(observer)

    async def body(connection: Connection) -> None:
        await connection.execute("update public.tally set n = 7")
        with pytest.raises(asyncpg.DivisionByZeroError):
            await connection.execute("select 1 / 0")

    with pytest.raises(EngineError, match="rolled back"):
        await database.transact(body)

    assert await _sum(observer) == 0


@pytest.mark.parametrize("code", ["40001", "40P01"])
async def test_a_transaction_that_met_others_runs_again_from_its_start(
    database: Database, observer: Connection, code: str
) -> None:
    await _table(observer)
    runs = 0

    async def body(connection: Connection) -> None:
        nonlocal runs
        runs += 1
        await connection.execute("update public.tally set n = n + 1 where id = 1")
        if runs < 4:
            await _raise(connection, code)

    await database.transact(body)

    assert (runs, await _sum(observer)) == (4, 1)


async def test_a_transaction_that_meets_others_again_and_again_is_busy(
    database: Database,
) -> None:
    runs = 0

    async def body(connection: Connection) -> None:
        nonlocal runs
        runs += 1
        await _raise(connection, "40001")

    with pytest.raises(EngineBusyError):
        await database.transact(body)

    assert runs == 5


async def _raise(connection: Connection, code: str) -> None:
    await connection.execute(f"do $$ begin raise exception using errcode = '{code}'; end $$")


async def test_two_transactions_in_a_deadlock_both_succeed(
    database: Database, observer: Connection
) -> None:
    await _table(observer)
    together = asyncio.Barrier(2)
    runs = 0

    async def body(connection: Connection, first: int, second: int) -> None:
        nonlocal runs
        runs += 1
        await connection.execute("set local deadlock_timeout = '20ms'")
        await connection.execute("update public.tally set n = n + 1 where id = $1", first)
        if runs <= 2:
            await together.wait()
        await connection.execute("update public.tally set n = n + 1 where id = $1", second)

    await asyncio.gather(
        database.transact(lambda connection: body(connection, 1, 2)),
        database.transact(lambda connection: body(connection, 2, 1)),
    )

    assert await _sum(observer) == 4
    assert runs == 3


# Errors


STATEMENTS = {
    "a missing table": ("select * from longshore.no_such", SchemaError, "longshore migrate"),
    "a missing schema": ("create table no_schema.t ()", SchemaError, "longshore migrate"),
    "a missing column": ("select no_such from longshore.migration", SchemaError, "migrate"),
    "a missing function": ("select longshore.no_such(1)", SchemaError, "longshore migrate"),
    "a wrong value": ("select 1 / 0", ConfigError, "division by zero"),
    "nonsense": ("zelect", EngineError, "syntax error"),
}


@pytest.mark.parametrize("name", STATEMENTS)
async def test_an_error_of_the_server_becomes_one_of_ours(fetch: Fetch, name: str) -> None:
    statement, kind, text = STATEMENTS[name]

    with pytest.raises(kind, match=text) as caught:
        await fetch(statement)

    assert type(caught.value) is kind
    assert await fetch("select 1")


CODES = {
    "53300": EngineUnavailableError,
    "53100": EngineUnavailableError,
    "57P03": EngineUnavailableError,
    "25006": EngineUnavailableError,
    "55P03": EngineBusyError,
    "42501": ConfigError,
    "LS001": EngineError,
}


@pytest.mark.parametrize("code", CODES)
async def test_a_code_of_the_server_can_be_asked_for(fetch: Fetch, code: str) -> None:
    with pytest.raises(CODES[code]) as caught:
        await fetch(f"do $$ begin raise exception using errcode = '{code}'; end $$")

    assert type(caught.value) is CODES[code]
    assert sqlstate(caught.value) == code


@pytest.mark.parametrize("value", ["\0", "\ud800", 2**40], ids=["nul", "surrogate", "large"])
async def test_what_cannot_be_stored_is_said_and_spoils_no_connection(
    postgres_url: str, value: object
) -> None:
    database = Database(postgres_url, size=1)
    (before,) = await database.fetch("select pg_backend_pid()")
    statement = "select $1::text" if isinstance(value, str) else "select $1::int"

    with pytest.raises(ConfigError, match="cannot be stored"):
        await database.fetch(statement, value)

    assert await database.fetch("select pg_backend_pid()") == [before]
    await database.close()


async def test_a_wrong_password_or_database_is_a_mistake_in_the_url(
    postgres_server: PostgresServer,
) -> None:
    right = postgres_server.url(tcp=True)
    password = right.partition("postgres:")[2].partition("@")[0]

    for url, text in [
        (right.replace(password, "wrong"), "password"),
        (postgres_server.url("no_such_database"), "no such database"),
        ("postgresql://h:not-a-port/d", "port"),
    ]:
        database = Database(url)
        with pytest.raises(ConfigError, match=text) as caught:
            await database.fetch("select 1")
        assert password not in str(caught.value)
        await database.close()


async def test_a_server_that_is_not_there_is_unavailable_at_once() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    database = Database(f"postgresql://u@127.0.0.1:{port}/d")
    start = time.monotonic()

    for _ in range(3):
        with pytest.raises(EngineUnavailableError, match="cannot be reached"):
            await database.fetch("select 1")

    assert time.monotonic() - start < 3
    await database.close()


async def test_while_a_server_is_away_it_is_not_asked_again_and_again() -> None:
    """Ten callers a turn, and the turns grow apart, up to a second."""
    asked = 0

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        asked += 1
        writer.close()

    server = await asyncio.start_server(refuse, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    database = Database(f"postgresql://u@127.0.0.1:{port}/d?sslmode=disable", size=1)
    deadline = time.monotonic() + 1.5

    while time.monotonic() < deadline:
        with pytest.raises(EngineUnavailableError):
            await database.fetch("select 1")

    assert 3 <= asked <= 10
    await database.close()
    server.close()


async def test_a_server_that_accepts_and_says_nothing_is_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("longshore.engines.postgres.connecting.CONNECT_SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        database = Database(f"postgresql://u@127.0.0.1:{port}/d?sslmode=disable")

        async with asyncio.timeout(5):
            with pytest.raises(EngineUnavailableError, match="no answer in time"):
                await database.fetch("select 1")
        await database.close()


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

    await _until(observer, f"select not exists ({SLEEPING})", "%/* late */")
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
    await _until(observer, SLEEPING, "%/* cancelled */")

    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call

    await _until(observer, f"select not exists ({SLEEPING})", "%/* cancelled */")
    assert await fetch("select 1")


async def test_a_connection_whose_call_was_cancelled_is_not_used_again(
    postgres_url: str, observer: Connection
) -> None:
    database = Database(postgres_url, size=1)
    call = asyncio.create_task(database.fetch("select pg_sleep(59) /* doubtful */"))
    before = await _until(observer, SLEEPING, "%/* doubtful */")

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
    await _table(observer)
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
    assert await _sum(observer) == 1


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
    pid = await _until(observer, SLEEPING, "%/* ended */")

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
    await _until(observer, f"select not exists ({OURS} having count(*) > 0)")

    rows = await asyncio.gather(*(database.fetch("select 1 as one") for _ in range(8)))
    assert [row[0]["one"] for row in rows] == [1] * 8


async def test_a_transaction_whose_connection_is_ended_changes_nothing(
    database: Database, observer: Connection
) -> None:
    await _table(observer)

    async def body(connection: Connection) -> None:
        await connection.execute("update public.tally set n = 7")
        pid = await connection.fetchval("select pg_backend_pid()")
        await observer.execute("select pg_terminate_backend($1)", pid)
        await connection.execute("update public.tally set n = 8")

    with pytest.raises(EngineUnavailableError):
        await database.transact(body)

    assert await _sum(observer) == 0
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
    await _table(observer)
    for _ in range(3):
        await database.transact(lambda one: one.fetch("select * from public.tally"))

    await observer.execute("alter table public.tally add column more text")

    rows = await database.transact(lambda one: one.fetch("select * from public.tally"))
    assert "more" in rows[0]
