"""Put a mutant in the place of what an engine would load.

Statements are changed on their way from the file into the program, modules on their way into
the interpreter. What was imported before is imported again.
"""

import re
import sqlite3
import sys
from collections.abc import Sequence
from dataclasses import fields
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from types import ModuleType
from typing import Any, TypeVar

import asyncpg

from longshore.runtime import sql_loader
from longshore_lab.mutants.statements import Mutant

__all__ = ["Overlay"]

T = TypeVar("T")
_MARK = re.compile(r"/\*statement (\w+)\*/")


class Overlay:
    """Stands between the files of the engines and whoever loads them."""

    def __init__(self) -> None:
        self.used: set[str] = set()
        """The statements that ran since this was last emptied."""
        self._mutant: Mutant | None = None
        self._load = sql_loader.load
        self._connects: tuple[Any, Any] = (sqlite3.connect, asyncpg.connect)

    def install(self, engine: str) -> None:
        """Change what is loaded from now on, and forget what was loaded of the engine."""
        sql_loader.load = self.load
        sqlite3.connect, asyncpg.connect = self._sqlite, self._postgres
        _forget(engine)

    def plant(self, mutant: Mutant) -> None:
        """Have this process load the engine anew, with the mutant in it."""
        sqlite3.connect, asyncpg.connect = self._connects
        self._mutant = mutant
        if mutant.module is not None:
            sys.meta_path.insert(0, _Finder(mutant.module, mutant.text))
        _forget(mutant.engine)

    def plant_in_new(self, mutant: Mutant) -> None:
        """Have the mutant of a function in every database that this process migrates."""
        engine = import_module("longshore.engines.postgres.engine").PostgresEngine
        migrate, connect = engine.migrate, self._connects[1]

        async def migrate_and_plant(self: Any, **options: Any) -> list[str]:
            applied = await migrate(self, **options)
            if applied:
                connection = await connect(self.url)
                try:
                    await connection.execute(mutant.text)
                finally:
                    await connection.close()
            return applied

        engine.migrate = migrate_and_plant

    def load(self, into: type[T], package: str, suffix: str) -> T:
        """What `statements.load` does, with the mutant; each statement says its own name."""
        loaded: Any = self._load(into, package, suffix)
        one = self._mutant
        for name in (field.name for field in fields(loaded)):
            text = f"{getattr(loaded, name)}\n/*statement {name}*/"
            if (
                one
                and package == f"longshore.engines.{one.engine}.sql"
                and name == one.statement
            ):
                text = one.text
            object.__setattr__(loaded, name, text)
        return loaded

    def _sqlite(self, *arguments: Any, **options: Any) -> sqlite3.Connection:
        """A connection that tells which statements it runs."""
        db: sqlite3.Connection = self._connects[0](*arguments, **options)
        db.set_trace_callback(self._note)
        return db

    async def _postgres(self, *arguments: Any, **options: Any) -> Any:
        """The same of a server."""
        connection = await self._connects[1](*arguments, **options)

        def note(record: Any) -> None:
            self._note(record.query)

        connection.add_query_logger(note)
        return connection

    def _note(self, statement: str) -> None:
        self.used.update(_MARK.findall(statement))


class _Finder(MetaPathFinder, Loader):
    """Finds one module, and runs another source in its place."""

    def __init__(self, module: str, source: str) -> None:
        self._module = module
        self._source = source

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The module, if it is the one."""
        return spec_from_loader(fullname, self) if fullname == self._module else None

    def exec_module(self, module: ModuleType) -> None:
        """Run the changed source."""
        exec(compile(self._source, f"<mutant of {self._module}>", "exec"), module.__dict__)


def _forget(engine: str) -> None:
    package = f"longshore.engines.{engine}"
    for name in [*sys.modules]:
        if name == package or name.startswith(f"{package}."):
            del sys.modules[name]
