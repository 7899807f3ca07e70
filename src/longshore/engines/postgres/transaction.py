"""Statements and transactions on one connection. They raise the driver's errors."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from longshore.engines.postgres.connection import Connection, Connector, Record
from longshore.engines.postgres.faults import DRIVER_ERRORS, NO_ERA, sqlstate
from longshore.errors import EngineError

__all__ = ["fetch_on", "transact_on"]

T = TypeVar("T")

_BEGIN_ERA = "select longshore.current_era()"
_BEGIN = "begin isolation level read committed"
# Behind a pooler a session's settings are not ours, so each transaction brings its own.
_BEGIN_POOLED = (
    "begin isolation level read committed;"
    " set local statement_timeout = '30s'; set local jit = off;"
    " set local idle_in_transaction_session_timeout = '10s'"
)


async def fetch_on(
    connector: Connector, connection: Connection, statement: str, *args: object
) -> list[Record]:
    """The rows of one statement, which is a transaction of its own."""
    if not connector.is_pooled:
        try:
            return await connection.fetch(statement, *args)
        except DRIVER_ERRORS as error:
            if sqlstate(error) != NO_ERA:
                raise
        await connection.execute(_BEGIN_ERA)
        return await connection.fetch(statement, *args)
    # Deadlines on the server's side have to travel with the statement.
    return await transact_on(connector, connection, lambda one: one.fetch(statement, *args))


async def transact_on(
    connector: Connector,
    connection: Connection,
    body: Callable[[Connection], Awaitable[T]],
    *,
    begin: str | None = None,
) -> T:
    """What `body` returns, once its transaction is committed.

    The first call after a start of the server is made twice: an era begins in a transaction of
    its own, so that nobody waits for the end of this one.
    """
    try:
        return await _transact_once(connector, connection, body, begin)
    except DRIVER_ERRORS as error:
        if sqlstate(error) != NO_ERA:
            raise
    await connection.execute(_BEGIN_ERA)
    return await _transact_once(connector, connection, body, begin)


async def _transact_once(
    connector: Connector,
    connection: Connection,
    body: Callable[[Connection], Awaitable[T]],
    begin: str | None,
) -> T:
    await connection.execute(begin or (_BEGIN_POOLED if connector.is_pooled else _BEGIN))
    try:
        value = await body(connection)
    except Exception:
        # Not after a cancellation: a server that does not answer must not hold up its caller.
        await _roll_back(connection)
        raise
    # A body that swallowed an error of the server gets here, and the server says ROLLBACK.
    if await connection.execute("commit") != "COMMIT":
        raise EngineError(f"{connector.place}: the transaction was rolled back")
    return value


async def _roll_back(connection: Connection) -> None:
    try:
        if not connection.is_closed():
            await connection.execute("rollback")
    except DRIVER_ERRORS:
        # What the caller shall hear of is the error that led here.
        connection.terminate()
