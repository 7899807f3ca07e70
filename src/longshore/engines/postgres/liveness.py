"""A call that gets no answer: whether the server still works on it, or never heard of it.

A connection can be dead without either end being told: a machine between them forgot it, or
the other side went away in silence. A deadline alone would have to be longer than the longest
honest call. So after a few seconds the server is asked, over another connection, what it
thinks of this one.
"""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager, suppress

from longshore.engines.postgres.connection import Connection, Connector
from longshore.engines.postgres.faults import DRIVER_ERRORS
from longshore.engines.postgres.sql import SQL
from longshore.runtime.deadline import Deadline

__all__ = ["doubted"]

_IDLE_SECONDS = 2.0
"""A session that has had nothing to do for so long, and on a slow link for some round trips
more, has not got what was sent to it."""
_IDLE_TRIPS = 4
_ASK_SECONDS = 2.0
"""Beside what setting the asking connection up takes."""


@contextmanager
def doubted(connector: Connector, connection: Connection) -> Generator[None]:
    """Ends the connection within the block, if the server does not work on what was asked.

    What waits for an answer there hears that its connection is gone, and may ask again over
    another one. Behind a pooler nobody knows which session a call has, so nobody asks.
    """
    if connector.is_pooled:
        yield
        return
    loop = asyncio.get_running_loop()
    asking: list[asyncio.Task[None]] = []

    def begin() -> None:
        asking.append(loop.create_task(_ask(connector, connection)))

    alarm = loop.call_later(connector.doubt_seconds, begin)
    try:
        yield
    finally:
        alarm.cancel()
        for task in asking:
            task.cancel()


async def _ask(connector: Connector, connection: Connection) -> None:
    while not connection.is_closed():
        with suppress(*DRIVER_ERRORS):
            if await _is_forgotten(connector, connection):
                connection.terminate()
                return
        # It is at work, or cannot be reached: then the call's own deadline decides.
        await asyncio.sleep(connector.doubt_seconds)


async def _is_forgotten(connector: Connector, connection: Connection) -> bool:
    """Whether the server has no such session, or one that has had nothing to do for a while.

    Raises the driver's errors.
    """
    other = await connector.open(role="doubt")
    try:
        trips = _IDLE_TRIPS * connector.link.round_trip
        async with Deadline(_ASK_SECONDS + trips):
            ((own, is_known),) = await other.fetch(
                SQL.doubted, connection.get_server_pid(), _IDLE_SECONDS + trips
            )
        # A pooler of which nobody told us gives its own numbers to sessions.
        return own == other.get_server_pid() and not is_known
    finally:
        connector.discard(other)
