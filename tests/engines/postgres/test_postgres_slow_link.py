"""PostgreSQL far away: how many round trips things take, and what a slow one must not break."""

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from time import monotonic
from urllib.parse import parse_qs, urlsplit

import pytest
from calls import OURS, until

from longshore.contract import Engine
from longshore.engines import open_engine
from longshore.engines.postgres.connection import Connection
from longshore.engines.postgres.database import Database
from longshore.errors import EngineUnavailableError
from longshore.runtime.deadline import Deadline
from longshore.testing.factories import SECOND, a_job
from longshore_lab.wires import Wire

LEASE = 30 * SECOND
TRIP = 0.4
"""Seconds of a round trip, where time is measured: much against what a busy machine adds."""


@pytest.fixture
async def wire(empty_postgres_url: str) -> AsyncIterator[Wire]:
    place = parse_qs(urlsplit(empty_postgres_url).query)
    async with Wire(Path(place["host"][0]) / f".s.PGSQL.{place['port'][0]}") as wire:
        yield wire


@pytest.fixture
def far_url(wire: Wire, empty_postgres_url: str) -> str:
    name = urlsplit(empty_postgres_url).path
    return f"postgresql://postgres@127.0.0.1:{wire.port}{name}?sslmode=disable"


@pytest.fixture
async def near(empty_postgres_url: str) -> AsyncIterator[Engine]:
    """One that is where the server is, and takes its time from it as the far one does."""
    engine = open_engine(empty_postgres_url)
    yield engine
    await engine.close()


@pytest.fixture
async def far(far_url: str) -> AsyncIterator[Engine]:
    """An engine at the far end of the wire."""
    engine = open_engine(far_url)
    yield engine
    await engine.close()


@pytest.fixture
async def pooled(far_url: str) -> AsyncIterator[Engine]:
    engine = open_engine(f"{far_url}&pgbouncer=on")
    yield engine
    await engine.close()


def counter(wire: Wire) -> Callable[[], dict[str, int]]:
    """The round trips since the last call, by what a connection is for."""
    seen: dict[int, int] = {}

    def count() -> dict[str, int]:
        found: dict[str, int] = {}
        for place, trips in enumerate(wire.trips):
            new = trips.count - seen.get(place, 0)
            if new:
                found[trips.name] = found.get(trips.name, 0) + new
            seen[place] = trips.count
        return found

    return count


async def open_session(engine: Engine):
    return await engine.open_session(
        worker="w", queues=["default"], types=["noop"], lease=LEASE
    )


# Round trips. Connecting takes two here: one for TCP, one for a server that trusts everyone.


async def test_a_first_session_and_its_first_claim_take_few_round_trips(
    far: Engine, wire: Wire, near: Engine
) -> None:
    await near.submit([a_job()])
    session = await open_session(far)
    first = await session.exchange(1, want=1)

    trips = counter(wire)()

    assert len(first.claims) == 1
    # Connect, open, verify; and at the same time connect, prepare, exchange.
    assert trips == {"longshore": 2 + 2 + 2, "longshore lane": 2 + 1 + 1}


async def test_calls_that_are_made_again_and_again_take_one_round_trip_each(
    far: Engine, wire: Wire
) -> None:
    session = await open_session(far)
    await session.exchange(1, want=1)
    await session.renew(number=1, held=[])
    count = counter(wire)
    count()

    await session.exchange(2, want=1)
    await session.renew(number=2, held=[])
    await far.renew(session.token)
    await far.ping()

    assert count() == {"longshore lane": 1, "longshore": 3}


async def test_a_keeper_renews_in_few_round_trips_and_gets_ready_in_few_more(
    far: Engine, wire: Wire, near: Engine
) -> None:
    session = await open_session(near)
    count = counter(wire)

    await far.renew(session.token)
    renewed = count()
    await far.held(0)

    assert renewed == {"longshore": 2 + 2}
    # Begin, four statements to prepare, one to ask, and commit.
    assert count() == {"longshore": 1 + 4 + 1 + 1}


async def test_a_keeper_that_gets_ready_holds_up_no_exchange(
    far: Engine, wire: Wire, near: Engine
) -> None:
    """It reads what it would read of a dead worker, and locks nothing of a living one."""
    session = await open_session(near)
    wire.delay(0.2)
    ready = asyncio.create_task(far.held(0))
    while not ready.done():
        began = monotonic()
        await session.renew()
        assert monotonic() - began < 1.0
        await asyncio.sleep(0.05)

    assert await ready is None


async def test_a_session_that_holds_nothing_ends_in_two_round_trips(
    far: Engine, wire: Wire
) -> None:
    session = await open_session(far)
    await session.exchange(1, want=1)
    count = counter(wire)
    count()

    await session.close()

    assert count() == {"longshore lane": 2}
    assert (await far.sessions()).sessions == []


async def test_a_first_submit_takes_few_round_trips(far: Engine, wire: Wire) -> None:
    await far.submit([a_job()])

    trips = counter(wire)()

    assert trips == {"longshore lane": 2 + 2} or trips == {
        "longshore lane": 2 + 2,
        "longshore": 2 + 2,
    }


