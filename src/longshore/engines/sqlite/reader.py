"""The one thread that reads, beside the writer: SQLite's readers and writer do not block."""

import asyncio
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from longshore.engines.sqlite.connection import Store
from longshore.engines.sqlite.faults import translated
from longshore.errors import EngineUnavailableError

__all__ = ["Reader"]

T = TypeVar("T")


class Reader:
    """Runs bodies that only read, in order."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._executor: ThreadPoolExecutor | None = None
        self._db: sqlite3.Connection | None = None
        self._is_closed = False

    async def call(self, body: Callable[[sqlite3.Connection], T]) -> T:
        """The body's result."""
        self._store.check_process()
        if self._is_closed:
            raise EngineUnavailableError("the engine is closed")
        if self._executor is None:
            self._executor = ThreadPoolExecutor(1, "longshore-sqlite-reader")
        run = partial(self._run, body)
        return await asyncio.get_running_loop().run_in_executor(self._executor, run)

    async def close(self) -> None:
        """Finish what was asked for, then close the file. Safe to call twice."""
        self._is_closed = True
        executor, self._executor = self._executor, None
        if executor is not None:
            await asyncio.get_running_loop().run_in_executor(executor, self._disconnect)
            executor.shutdown()

    def _run(self, body: Callable[[sqlite3.Connection], T]) -> T:
        with translated(self._store.path):
            if self._db is None:
                self._db = self._store.connect()
            return body(self._db)

    def _disconnect(self) -> None:
        db, self._db = self._db, None
        if db is not None:
            db.close()
