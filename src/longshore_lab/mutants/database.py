"""Replace functions in the tests' PostgreSQL database, and see which of them tests call."""

import asyncio
from collections.abc import Mapping
from typing import Any

import asyncpg

from longshore_lab.mutants.statements import Mutant

__all__ = ["Functions"]

_CALLS = """
select pg_stat_clear_snapshot(), funcname || '()' as name, calls from pg_stat_user_functions
 where schemaname = 'longshore'
"""
_END_OTHERS = """
select pg_terminate_backend(pid) from pg_stat_activity
 where datname = current_database() and pid <> pg_backend_pid()
   and backend_type = 'client backend'
"""


class Functions:
    """The functions of the database that the tests share."""

    def __init__(self, originals: Mapping[str, str]) -> None:
        self._originals = originals
        self._url = ""
        self._calls: dict[str, int] = {}

    def begin(self, url: str) -> None:
        """Count calls from now on: in this database, by whoever connects after this."""
        self._url = url
        name = url.partition("?")[0].rpartition("/")[2]
        self._execute(f"alter database \"{name}\" set track_functions = 'all'")

    def used(self) -> set[str]:
        """The functions that were called since the last time."""
        if not self._url:
            return set()
        calls = {row["name"]: row["calls"] for row in self._execute(_CALLS)}
        before, self._calls = self._calls, calls
        return {name for name, many in calls.items() if many != before.get(name, 0)}

    def plant(self, mutant: Mutant) -> str | None:
        """Replace the function; why not, if the server refuses it."""
        try:
            self._execute(mutant.text)
        except asyncpg.PostgresError as error:
            return str(error)
        return None

    def restore(self, mutant: Mutant) -> None:
        """Put back what it replaced, and end what still runs."""
        self._execute(_END_OTHERS)
        if mutant.is_function:
            self._execute(self._originals[mutant.statement])

    def _execute(self, statement: str) -> list[Any]:
        async def run() -> list[Any]:
            connection = await asyncpg.connect(self._url)
            try:
                if statement.lstrip().startswith("select"):
                    return await connection.fetch(statement)
                await connection.execute(statement)
            finally:
                await connection.close()
            return []

        return asyncio.run(run())
