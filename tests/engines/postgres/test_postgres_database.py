"""Calls to PostgreSQL: each ends in time, in an answer or in one clear error."""

import asyncio
import socket
import time
from random import Random

import asyncpg
import pytest
from calls import OURS, Fetch, make_table, total, until

from longshore.engines.postgres.connection import Connector
from longshore.engines.postgres.database import Connection, Database
from longshore.engines.postgres.faults import sqlstate, translate
from longshore.errors import (
    ConfigError,
    EngineBusyError,
    EngineError,
    EngineUnavailableError,
    SchemaError,
)
from longshore.runtime.clock import ManualClock
from longshore_lab.servers import PostgresServer


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
        " current_setting('idle_in_transaction_session_timeout') as idle,"
        " current_setting('transaction_isolation') as isolation,"
        " current_setting('search_path') as path"
    )

    assert row["name"].startswith("longshore")
    assert (row["jit"], row["seconds"], row["idle"]) == ("off", "30s", "10s")
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
    await until(observer, f"select not exists ({OURS} having count(*) > 0)")
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


async def test_a_transaction_commits_what_its_body_did(
    database: Database, observer: Connection
) -> None:
    await make_table(observer)

    async def body(connection: Connection) -> str:
        await connection.execute("update public.tally set n = 7 where id = 1")
        assert await total(observer) == 0
        return "done"

    assert await database.transact(body) == "done"
    assert await total(observer) == 7


async def test_a_body_that_raises_changes_nothing_and_spoils_no_connection(
    postgres_url: str, observer: Connection
) -> None:
    await make_table(observer)
    database = Database(postgres_url, size=1)

    async def body(connection: Connection) -> None:
        await connection.execute("update public.tally set n = 7")
        raise SchemaError("changed my mind")

    (before,) = await database.fetch("select pg_backend_pid()")
    with pytest.raises(SchemaError, match="changed my mind"):
        await database.transact(body)

    assert await total(observer) == 0
    assert await database.fetch("select pg_backend_pid()") == [before]
    await database.close()


async def test_a_body_that_hides_a_servers_error_is_not_taken_for_committed(
    database: Database, observer: Connection
) -> None:
    await make_table(observer)

    async def body(connection: Connection) -> None:
        await connection.execute("update public.tally set n = 7")
        with pytest.raises(asyncpg.DivisionByZeroError):
            await connection.execute("select 1 / 0")

    with pytest.raises(EngineError, match="rolled back"):
        await database.transact(body)

    assert await total(observer) == 0


@pytest.mark.parametrize("code", ["40001", "40P01"])
async def test_a_transaction_that_met_others_runs_again_from_its_start(
    database: Database, observer: Connection, code: str
) -> None:
    await make_table(observer)
    runs = 0

    async def body(connection: Connection) -> None:
        nonlocal runs
        runs += 1
        await connection.execute("update public.tally set n = n + 1 where id = 1")
        if runs < 4:
            await _raise(connection, code)

    await database.transact(body)

    assert (runs, await total(observer)) == (4, 1)


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
    await make_table(observer)
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

    assert await total(observer) == 4
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


async def test_processes_that_lost_a_server_do_not_knock_in_step(unused_tcp_port: int) -> None:
    url = f"postgresql://u@127.0.0.1:{unused_tcp_port}/d"
    back: list[int] = []

    async def knock(seed: int) -> float:
        connector, begin = Connector(url, rng=Random(seed)), time.monotonic()
        for _ in range(5):
            with pytest.raises(ConnectionRefusedError):
                await connector.open()
        back.append(seed)
        return time.monotonic() - begin

    took = await asyncio.gather(knock(5), knock(4))

    rngs = Random(5), Random(4)
    pauses = [sum(0.05 * 2**n * rng.uniform(0.5, 1.0) for n in (1, 2, 3, 4)) for rng in rngs]
    assert [one >= least for one, least in zip(took, pauses, strict=True)] == [True, True]
    assert back == [4, 5]
    assert len({Connector(url).jitter(1.0) for _ in range(9)}) == 9


async def test_a_server_that_accepts_and_says_nothing_is_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("longshore.engines.postgres.connection.CONNECT_SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        database = Database(f"postgresql://u@127.0.0.1:{port}/d?sslmode=disable")

        async with asyncio.timeout(5):
            with pytest.raises(EngineUnavailableError, match="no answer in time"):
                await database.fetch("select 1")
        await database.close()


async def test_an_error_of_the_server_does_not_repeat_the_row_that_it_refuses(
    db: Connection,
) -> None:
    await db.execute("create temp table kept (secret text check (length(secret) < 9))")

    with pytest.raises(asyncpg.CheckViolationError, match="whsec_c2VjcmV0") as raised:
        await db.execute("insert into kept values ('whsec_c2VjcmV0')")
    told = translate(raised.value, "postgresql://db")

    assert "kept_secret_check" in str(told)
    assert "whsec" not in str(told)
