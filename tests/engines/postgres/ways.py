"""Every driver that people submit through: a connection in a transaction, and its use."""

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import asyncpg
import psycopg
import sqlalchemy
from sqlalchemy.ext.asyncio import (
    AsyncSession,
    async_scoped_session,
    async_sessionmaker,
    create_async_engine,
)
from sqlalchemy.orm import Session, scoped_session, sessionmaker
from sqlalchemy.pool import NullPool

from longshore.core.job import NewJob, Submitted
from longshore.engines.postgres.engine import PostgresEngine

__all__ = ["WAYS", "Way", "alchemical", "awaited", "by_asyncpg", "sync_engine"]


class Way:
    """A connection of one driver in a transaction, and how it is used."""

    def __init__(self, connection: Any, execute: Any, commit: Any, rollback: Any) -> None:
        self.connection = connection
        self._execute, self._commit, self._rollback = execute, commit, rollback

    async def execute(self, statement: str) -> None:
        await awaited(self._execute(statement))

    async def submit(self, engine: PostgresEngine, jobs: list[NewJob]) -> list[Submitted]:
        return await awaited(engine.submit_on(self.connection, jobs))

    async def commit(self) -> None:
        await awaited(self._commit())

    async def rollback(self) -> None:
        await awaited(self._rollback())


async def awaited(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


@asynccontextmanager
async def by_asyncpg(url: str) -> AsyncIterator[Way]:
    connection = await asyncpg.connect(url)
    transaction = connection.transaction()
    await transaction.start()
    try:
        yield Way(connection, connection.execute, transaction.commit, transaction.rollback)
    finally:
        await connection.close()


@asynccontextmanager
async def by_asyncpg_pool(url: str) -> AsyncIterator[Way]:
    async with asyncpg.create_pool(url, min_size=1) as pool, pool.acquire() as connection:
        transaction = connection.transaction()
        await transaction.start()
        yield Way(connection, connection.execute, transaction.commit, transaction.rollback)


@asynccontextmanager
async def by_psycopg(url: str) -> AsyncIterator[Way]:
    with psycopg.connect(url) as one:
        yield Way(one, one.execute, one.commit, one.rollback)


@asynccontextmanager
async def by_psycopg_begin(url: str) -> AsyncIterator[Way]:
    """On autocommit, but in a transaction that the caller began; with rows of another kind."""
    with psycopg.connect(
        url,
        autocommit=True,
        row_factory=psycopg.rows.dict_row,
        cursor_factory=psycopg.RawCursor,
    ) as one:
        one.execute("begin")
        yield Way(
            one, one.execute, lambda: one.execute("commit"), lambda: one.execute("rollback")
        )


@asynccontextmanager
async def by_async_psycopg(url: str) -> AsyncIterator[Way]:
    async with await psycopg.AsyncConnection.connect(url) as one:
        yield Way(one, one.execute, one.commit, one.rollback)


def alchemical(url: str, driver: str) -> str:
    return url.replace("postgresql://", f"postgresql+{driver}://", 1)


def _text(execute: Callable[..., Any]) -> Callable[[str], Any]:
    return lambda statement: execute(sqlalchemy.text(statement))


@contextmanager
def sync_engine(url: str, **options: Any) -> Any:
    engine = sqlalchemy.create_engine(alchemical(url, "psycopg"), **options)
    try:
        yield engine
    finally:
        engine.dispose()


@asynccontextmanager
async def by_core(url: str) -> AsyncIterator[Way]:
    with sync_engine(url) as engine, engine.connect() as one:
        yield Way(one, _text(one.execute), one.commit, one.rollback)


@asynccontextmanager
async def by_orm(url: str) -> AsyncIterator[Way]:
    with sync_engine(url) as engine, Session(engine) as one:
        yield Way(one, _text(one.execute), one.commit, one.rollback)


@asynccontextmanager
async def by_scoped_session(url: str) -> AsyncIterator[Way]:
    with sync_engine(url) as engine:
        one = scoped_session(sessionmaker(engine))
        yield Way(one, _text(one.execute), one.commit, one.rollback)
        one.remove()


def by_async_core(driver: str) -> Any:
    @asynccontextmanager
    async def way(url: str) -> AsyncIterator[Way]:
        engine = create_async_engine(alchemical(url, driver), poolclass=NullPool)
        async with engine.connect() as one:
            yield Way(one, _text(one.execute), one.commit, one.rollback)

    return way


def by_async_orm(driver: str) -> Any:
    @asynccontextmanager
    async def way(url: str) -> AsyncIterator[Way]:
        engine = create_async_engine(alchemical(url, driver), poolclass=NullPool)
        async with AsyncSession(engine) as one:
            yield Way(one, _text(one.execute), one.commit, one.rollback)

    return way


def by_async_scoped_session(driver: str) -> Any:
    @asynccontextmanager
    async def way(url: str) -> AsyncIterator[Way]:
        engine = create_async_engine(alchemical(url, driver), poolclass=NullPool)
        one = async_scoped_session(async_sessionmaker(engine), scopefunc=asyncio.current_task)
        try:
            yield Way(one, _text(one.execute), one.commit, one.rollback)
        finally:
            await one.remove()

    return way


WAYS = {
    "asyncpg": by_asyncpg,
    "asyncpg pool": by_asyncpg_pool,
    "psycopg": by_psycopg,
    "psycopg in begin": by_psycopg_begin,
    "async psycopg": by_async_psycopg,
    "SQLAlchemy core": by_core,
    "SQLAlchemy ORM": by_orm,
    "SQLAlchemy scoped session": by_scoped_session,
    "async SQLAlchemy core, psycopg": by_async_core("psycopg"),
    "async SQLAlchemy core, asyncpg": by_async_core("asyncpg"),
    "async SQLAlchemy ORM, psycopg": by_async_orm("psycopg"),
    "async SQLAlchemy ORM, asyncpg": by_async_orm("asyncpg"),
    "async SQLAlchemy scoped session, psycopg": by_async_scoped_session("psycopg"),
    "async SQLAlchemy scoped session, asyncpg": by_async_scoped_session("asyncpg"),
}
