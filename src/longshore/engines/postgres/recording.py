"""Records of what somebody ordered, each in the commit that carries it out."""

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from longshore.core import audit_record
from longshore.core.audit_record import AuditRecord
from longshore.engines.postgres.database import Connection, Database, Record
from longshore.engines.postgres.sql import SQL
from longshore.runtime.acting import actor

__all__ = ["Calls", "recording"]

T = TypeVar("T")


class Calls(Protocol):
    """What an order asks of a database."""

    def now(self) -> int | None:
        """What statements take as the time."""
        ...

    async def fetch(self, statement: str, *args: object) -> list[Record]:
        """The rows of one statement, which is a transaction of its own."""
        ...

    async def transact(self, body: Callable[[Connection], Awaitable[T]]) -> T:
        """What the body returns, in one transaction."""
        ...


def recording(database: Database, method: str, **arguments: object) -> Calls:
    """The database for one order, whose one call leaves a record; none of what it refuses.

    A statement refuses by returning nothing, or false; a body by returning false.
    """
    return _Recording(database, audit_record.of(method, arguments, actor=actor()))


class _Recording:
    def __init__(self, database: Database, done: AuditRecord | None) -> None:
        self._database = database
        self._done = done

    def now(self) -> int | None:
        return self._database.now()

    async def fetch(self, statement: str, *args: object) -> list[Record]:
        async def body(connection: Connection) -> list[Record]:
            rows = await connection.fetch(statement, *args)
            if rows and rows[0][0] is not False:
                await self._record(connection)
            return rows

        return await self._database.transact(body)

    async def transact(self, body: Callable[[Connection], Awaitable[T]]) -> T:
        async def both(connection: Connection) -> T:
            result = await body(connection)
            is_refused = result is False
            if not is_refused:
                await self._record(connection)
            return result

        return await self._database.transact(both)

    async def _record(self, connection: Connection) -> None:
        done = self._done
        if done is not None:
            facts = (done.action, done.subject, done.tenant, done.facts, done.actor)
            await connection.execute(SQL.deed_add, self._database.now(), *facts)
