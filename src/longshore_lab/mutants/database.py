"""Replace functions in the tests' PostgreSQL database, and see which of them tests call.

While no mutant is planted, the functions can note the value of each of their conditions. They
do so in sequences, because those keep what a transaction that is taken back has noted.
"""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

import asyncpg

from longshore_lab.mutants.statements import Mutant, probes

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
_NOTES = """
do $$ begin
    drop schema if exists mutants cascade;
    create schema mutants;
    for number in 0..{last} loop
        execute format('create sequence mutants.true_%s', number);
        execute format('create sequence mutants.other_%s', number);
    end loop;
end $$;
create function mutants.noted(p_number int, p_value boolean) returns boolean
language plpgsql as $$
begin
    if p_value then
        perform nextval(('mutants.true_' || p_number)::regclass);
    else
        perform nextval(('mutants.other_' || p_number)::regclass);
    end if;
    return p_value;
end $$;
"""
_NOTED = """
select sequencename as name, last_value as many from pg_sequences
 where schemaname = 'mutants' and last_value is not null
"""


class Functions:
    """The functions of the database that the tests share."""

    def __init__(self, originals: Mapping[str, str]) -> None:
        self._originals = originals
        self._url = ""
        self._calls: dict[str, int] = {}
        self._notes: dict[str, int] = {}
        self._shown: dict[str, set[str]] = {}
        """The mutants, by key, that may show when a sequence has moved."""
        self._probed: list[str] = []

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

    def probe(self, names: Iterable[str]) -> set[str]:
        """Have these functions note their conditions; the mutants, by key, that this covers."""
        first, definitions = 0, dict[str, str]()
        for name in names:
            definitions[name], found = probes(
                name, self._originals[name], "mutants.noted", first
            )
            for number, one in enumerate(found, first):
                self._shown[f"other_{number}"] = {f"{name}: {label}" for label in one.true}
                self._shown[f"true_{number}"] = {f"{name}: {label}" for label in one.false}
            first += len(found)
        self._execute(_NOTES.format(last=first - 1))
        self._probed = list(definitions)
        for definition in definitions.values():
            self._execute(definition)
        return set[str]().union(*self._shown.values())

    def noted(self) -> set[str]:
        """The mutants that could have shown since the last time."""
        notes = {row["name"]: row["many"] for row in self._execute(_NOTED)}
        before, self._notes = self._notes, notes
        moved = [name for name, many in notes.items() if many != before.get(name)]
        return set[str]().union(*(self._shown[name] for name in moved))

    def unprobe(self) -> None:
        """Put back the functions that were noting."""
        self._execute(_END_OTHERS)
        for name in self._probed:
            self._execute(self._originals[name])

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

        # Tests that all have servers of their own share no database.
        return asyncio.run(run()) if self._url else []
