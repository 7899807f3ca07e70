"""A store that goes back to an earlier moment: no number is given out twice, no job mixed up.

A standby that lags takes over, a dump is restored, a copy of the data folder is put back. What
was given out in between is unknown to the store and still known to workers and readers.
"""

import asyncio
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import NamedTuple, TypeVar

import asyncpg
import pytest

from longshore.contract import Engine
from longshore.core.state import State
from longshore.engines import open_engine
from longshore.errors import EngineBusyError, EngineUnavailableError, LeaseLostError
from longshore.testing.factories import SECOND, a_job
from longshore.testing.manual import ManualWorker, a_worker
from longshore_lab.servers import PostgresServer

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("postgres_server")]

T = TypeVar("T")
DATABASE = "longshore"
BATCHES = 40
"""More than the 32 values by which PostgreSQL logs a sequence ahead."""


@pytest.fixture
async def server() -> AsyncIterator[PostgresServer]:
    async with PostgresServer() as server:
        url = await asyncio.to_thread(server.create, DATABASE)
        engine = open_engine(url)
        await engine.migrate()
        await engine.close()
        yield server


class Given(NamedTuple):
    """The numbers that a store gave out."""

    segments: set[int]
    tokens: set[int]
    positions: set[int]
    cursors: set[int]


async def insist(call: Callable[[], Awaitable[T]]) -> T:
    """Call until the server is reached: each connection of before fails once."""
    for _ in range(20):
        try:
            return await call()
        except EngineUnavailableError:
            pass
    return await call()


async def give_out(server: PostgresServer) -> Given:
    """Submit jobs one by one, open sessions, read events and take cursors."""
    engine = open_engine(server.url(DATABASE))
    try:
        known = {
            row["segment"]
            for row in await asked(server, "select segment from longshore.segment")
        }
        last = (await engine.span()).last
        for _ in range(BATCHES):
            await engine.submit([a_job()])
        sessions = [
            await engine.open_session(
                worker=f"w{n}", queues=["default"], types=["noop"], lease=30 * SECOND
            )
            for n in range(BATCHES)
        ]
        cursors = [
            await engine.take_cursor("reader", holder="me", lease=SECOND)
            for _ in range(BATCHES)
        ]
        events = await engine.events(after=last, limit=1_000)
        rows = await asked(server, "select segment from longshore.segment")
        return Given(
            {row["segment"] for row in rows} - known,
            {one.token for one in sessions},
            {one.position for one in events},
            {one.token for one in cursors if one is not None},
        )
    finally:
        await engine.close()


async def asked(server: PostgresServer, statement: str) -> list[asyncpg.Record]:
    connection = await asyncpg.connect(server.url(DATABASE))
    try:
        return await connection.fetch(statement)
    finally:
        await connection.close()


def assert_apart(before: Given, after: Given) -> None:
    for old, new in zip(before, after, strict=True):
        assert len(old) >= BATCHES
        assert len(new) >= BATCHES
        assert not old & new
    # Whoever remembers a number of before is never ahead of what comes.
    assert max(before.tokens) < min(after.tokens)
    assert max(before.positions) < min(after.positions)
    assert max(before.cursors) < min(after.cursors)


async def test_a_standby_that_lags_and_takes_over_gives_out_no_number_again(
    server: PostgresServer,
):
    async with server.standby() as standby:
        await give_out(server)
        await asyncio.to_thread(standby.stop_receiving)
        lost = await give_out(server)
        await asyncio.to_thread(server.stop, immediate=True)
        await asyncio.to_thread(standby.promote)

        new = await give_out(standby)

    assert_apart(lost, new)


async def test_a_restored_dump_gives_out_no_number_again(server: PostgresServer):
    await give_out(server)
    dump = await asyncio.to_thread(server.dump, DATABASE)
    lost = await give_out(server)
    await asyncio.to_thread(server.drop, DATABASE)
    await asyncio.to_thread(server.create, DATABASE)
    await asyncio.to_thread(server.restore, DATABASE, dump)

    new = await give_out(server)

    assert_apart(lost, new)


