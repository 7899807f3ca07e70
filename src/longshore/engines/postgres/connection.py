"""Opening and leaving connections: how each is set up, and how often a lost server is asked."""

import asyncio
import random
from contextlib import suppress
from typing import TypeAlias

import asyncpg

from longshore.engines.postgres.address import without_password
from longshore.engines.postgres.driver import LinkedConnection
from longshore.engines.postgres.faults import DRIVER_ERRORS, is_loss
from longshore.errors import ConfigError
from longshore.runtime.deadline import uncounted
from longshore.runtime.link import Link

__all__ = ["CALL_SECONDS", "Connection", "Connector", "Record"]

Record: TypeAlias = asyncpg.Record
Connection: TypeAlias = LinkedConnection

CALL_SECONDS = 30.0
"""No call takes longer; the server gives up on a statement at the same time."""
CONNECT_SECONDS = 5.0
"""How long a try to connect lasts at first. Each that ends so gives the next twice the time: a
server that is gone is asked again soon, and one behind a slow link is reached in the end."""
_LONGEST_CONNECT = 60.0
DOUBT_SECONDS = 3.0
"""No answer for so long, and the server is asked what became of the call; on a slow link some
round trips more."""
_DOUBT_TRIPS = 4
_CLOSE_SECONDS = 2.0
_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 1.0

_SETTINGS = {
    "default_transaction_isolation": "read committed",
    "idle_in_transaction_session_timeout": "10s",
    "jit": "off",
    "statement_timeout": "30s",
}
"""For a whole connection, which a pooler between us and the server does not allow."""


class Connector:
    """Opens connections to one database, and closes those that nobody shall use again."""

    def __init__(
        self, dsn: str, *, is_pooled: bool = False, rng: random.Random | None = None
    ) -> None:
        self.place = without_password(dsn).partition("?")[0]
        """The database, as messages name it."""
        self.is_pooled = is_pooled
        """Each transaction may meet another session of the server, as behind PgBouncer."""
        self.link = Link(self.place)
        self._doubt_seconds = DOUBT_SECONDS
        self._dsn = dsn
        self._connect_seconds = CONNECT_SECONDS
        self._rng = rng or random.Random()
        self._failures = 0
        self._not_before = 0.0
        self._leaving: set[asyncio.Task[None]] = set()

    @property
    def doubt_seconds(self) -> float:
        """How long a call may be without an answer before the server is asked about it."""
        return self._doubt_seconds + _DOUBT_TRIPS * self.link.round_trip

    @doubt_seconds.setter
    def doubt_seconds(self, seconds: float) -> None:
        self._doubt_seconds = seconds

    async def open(self, *, role: str = "", is_plain: bool = False) -> Connection:
        """A new connection. Raises the driver's errors.

        A plain one reads ids as the driver likes it, for whoever uses it besides us.
        While the server is away each try waits for its turn, at most a second: a thousand
        processes do not knock at the same moment. No deadline of a caller counts the time that
        connecting takes; it has a limit of its own.
        """
        with uncounted():
            await self._wait_for_turn()
            try:
                async with asyncio.timeout(self._connect_seconds):
                    connection = await self._connect(f"longshore {role}".strip())
                    if not is_plain:
                        await _set_codecs(connection)
            except ValueError as error:
                # The driver reads its part of the URL only now.
                raise ConfigError(f"{self.place}: {error}") from error
            except DRIVER_ERRORS as error:
                if isinstance(error, TimeoutError):
                    longer = min(self._connect_seconds * 2, _LONGEST_CONNECT)
                    self._connect_seconds = longer
                self._failures = min(self._failures + 1, 10)
                self._pause(min(_LONGEST_PAUSE, _FIRST_PAUSE * 2**self._failures))
                raise
        self._failures = 0
        return connection

    def is_sound(self, connection: Connection, error: BaseException | None) -> bool:
        """Whether a connection can be used again after a call that ended in `error` or well."""
        if connection.is_closed() or connection.is_in_transaction():
            return False
        # A cancelled or late call may still be running over there.
        return error is None or (
            isinstance(error, Exception)
            and not isinstance(error, TimeoutError)
            and not is_loss(error)
        )

    def discard(self, connection: Connection, error: BaseException | None = None) -> None:
        """Close a connection, without waiting for it. A loss makes the next one come later."""
        if error is not None and is_loss(error):
            # Others probably lost theirs too, and in other processes as well.
            self._pause(_FIRST_PAUSE)
        if not connection.is_closed():
            task = asyncio.create_task(_close(connection))
            self._leaving.add(task)
            task.add_done_callback(self._leaving.discard)

    async def close(self) -> None:
        """Wait until all that was discarded here is closed, which takes a moment at most."""
        loop = asyncio.get_running_loop()
        leaving = [task for task in self._leaving if task.get_loop() is loop]
        if leaving:
            await asyncio.wait(leaving)
        # The loop closes their sockets in its next turn, which might be one too late.
        await asyncio.sleep(0)

    def jitter(self, seconds: float) -> float:
        """Between half of `seconds` and all of it."""
        return seconds * self._rng.uniform(0.5, 1.0)

    async def _connect(self, name: str) -> Connection:
        settings = {"application_name": name}
        began = asyncio.get_running_loop().time()
        connection = await asyncpg.connect(
            self._dsn,
            timeout=_LONGEST_CONNECT,
            connection_class=LinkedConnection,
            statement_cache_size=0 if self.is_pooled else 200,
            max_cached_statement_lifetime=0,
            server_settings=settings if self.is_pooled else {**settings, **_SETTINGS},
        )
        took = asyncio.get_running_loop().time() - began
        connection.link, connection.connect_seconds = self.link, took
        # A slow link is known from now on; a fast one gets the short limit back.
        self._connect_seconds = min(max(CONNECT_SECONDS, 4 * took), _LONGEST_CONNECT)
        return connection

    def _pause(self, seconds: float) -> None:
        soonest = asyncio.get_running_loop().time() + self.jitter(seconds)
        self._not_before = max(self._not_before, soonest)

    async def _wait_for_turn(self) -> None:
        delay = self._not_before - asyncio.get_running_loop().time()
        if delay > 0:
            await asyncio.sleep(delay)


async def _set_codecs(connection: Connection) -> None:
    # Job ids are sixteen bytes here as everywhere else. Asks nothing of the server.
    await connection.set_type_codec(
        "uuid", schema="pg_catalog", format="binary", encoder=bytes, decoder=bytes
    )


async def _close(connection: Connection) -> None:
    # Closing in good order also ends the statement that a cancelled caller left behind.
    with suppress(*DRIVER_ERRORS):
        await connection.close(timeout=_CLOSE_SECONDS)
