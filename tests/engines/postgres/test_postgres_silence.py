"""Connections that died in silence: nobody told this end, and no answer will ever come."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from calls import Fetch

from longshore.engines.postgres.connection import Connection
from longshore.engines.postgres.database import Database
from longshore.engines.postgres.notify import Waker
from longshore.errors import EngineUnavailableError
from longshore_lab.wires import Wire

LONG = 30.0


@pytest.fixture
async def wire(postgres_url: str) -> AsyncIterator[Wire]:
    place = parse_qs(urlsplit(postgres_url).query)
    async with Wire(Path(place["host"][0]) / f".s.PGSQL.{place['port'][0]}") as wire:
        yield wire


@pytest.fixture
async def database(wire: Wire) -> AsyncIterator[Database]:
    url = f"postgresql://postgres@127.0.0.1:{wire.port}/longshore?sslmode=disable"
    database = Database(url, size=2)
    database.connector.doubt_seconds = 0.2
    yield database
    await database.close()


@pytest.fixture(params=["pool", "lane"])
async def fetch(request: pytest.FixtureRequest, database: Database) -> AsyncIterator[Fetch]:
    lane = database.lane()
    yield database.fetch if request.param == "pool" else lane.fetch
    await lane.close()


async def test_a_call_over_a_connection_that_the_server_has_left_ends_soon(
    fetch: Fetch, wire: Wire
) -> None:
    await fetch("select 1")
    wire.leave_half_open()

    async with asyncio.timeout(5):
        with pytest.raises(EngineUnavailableError, match="gone"):
            await fetch("select 1")
        assert await fetch("select 1")


async def test_a_transaction_whose_server_has_left_it_ends_soon(
    database: Database, wire: Wire
) -> None:
    async def body(connection: Connection) -> None:
        wire.leave_half_open()
        await connection.execute("select 1")

    async with asyncio.timeout(5):
        with pytest.raises(EngineUnavailableError, match="gone"):
            await database.transact(body)


async def test_a_call_on_which_the_server_works_is_left_alone(fetch: Fetch) -> None:
    ((answer,),) = await fetch("select 'done' from pg_sleep(1.5)")

    assert answer == "done"


async def test_no_doubt_is_left_behind_by_a_call_that_was_answered(
    database: Database, observer: Connection
) -> None:
    await database.fetch("select pg_sleep(0.5)")

    async with asyncio.timeout(5):
        while await observer.fetchval(
            "select count(*) from pg_stat_activity where application_name = 'longshore doubt'"
        ):
            await asyncio.sleep(0.01)


async def test_a_listener_that_the_server_has_left_is_replaced(
    wire: Wire, database: Database, observer: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("longshore.engines.postgres.notify.PULSE_SECONDS", 0.1)
    waker: Waker = database.waker
    await _listening(waker)

    wire.leave_half_open()

    waiting = asyncio.create_task(waker.wait(LONG))
    async with asyncio.timeout(10):
        await waiting  # woken at the loss
        await _listening(waker)
        again = asyncio.create_task(waker.wait(LONG))
        await asyncio.sleep(0)
        await observer.execute("select pg_notify('longshore', '')")
        await again


async def _listening(waker: Waker) -> None:
    async with asyncio.timeout(10):
        while not waker.is_listening:
            await waker.wait(0.1)