async def test_a_copy_of_the_data_that_is_put_back_gives_out_no_number_again(
    server: PostgresServer, tmp_path: Path
):
    await give_out(server)
    await asyncio.to_thread(server.stop)
    copy = tmp_path / "copy"
    await asyncio.to_thread(shutil.copytree, server.data, copy, symlinks=True)
    await asyncio.to_thread(server.start)
    lost = await give_out(server)
    await asyncio.to_thread(server.stop)
    await asyncio.to_thread(server.put_back, copy)
    await asyncio.to_thread(server.start)

    new = await give_out(server)

    assert_apart(lost, new)


@pytest.fixture
async def engine(server: PostgresServer) -> AsyncIterator[Engine]:
    engine = open_engine(server.url(DATABASE))
    yield engine
    await engine.close()


ANOTHER_JOB = """
    with other as (update longshore.segment set ids = '{id}'::bytea returning segment)
    update longshore.locator l set id = '{uuid}'::uuid from other o where l.segment = o.segment
"""


async def give_its_number_to_another(server: PostgresServer) -> bytes:
    """Another job has the number now that the only segment had; its id."""
    other = a_job().id
    await asked(server, ANOTHER_JOB.format(id=f"\\x{other.hex()}", uuid=other.hex()))
    return other


async def test_a_job_that_got_the_number_of_a_lost_one_is_not_taken_for_it(
    engine: Engine, server: PostgresServer
):
    holder, neighbour = await a_worker(engine, name="holder"), await a_worker(engine)
    assert await holder.claim(10) == []
    await asyncio.to_thread(server.set, "wal_writer_delay", "10s")
    await engine.submit([a_job()])
    (claim,) = await holder.claim(10)
    await asyncio.to_thread(server.restart, immediate=True)
    assert len(await asked(server, "select from longshore.claim")) == 0
    other = await give_its_number_to_another(server)

    settled = await insist(lambda: holder.succeed(claim))
    (again,) = await insist(lambda: neighbour.claim(10))

    assert [one[0] for one in settled.stale] == [claim.handle]
    assert again.id == other
    assert (await engine.get(again.id)).state is State.RUNNING


async def test_a_session_whose_lost_job_would_settle_another_gives_that_back(
    engine: Engine, server: PostgresServer
):
    holder = await a_worker(engine, name="holder")
    assert await holder.claim(10) == []
    await asyncio.to_thread(server.set, "wal_writer_delay", "10s")
    await engine.submit([a_job()])
    (claim,) = await holder.claim(10)
    await asyncio.to_thread(server.restart, immediate=True)
    other = await give_its_number_to_another(server)
    await insist(holder.session.renew)

    with pytest.raises(LeaseLostError):
        await holder.claim(10)
    with pytest.raises(LeaseLostError):
        await holder.succeed(claim)

    found = await engine.get(other)
    assert (found.state, found.attempt, found.lapses) == (State.READY, 0, 0)


async def restarted_with(server: PostgresServer, worker: ManualWorker) -> None:
    await asyncio.to_thread(server.restart)
    await insist(worker.session.renew)


async def test_an_orderly_restart_takes_nothing_from_a_session(
    engine: Engine, server: PostgresServer
):
    holder, neighbour = await a_worker(engine, name="holder"), await a_worker(engine)
    await engine.submit([a_job(), a_job()])
    (claim,) = await holder.claim(1)
    await restarted_with(server, holder)

    (other,) = await insist(lambda: neighbour.claim(1))
    settled = await holder.succeed(claim)

    assert settled.stale == []
    assert other.id != claim.id


