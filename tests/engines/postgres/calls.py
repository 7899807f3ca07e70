"""Calls on a connection to PostgreSQL, and what someone beside them sees."""

import asyncio
from collections.abc import Awaitable, Callable

import asyncpg

from longshore.engines.postgres.database import Connection

__all__ = ["OURS", "SLEEPING", "Fetch", "make_table", "total", "until"]

Fetch = Callable[..., Awaitable[list[asyncpg.Record]]]

SLEEPING = """
    select pid from pg_stat_activity where query like $1 and state = 'active'
       and application_name like 'longshore%'
"""
OURS = "select count(*) from pg_stat_activity where application_name like 'longshore%'"


async def until(observer: Connection, statement: str, *args: object) -> object:
    """What the server says once it says something."""
    async with asyncio.timeout(10):
        while not (value := await observer.fetchval(statement, *args)):
            await asyncio.sleep(0.005)
    return value


async def make_table(observer: Connection) -> None:
    await observer.execute(
        "drop table if exists public.tally;"
        " create table public.tally (id int primary key, n int not null);"
        " insert into public.tally values (1, 0), (2, 0)"
    )


async def total(observer: Connection) -> object:
    return await observer.fetchval("select sum(n) from public.tally")