async def test_behind_a_pooler_calls_take_a_transaction_and_no_more(
    pooled: Engine, wire: Wire
) -> None:
    session = await open_session(pooled)
    await session.exchange(1, want=1)
    count = counter(wire)

    # Begin, prepare, execute, commit.
    assert count() == {"longshore": 2 + 4 + 4, "longshore lane": 2 + 4}
    await session.exchange(2, want=1)
    await session.renew(number=2, held=[])
    assert count() == {"longshore lane": 4, "longshore": 4}


# Deadlines


@pytest.mark.parametrize(("options", "trips"), [("", 1), ("&pgbouncer=on", 3)])
async def test_a_first_call_is_not_cut_off_while_its_connection_is_set_up(
    far_url: str, wire: Wire, options: str, trips: int
) -> None:
    """Each try would else begin where the last one did."""
    wire.delay(TRIP / 2)
    far = open_engine(far_url + options)

    # To connect takes two more, and to prepare one.
    async with Deadline((trips + 1.5) * TRIP):
        await far.ping()
    await far.close()


async def test_a_session_is_opened_and_used_however_slow_its_link_is(
    far: Engine, wire: Wire, near: Engine
) -> None:
    await near.submit([a_job()])
    wire.delay(TRIP / 2)

    async with Deadline(3.5 * TRIP):
        session = await open_session(far)
    async with Deadline(2 * TRIP):
        answer = await session.exchange(1, want=1)

    assert len(answer.claims) == 1


async def test_a_session_whose_connections_were_lost_goes_on_over_a_slow_link(
    far: Engine, wire: Wire, near: Engine
) -> None:
    """It connects, prepares and reads what it holds, in more time than one call has."""
    await near.submit([a_job()])
    session = await open_session(far)
    (claim,) = (await session.exchange(1, want=1)).claims
    wire.delay(TRIP / 2)
    wire.reset()

    tries = 0
    while True:
        tries += 1
        try:
            async with Deadline(2 * TRIP):
                await session.exchange(2, started=[(claim.handle, claim.delivery)])
            break
        except (EngineUnavailableError, TimeoutError):
            assert tries < 3


async def test_a_call_does_not_count_the_wait_for_a_connection_that_is_opened_ahead(
    far_url: str, wire: Wire
) -> None:
    wire.delay(TRIP / 2)
    database = Database(far_url)
    lane = database.lane()
    lane.open_ahead("select 1")

    async with Deadline(2 * TRIP):
        await lane.fetch("select 1")
    await lane.close()
    await database.close()


async def test_a_connection_that_is_opened_ahead_and_not_wanted_any_more_is_closed(
    database: Database, observer: Connection
) -> None:
    before = await observer.fetchval(OURS)
    for turns in range(12):
        lane = database.lane()
        lane.open_ahead("select 1")
        for _ in range(turns):
            await asyncio.sleep(0.002)
        lane.drop()

    await until(observer, f"select ({OURS}) <= $1", before)


async def test_a_server_that_takes_long_to_let_us_in_gets_more_time_at_each_try(
    far_url: str, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("longshore.engines.postgres.connection.CONNECT_SECONDS", 0.1)
    wire.delay(0.1)
    database = Database(far_url)

    tries = 0
    while True:
        tries += 1
        try:
            await database.fetch("select 1")
            break
        except EngineUnavailableError:
            assert tries < 5
    assert tries > 1
    await database.close()


# What is said of it


async def test_a_slow_link_is_told_of_once(
    far: Engine, wire: Wire, caplog: pytest.LogCaptureFixture
) -> None:
    wire.delay(0.2)
    with caplog.at_level(logging.WARNING, "longshore.link"):
        session = await open_session(far)
        await session.exchange(1, want=1)
        await asyncio.gather(far.ping(), far.ping())

    (line,) = [one.getMessage() for one in caplog.records if one.name == "longshore.link"]
    assert "127.0.0.1" in line
    assert re.search(r"[23] round trips of about \d+ ms", line)


async def test_a_link_that_is_not_slow_is_not_told_of(
    far: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "longshore.link"):
        await far.ping()

    assert [one for one in caplog.records if one.name == "longshore.link"] == []


# The check of silent calls


async def test_a_call_over_a_slow_link_is_not_taken_for_a_dead_one(
    far_url: str, wire: Wire, observer: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two statements the server has nothing to do for a whole round trip."""
    monkeypatch.setattr("longshore.engines.postgres.liveness._IDLE_SECONDS", 0.1)
    monkeypatch.setattr("longshore.engines.postgres.liveness._ASK_SECONDS", 0.1)
    database = Database(far_url)
    database.connector.doubt_seconds = 0.1
    wire.delay(0.3)

    async def body(connection: Connection) -> int:
        for _ in range(8):
            await connection.execute("select 1")
        return await connection.fetchval("select 42")

    assert await database.transact(body) == 42
    # It was asked about.
    assert "longshore doubt" in {one.name for one in wire.trips}
    await database.close()
    await until(observer, f"select not exists ({OURS} having count(*) > 0)")


async def test_a_dead_connection_is_found_over_a_slow_link_too(
    far_url: str, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server has time to answer what became of it, however far away it is."""
    monkeypatch.setattr("longshore.engines.postgres.liveness._ASK_SECONDS", 0.1)
    database = Database(far_url)
    database.connector.doubt_seconds = 0.1
    wire.delay(0.2)
    await database.fetch("select 1")
    wire.leave_half_open()

    async with asyncio.timeout(20):
        with pytest.raises(EngineUnavailableError, match="gone"):
            await database.fetch("select 1")
    await database.close()