async def test_a_submission_in_a_callers_transaction_goes_on_after_a_restart(
    engine: Engine, server: PostgresServer
):
    """The first call after a restart holds up nobody, however long its transaction lasts."""
    connection = await asyncpg.connect(server.url(DATABASE))
    async with connection.transaction():
        await engine.submit_on(connection, [a_job()])  # pyright: ignore[reportGeneralTypeIssues]
    await connection.close()
    await asyncio.to_thread(server.restart)
    connection = await asyncpg.connect(server.url(DATABASE))

    async with connection.transaction():
        mine = await insist(lambda: engine.submit_on(connection, [a_job()]))  # pyright: ignore[reportArgumentType]
        other = open_engine(server.url(DATABASE))
        async with asyncio.timeout(5):
            theirs = await other.submit([a_job()])
        await other.close()
    await connection.close()

    for (answer,) in (mine, theirs):
        assert (await engine.get(answer.id)).state is State.READY


async def test_a_segment_number_tells_its_minute_and_its_era(server: PostgresServer):
    before = await give_out(server)
    await asyncio.to_thread(server.restart)
    after = await give_out(server)

    (row,) = await asked(
        server,
        "select max(created_at) / 60000000 - 1704067200 / 60 as minute from longshore.segment",
    )
    slots = [{one >> 23 & 7 for one in given.segments} for given in (before, after)]

    assert {one >> 26 for one in before.segments | after.segments} <= {
        row["minute"] - ago for ago in range(2)
    }
    assert [len(one) for one in slots] == [1, 1]
    assert slots[0] != slots[1]


@pytest.mark.parametrize("crashes", [False, True])
async def test_consumers_are_behind_by_what_there_is_and_not_by_what_was_left_out(
    server: PostgresServer, crashes: bool
):
    """A crash takes the sequence on, and so does beginning an era in vain."""
    before = open_engine(server.url(DATABASE))
    cursor = await before.take_cursor("reader", holder="me", lease=SECOND)
    await before.submit([a_job()])
    await before.span()  # what there is has a position now
    await before.close()
    await asyncio.to_thread(server.restart, immediate=crashes)
    connection = await asyncpg.connect(server.url(DATABASE))
    rolled_back = connection.transaction()
    await rolled_back.start()
    await connection.fetchval("select longshore.current_era()")
    await rolled_back.rollback()
    await connection.close()
    after = open_engine(server.url(DATABASE))
    await after.submit([a_job()])
    await after.submit([a_job()])

    (fresh,) = await after.consumers()
    events = await after.events(after=0, limit=10)
    (stamped,) = await after.consumers()
    await after.close()

    assert cursor is not None
    assert fresh.behind == stamped.behind == len(events) == 3


async def test_a_callers_snapshot_from_before_the_era_is_told_to_begin_again(
    engine: Engine, server: PostgresServer
):
    connection = await asyncpg.connect(server.url(DATABASE))
    async with connection.transaction():
        await engine.submit_on(connection, [a_job()])  # pyright: ignore[reportGeneralTypeIssues]
    await connection.close()
    await asyncio.to_thread(server.restart)
    connection = await asyncpg.connect(server.url(DATABASE))
    transaction = connection.transaction(isolation="repeatable_read")
    await transaction.start()
    await connection.fetchval("select 1 from pg_class limit 1")

    with pytest.raises(EngineBusyError, match="begin it again"):
        await insist(lambda: engine.submit_on(connection, [a_job()]))  # pyright: ignore[reportArgumentType]
    await transaction.rollback()
    async with connection.transaction(isolation="repeatable_read"):
        (stored,) = await engine.submit_on(connection, [a_job()])  # pyright: ignore[reportGeneralTypeIssues]
    await connection.close()

    assert (await engine.get(stored.id)).state is State.READY


async def test_no_two_sessions_get_a_token_when_the_clock_was_set_back(server: PostgresServer):
    await asked(server, "select setval('longshore.token_number', longshore.new_number() * 2)")
    connections = [await asyncpg.connect(server.url(DATABASE)) for _ in range(4)]

    async def draw(connection: asyncpg.Connection) -> list[int]:
        return [await connection.fetchval("select longshore.new_token()") for _ in range(200)]

    drawn = await asyncio.gather(*map(draw, connections))
    for connection in connections:
        await connection.close()

    tokens = [token for some in drawn for token in some]
    assert len(set(tokens)) == len(tokens) == 800
