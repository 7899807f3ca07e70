"""A session's book in the store: read it, carry out what is planned, give all of it back."""

import asyncio

from longshore.core.job import Settlement
from longshore.core.state import Verb
from longshore.engines.postgres.database import Connection
from longshore.engines.postgres.held_claims import Book
from longshore.engines.postgres.settlement_plan import Plan
from longshore.engines.postgres.sql import SQL

__all__ = ["apply", "end", "read_book"]


async def read_book(connection: Connection, token: int) -> Book:
    """What a session holds, as the store has it. Waits for a call of its that is under way."""
    book = Book()
    await connection.execute(SQL.session_lock, token)
    for row in await connection.fetch(SQL.claims_of, token):
        book.enter(row["number"], row, asyncio.get_running_loop().time())
    book.recall(await connection.fetch(SQL.journal_of, token))
    for one in await connection.fetch(SQL.requests, token):
        book.requests[one["handle"], one["delivery"]] = one["reason"]
    return book


async def end(connection: Connection, token: int, worker: str, now: int | None) -> None:
    """End a live session; what it holds goes back, uncharged."""
    row = await connection.fetchrow(SQL.session_end, token, now)
    if row is None:
        return  # it lapsed; reclaim decides about what it held
    book = await read_book(connection, token)
    plan = Plan(book, asyncio.get_running_loop().time())
    plan.settle(
        [
            Settlement(handle=handle, delivery=span.delivery, verb=Verb.RELEASE)
            for handle, span in book.held.items()
        ]
    )
    await apply(connection, token, worker, plan, row["now"])
    await connection.execute(SQL.forget_session, token)


async def apply(connection: Connection, token: int, worker: str, plan: Plan, now: int) -> None:
    """Carry out a plan in the caller's transaction."""
    if not plan.is_empty:
        await connection.execute(SQL.settle, token, now, worker, *plan.arguments())
