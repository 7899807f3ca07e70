"""The plans of what a connection runs, of the statements inside functions as well."""

import os
import re

import asyncpg
import pytest
from asyncpg.prepared_stmt import PreparedStatement

from longshore.engines.postgres.connection import Connection

__all__ = ["Plans", "forget_statistics", "tell_plans", "unbounded"]

_TELL_PLANS = """
    load 'auto_explain';
    set auto_explain.log_min_duration = 0;
    set auto_explain.log_nested_statements = on;
    set client_min_messages = log
"""


async def tell_plans(connection: Connection) -> None:
    """Have the server tell plans on this connection; at home the test is left out otherwise."""
    try:
        await connection.execute(_TELL_PLANS)
    except asyncpg.UndefinedFileError:
        why = "this server cannot tell the plans inside its functions: it has no auto_explain"
        if os.environ.get("CI"):
            pytest.fail(why)
        pytest.skip(why)


async def forget_statistics(connection: Connection, *, then: str) -> None:
    """The server plans otherwise for tables that it has seen empty than for new ones."""
    await connection.execute("delete from pg_statistic where starelid >= 16384")
    if then == "vacuumed":
        await connection.execute("vacuum analyze")


def unbounded(plan: str) -> list[str]:
    """The indexes that a plan reads from end to end."""
    found = re.findall(r"Scan using (\w+) on .*\n((?:(?!.*->).*\n?)*)", plan)
    return [index for index, rest in found if "Index Cond" not in rest.split("Query Text")[0]]


class Plans:
    """One connection, and the plans of what it ran."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._told: list[str] = []
        connection.add_log_listener(self._hear)

    async def of(self, statement: str, *args: object) -> str:
        return await self.told_by(await self._connection.prepare(statement), *args)

    async def told_by(self, prepared: PreparedStatement, *args: object) -> str:
        self._told.clear()  # the driver asks about types, too
        await prepared.fetch(*args)
        await self._connection.execute("select 1")  # the server tells of a statement at its end
        return "\n".join(self._told)

    def _hear(self, _: object, message: asyncpg.PostgresLogMessage) -> None:
        _, found, plan = (message.message or "").partition("plan:")
        if found:
            self._told.append(plan)
