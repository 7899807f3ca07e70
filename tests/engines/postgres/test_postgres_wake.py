"""Wake-ups through PostgreSQL: one listener for all who wait, and a poll where it is deaf."""

import asyncio
import time
from collections.abc import AsyncIterator

import pytest

from longshore.engines.postgres.connection import Connection
from longshore.engines.postgres.database import Database
from longshore.engines.postgres.notify import POLL_SECONDS, Waker

LISTENERS = (
    "select count(*) from pg_stat_activity where application_name = 'longshore listener'"
)
LONG = 30.0


@pytest.fixture
async def waker(postgres_url: str) -> AsyncIterator[Waker]:
    database = Database(postgres_url)
    yield database.waker
    await database.close()


async def _listening(waker: Waker) -> None:
    async with asyncio.timeout(10):
        while not waker.is_listening:
            await waker.wait(LONG)


async def _ends(waiting: "asyncio.Task[None]", seconds: float = 10) -> bool:
    done, _ = await asyncio.wait([waiting], timeout=seconds)
    return bool(done)


async def test_a_notification_ends_every_wait(waker: Waker, other: Connection) -> None:
    await _listening(waker)
    waiting = [asyncio.create_task(waker.wait(LONG)) for _ in range(5)]
    await asyncio.sleep(0)  # let them begin

    await other.execute("select pg_notify('longshore', '')")

    assert all([await _ends(one) for one in waiting])
    assert await other.fetchval(LISTENERS) == 1


async def test_a_cancel_ends_the_wait_of_the_holder_alone(
    waker: Waker, other: Connection
) -> None:
    await _listening(waker)
    holder, stranger = (
        asyncio.create_task(waker.wait_for_cancel(LONG, token)) for token in (7, 77)
    )
    worker = asyncio.create_task(waker.wait(LONG))
    await asyncio.sleep(0)  # let them begin

    await other.execute("select pg_notify('longshore', '7')")

    assert await _ends(holder)
    assert not await _ends(stranger, 0.05)
    assert not worker.done()
    await other.execute("select pg_notify('longshore', '')")
    assert await _ends(worker)
    assert not stranger.done()
    stranger.cancel()


async def test_a_wait_ends_after_its_time(waker: Waker) -> None:
    await _listening(waker)
    start = time.monotonic()

    await waker.wait(0.05)

    assert 0.04 <= time.monotonic() - start < 5


async def test_who_listens_waits_for_longer_than_a_poll(waker: Waker) -> None:
    await _listening(waker)
    waiting = asyncio.create_task(waker.wait(LONG))

    assert not await _ends(waiting, POLL_SECONDS * 1.5)
    waiting.cancel()


async def test_a_notification_of_something_else_wakes_nobody(
    waker: Waker, other: Connection
) -> None:
    await _listening(waker)
    waiting = asyncio.create_task(waker.wait(LONG))
    await asyncio.sleep(0)

    await other.execute("select pg_notify('shortshore', '')")
    await other.execute("select 1")

    assert not await _ends(waiting, 0.1)
    waiting.cancel()


async def test_a_wake_up_here_takes_no_detour(postgres_url: str) -> None:
    waker = Waker(Database("postgresql://u@203.0.113.1/d").connector, listens=False)
    waiting = asyncio.create_task(waker.wait(0.2))
    await asyncio.sleep(0)
    start = time.monotonic()

    waker.wake()
    await waiting

    assert time.monotonic() - start < 0.1


async def test_who_does_not_listen_polls_and_needs_no_connection(other: Connection) -> None:
    waker = Waker(Database("postgresql://u@203.0.113.1/d").connector, listens=False)
    start = time.monotonic()

    await waker.wait(LONG)

    assert time.monotonic() - start < 5
    assert await other.fetchval(LISTENERS) == 0


async def test_a_server_that_is_away_fails_no_wait() -> None:
    database = Database("postgresql://u@127.0.0.1:1/d")
    start = time.monotonic()

    for _ in range(3):
        await database.waker.wait(LONG)

    assert not database.waker.is_listening
    assert time.monotonic() - start < 5
    await database.close()


async def test_a_lost_listener_wakes_who_waits_and_is_replaced(
    waker: Waker, other: Connection
) -> None:
    await _listening(waker)
    waiting = asyncio.create_task(waker.wait(LONG))
    await asyncio.sleep(0)

    await other.execute(
        "select pg_terminate_backend(pid) from pg_stat_activity"
        " where application_name = 'longshore listener'"
    )

    assert await _ends(waiting)
    await _listening(waker)
    again = asyncio.create_task(waker.wait(LONG))
    await asyncio.sleep(0)
    await other.execute("select pg_notify('longshore', '')")
    assert await _ends(again)


async def test_who_waits_is_woken_when_it_begins_to_listen(
    waker: Waker, other: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was notified before that moment would otherwise be found too late."""
    monkeypatch.setattr("longshore.engines.postgres.notify.POLL_SECONDS", LONG)

    waiting = asyncio.create_task(waker.wait(LONG))

    assert await _ends(waiting)
    assert waker.is_listening


async def test_closing_ends_the_listener_also_while_it_is_being_opened(
    postgres_url: str, other: Connection
) -> None:
    for turns in range(6):
        database = Database(postgres_url)
        waiting = asyncio.create_task(database.waker.wait(LONG))
        for _ in range(turns):
            await asyncio.sleep(0.001)
        await database.close()
        await database.close()
        waiting.cancel()

    async with asyncio.timeout(10):
        while await other.fetchval(LISTENERS):
            await asyncio.sleep(0.005)


async def test_a_cancelled_wait_leaves_the_others_waiting(
    waker: Waker, other: Connection
) -> None:
    await _listening(waker)
    leaving, staying = (asyncio.create_task(waker.wait(LONG)) for _ in range(2))
    await asyncio.sleep(0)

    leaving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leaving
    await other.execute("select pg_notify('longshore', '')")

    assert await _ends(staying)
