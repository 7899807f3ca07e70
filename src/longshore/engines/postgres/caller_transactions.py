"""Submit inside the transaction of a caller's own connection, whatever driver it is of.

psycopg and SQLAlchemy are no dependencies: who passes such a connection has loaded them.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, cast

import asyncpg

from longshore.core.job import NewJob, Submitted
from longshore.engines.postgres.caller_drivers import (
    Call,
    Dialogue,
    OtherStoreError,
    submission,
)
from longshore.engines.postgres.connection import CALL_SECONDS
from longshore.engines.postgres.database import Connection, Database
from longshore.engines.postgres.faults import DRIVER_ERRORS, of_state, translate
from longshore.engines.postgres.sql import SQL
from longshore.errors import (
    ConfigError,
    EngineBusyError,
    EngineUnavailableError,
    LongshoreError,
)
from longshore.runtime.backpressure import Depths

__all__ = ["Callers"]

_KNOWN_ID = "23505"
_IDLE = 0
"""psycopg's TransactionStatus.IDLE."""
_NO_TRANSACTION = (
    "the connection has no transaction open, so the job could exist without your data; "
    "begin one first"
)


class Callers:
    """Puts jobs into the transactions of others."""

    def __init__(self, database: Database, depths: Depths) -> None:
        self._database = database
        self._depths = depths
        self._place = database.connector.place
        self._store: str | None = None

    def submit(
        self, connection: Any, jobs: Sequence[NewJob]
    ) -> list[Submitted] | Awaitable[list[Submitted]]:
        """Submit on the connection; what is returned must be awaited if its driver does."""
        if isinstance(connection, asyncpg.Connection):
            return self._on_asyncpg(cast("Connection", connection), jobs)
        if _is(connection, "psycopg", "Connection"):
            return self._on_psycopg(connection, jobs)
        if _is(connection, "psycopg", "AsyncConnection"):
            return self._on_async_psycopg(connection, jobs)
        if _is(connection, "sqlalchemy", "Connection"):
            return self._on_sqlalchemy(connection, jobs)
        if _is(connection, "sqlalchemy.orm", "Session", "scoped_session"):
            with self._faults():
                connection = connection.connection()
            return self._on_sqlalchemy(connection, jobs)
        if _is(
            connection,
            "sqlalchemy.ext.asyncio",
            "AsyncConnection",
            "AsyncSession",
            "async_scoped_session",
        ):
            return self._on_async_sqlalchemy(connection, jobs)
        kind = f"{type(connection).__module__}.{type(connection).__qualname__}"
        raise ConfigError(
            f"{kind} is no connection that jobs can be submitted on; on PostgreSQL that is a "
            "connection of asyncpg or psycopg, or a connection or session of SQLAlchemy"
        )

    async def _on_asyncpg(
        self, connection: Connection, jobs: Sequence[NewJob]
    ) -> list[Submitted]:
        if not connection.is_in_transaction():
            raise ConfigError(_NO_TRANSACTION)

        async def ask(call: Call) -> str | None:
            return await connection.fetchval(f"select longshore.{call.name}($1)", call.text)

        return await self._converse(jobs, ask)

    async def _on_async_psycopg(self, connection: Any, jobs: Sequence[NewJob]) -> Any:
        _check_psycopg(connection)
        psycopg: Any = sys.modules["psycopg"]

        async def ask(call: Call) -> str | None:
            # A cursor of our own: the caller's may have other placeholders and rows.
            async with psycopg.AsyncCursor(connection) as cursor:
                cursor.row_factory = psycopg.rows.tuple_row
                await cursor.execute(f"select longshore.{call.name}(%s::text)", (call.text,))
                return (await cursor.fetchone())[0]

        return await self._converse(jobs, ask)

    async def _on_async_sqlalchemy(self, connection: Any, jobs: Sequence[NewJob]) -> Any:
        if not _is(connection, "sqlalchemy.ext.asyncio", "AsyncConnection"):
            with self._faults():
                connection = await connection.connection()
        if self._store is None:
            await self._learn()
        return await connection.run_sync(self._on_sqlalchemy, jobs)

    def _on_psycopg(self, connection: Any, jobs: Sequence[NewJob]) -> list[Submitted]:
        _check_psycopg(connection)
        psycopg: Any = sys.modules["psycopg"]

        def ask(call: Call) -> str | None:
            with psycopg.Cursor(connection) as cursor:
                cursor.row_factory = psycopg.rows.tuple_row
                cursor.execute(f"select longshore.{call.name}(%s::text)", (call.text,))
                return cursor.fetchone()[0]

        return self._converse_here(jobs, ask)

    def _on_sqlalchemy(self, connection: Any, jobs: Sequence[NewJob]) -> list[Submitted]:
        sqlalchemy: Any = sys.modules["sqlalchemy"]
        if connection.dialect.name != "postgresql":
            raise ConfigError(f"the connection leads to {connection.dialect.name}")
        with self._faults():
            if getattr(connection.connection.dbapi_connection, "autocommit", False):
                raise ConfigError(_NO_TRANSACTION)

        def ask(call: Call) -> str | None:
            statement = f"select longshore.{call.name}(cast(:call as text))"
            asked = connection.execute(sqlalchemy.text(statement), {"call": call.text})
            return asked.scalar_one()

        return self._converse_here(jobs, ask)

    async def _converse(
        self, jobs: Sequence[NewJob], ask: Callable[[Call], Awaitable[str | None]]
    ) -> list[Submitted]:
        with self._faults():
            known = self._store
            try:
                return await self._talk(known or await self._learn(), jobs, ask)
            except OtherStoreError:
                # The server has restarted, or a standby took over: it is the same store anew.
                if known is None or await self._learn() == known:
                    raise
                with _older_snapshot():
                    return await self._talk(self._store or "", jobs, ask)

    def _converse_here(
        self, jobs: Sequence[NewJob], ask: Callable[[Call], str | None]
    ) -> list[Submitted]:
        with self._faults():
            known = self._store
            try:
                return self._talk_here(known or self._learn_here(), jobs, ask)
            except OtherStoreError:
                if known is None or self._learn_here() == known:
                    raise
                with _older_snapshot():
                    return self._talk_here(self._store or "", jobs, ask)

    async def _talk(
        self, store: str, jobs: Sequence[NewJob], ask: Callable[[Call], Awaitable[str | None]]
    ) -> list[Submitted]:
        talk = self._submission(store, jobs)
        try:
            call = next(talk)
            while True:
                call = talk.send(await ask(call))
        except StopIteration as end:
            return end.value

    def _talk_here(
        self, store: str, jobs: Sequence[NewJob], ask: Callable[[Call], str | None]
    ) -> list[Submitted]:
        talk = self._submission(store, jobs)
        try:
            call = next(talk)
            while True:
                call = talk.send(ask(call))
        except StopIteration as end:
            return end.value

    def _submission(self, store: str, jobs: Sequence[NewJob]) -> Dialogue:
        return submission(store, self._database.now(), jobs, self._depths)

    async def _learn(self) -> str:
        self._store = (await self._database.fetch(SQL.store))[0][0]
        return self._store or ""

    def _learn_here(self) -> str:
        """The same for callers that do not await, on whose thread a loop may be running."""
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(asyncio.run, self._learn_alone()).result(2 * CALL_SECONDS)

    async def _learn_alone(self) -> str:
        # The pool belongs to another loop.
        lane = self._database.lane()
        try:
            self._store = (await lane.fetch(SQL.store))[0][0]
        finally:
            await lane.close()
        return self._store or ""

    @contextmanager
    def _faults(self) -> Generator[None]:
        """Only LongshoreErrors leave this block, whichever driver is at work."""
        try:
            yield
        except ConfigError:
            # If what is known of the store is out of date, the next call finds out.
            self._store = None
            raise
        except (*DRIVER_ERRORS, OverflowError, UnicodeError, *_foreign_errors()) as error:
            raise self._meaning(error) from error

    def _meaning(self, error: Exception) -> LongshoreError:
        cause: Any = getattr(error, "orig", None) or error
        state = getattr(cause, "sqlstate", None) or getattr(cause, "pgcode", None)
        if state == _KNOWN_ID:
            return EngineBusyError("someone else submits the same job right now; try again")
        if state is not None:
            return of_state(state, cause, self._place)
        if isinstance(error, _foreign_errors()):
            return EngineUnavailableError(f"the connection cannot be used: {cause}")
        return translate(error, self._place)


@contextmanager
def _older_snapshot() -> Generator[None]:
    """A transaction that sees the store as it was before the server started cannot go on."""
    try:
        yield
    except OtherStoreError as error:
        raise EngineBusyError(
            "the server has just started; roll the transaction back and begin it again"
        ) from error


def _check_psycopg(connection: Any) -> None:
    if connection.autocommit and connection.info.transaction_status == _IDLE:
        raise ConfigError(_NO_TRANSACTION)


def _foreign_errors() -> tuple[type[Exception], ...]:
    return _classes("psycopg", "Error") + _classes("sqlalchemy.exc", "SQLAlchemyError")


def _is(thing: object, module_name: str, *names: str) -> bool:
    return isinstance(thing, _classes(module_name, *names))


def _classes(module_name: str, *names: str) -> tuple[type[Any], ...]:
    """Classes of a module; none if nobody has loaded it."""
    module = sys.modules.get(module_name)
    return tuple(getattr(module, name) for name in names if hasattr(module, name))
