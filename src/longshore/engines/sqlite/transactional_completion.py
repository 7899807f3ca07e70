"""Transactions of handlers: what a handler writes and its job's success commit together.

Such a transaction holds the file's one write lock, so nobody else writes meanwhile: handlers
take turns, and none has longer than two seconds.
"""

import asyncio
import sqlite3
import threading
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from typing import Literal

from longshore.contract import Completion
from longshore.engines.sqlite.connection import Store
from longshore.engines.sqlite.faults import translated
from longshore.engines.sqlite.transaction import Transaction
from longshore.errors import EngineBusyError, LongshoreError

__all__ = ["LONGEST", "Completer", "Lent"]

LONGEST = 2.0
"""Seconds that a handler's transaction may take."""
_SPARE = 0.1
"""Seconds after which the lock is taken from a handler that keeps the event loop, too."""
_WAIT = 0.001
_GAP = 0.003
"""Seconds between two of them: longer than others sleep while they wait for the lock."""
_ENDED = "the handler ended its transaction; the block does that"

Complete = Callable[[Transaction, bytes | None], None]
"""Ends the job with this result, or raises LeaseLostError."""


class Lent(sqlite3.Connection):
    """A connection whose transaction is not its user's to end."""

    is_over = False
    """Its time was up, and nothing can be written through it any more."""

    def commit(self) -> None:
        """LongshoreError: the block does that."""
        raise LongshoreError(_ENDED)

    def rollback(self) -> None:
        """LongshoreError: raise something instead, and the block does that."""
        raise LongshoreError(_ENDED)

    def __exit__(self, *_: object) -> Literal[False]:
        """Nothing: what is raised leaves the outer block too, which undoes everything."""
        return False

    def expire(self) -> None:
        """Undo what was written, and let others write. Called from any thread."""
        self.is_over = True
        with suppress(sqlite3.Error):
            self.interrupt()
            # First: what the handler writes next must not commit by itself.
            self.execute("pragma query_only = on")
            if self.in_transaction:
                self.execute("rollback")


class Completer:
    """Opens and commits the transactions of one session's handlers, one at a time."""

    def __init__(self, store: Store, tell: Callable[[Transaction], None]) -> None:
        self._store = store
        self._tell = tell
        self._turn = asyncio.Lock()
        # Not the loop's own threads: handlers may hold all of those.
        self._threads = ThreadPoolExecutor(1, "longshore-sqlite-completer")

    @asynccontextmanager
    async def transaction(self, complete: Complete) -> AsyncGenerator[Completion]:
        """A transaction for the block; at its end the job is completed and all is committed.

        An error in the block rolls everything back, and so does the end of its time. A
        cancellation that comes during the commit is raised when its outcome is known.
        """
        async with self._turn:
            with translated(self._store.path):
                lent = await self._begin()
            watch = threading.Timer(LONGEST + _SPARE, lent.expire)
            watch.daemon = True
            watch.start()
            completion = Completion(lent)
            try:
                limit = asyncio.timeout(LONGEST)
                try:
                    async with limit:
                        yield completion
                except TimeoutError as error:
                    if limit.expired():
                        raise _too_long() from error
                    raise
                watch.cancel()
                await self._finish(lent, completion, complete)
            finally:
                watch.cancel()
                with suppress(sqlite3.Error):
                    lent.close()
            await asyncio.sleep(_GAP)

    def close(self) -> None:
        """Let its thread end."""
        self._threads.shutdown(wait=False)

    async def _begin(self) -> Lent:
        lent = self._store.connect_as(Lent, waits=False)
        try:
            await self._lock(lent)
        except BaseException:
            lent.close()
            raise
        return lent

    async def _lock(self, lent: Lent) -> None:
        """Take the write lock. The event loop goes on while others have it."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._store.busy_timeout
        while not self._store.begin_now(lent):
            if loop.time() >= deadline:
                raise EngineBusyError(f"{self._store.path} is locked by another process")
            await asyncio.sleep(_WAIT)

    async def _finish(self, lent: Lent, completion: Completion, complete: Complete) -> None:
        loop = asyncio.get_running_loop()
        work = loop.run_in_executor(self._threads, self._commit, lent, completion, complete)
        cancelled: asyncio.CancelledError | None = None
        while not work.done():
            try:
                await asyncio.wait([work])
            except asyncio.CancelledError as error:
                cancelled = error
        if cancelled is not None:
            work.exception()  # or the loop would report that nobody asked for it
            raise cancelled
        work.result()

    def _commit(self, lent: Lent, completion: Completion, complete: Complete) -> None:
        if lent.is_over:
            raise _too_long()
        if not lent.in_transaction:
            raise LongshoreError(_ENDED)
        # As the handler liked its rows, they are not ours.
        lent.row_factory, lent.text_factory = None, str
        transaction = Transaction(lent, self._store.clock.now())
        with translated(self._store.path):
            try:
                complete(transaction, completion.result)
                transaction.finish()
                lent.execute("commit")
            except BaseException:
                transaction.roll_back()
                raise  # closing the connection undoes the rest
        completion.is_committed = True
        self._tell(transaction)


def _too_long() -> LongshoreError:
    return LongshoreError(
        f"a transaction on SQLite has {LONGEST:g} s, because nobody else can write meanwhile; "
        "it was rolled back. Do what takes long before it"
    )
