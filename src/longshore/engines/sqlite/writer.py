"""The one thread that writes: callers queue up, and a commit carries all who wait.

While one commit is on its way to the disk, the next ones gather; so a hundred concurrent
callers cost a few commits, and each of them still awaits its own durable one.

A statement that steps row by row gives up the interpreter lock at every row, and under a busy
event loop each row then waits for it (measured: 430 µs instead of 5). So bodies use few
statements, each over many rows.
"""

import asyncio
import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeVar, cast

from longshore.core.job import NewJob, Submitted
from longshore.engines.sqlite.connection import Store, Synchronous
from longshore.engines.sqlite.faults import busy, translated
from longshore.engines.sqlite.numbers import Numbers
from longshore.engines.sqlite.peer_notify import CANCEL, WORK
from longshore.engines.sqlite.transaction import AfterCommit, Transaction
from longshore.engines.sqlite.wal_checkpoint import Log
from longshore.errors import EngineUnavailableError, LongshoreError

__all__ = ["Writer"]

T = TypeVar("T")

_LARGEST_GROUP = 1_000
_STEP = 0.25
"""Seconds between two looks for who has waited long enough for the lock, and who has come."""


Body = Callable[[Transaction], Any]
SubmitBody = Callable[[Transaction, Sequence[NewJob]], list[Submitted]]


class _Call:
    __slots__ = ("body", "error", "future", "is_durable", "jobs", "loop", "result", "until")

    def __init__(
        self, body: Body | None, jobs: Sequence[NewJob], *, is_durable: bool, patience: float
    ) -> None:
        self.body = body
        self.jobs = jobs
        self.is_durable = is_durable
        self.until = time.monotonic() + patience
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Any] = self.loop.create_future()
        self.result: Any = None
        self.error: BaseException | None = None


class Writer:
    """Runs bodies inside transactions, in one thread, in order."""

    def __init__(self, store: Store, submit: SubmitBody, wake: Callable[[bytes], None]) -> None:
        self._store = self.store = store
        self._submit = submit
        self._wake = wake
        self._calls: queue.SimpleQueue[list[_Call] | None] = queue.SimpleQueue()
        self._gathered: dict[asyncio.AbstractEventLoop, list[_Call]] = {}
        self._thread: threading.Thread | None = None
        self._db: sqlite3.Connection | None = None
        self._turn = threading.Lock()
        """Held by the thread that uses the connection."""
        self._lock = threading.Lock()
        self._is_closed = False
        self.numbers = Numbers(store)
        self._synchronous = store.synchronous
        self._log = Log(store)

    async def call(
        self, body: Callable[[Transaction], T | AfterCommit[T]], *, durable: bool = True
    ) -> T:
        """The body's result, once committed. Without `durable` a loss of power may undo it."""
        patience = self._store.busy_timeout
        return await self._enqueue(_Call(body, (), is_durable=durable, patience=patience))

    async def call_here(self, body: Callable[[Transaction], T | AfterCommit[T]]) -> T:
        """Like `call` without `durable`, but in the calling thread if nobody else writes.

        For a short body whose caller has nothing else to do: the ways between two threads that
        were asleep take as long as its statements.
        """
        call = _Call(body, (), is_durable=False, patience=self._store.busy_timeout)
        if self._turn.acquire(blocking=False):
            try:
                is_done = self._db is not None and self._commit_here(self._db, call)
            finally:
                self._turn.release()
            if is_done:
                if call.error is not None:
                    raise call.error
                return call.result
        return await self._enqueue(call)

    async def submit(
        self, jobs: Sequence[NewJob], *, max_wait: float | None = None
    ) -> list[Submitted]:
        """Like `call`, but neighbours in the queue are stored together.

        For the lock it waits as long as the store says, but `max_wait` seconds at most.
        """
        longest = self._store.busy_timeout
        waits = longest if max_wait is None else min(max_wait, longest)
        return await self._enqueue(_Call(None, jobs, is_durable=True, patience=waits))

    async def close(self) -> None:
        """Finish what was queued, then close the file."""
        with self._lock:
            self._is_closed = True
            thread, self._thread = self._thread, None
        if thread is not None:
            self._calls.put(None)
            await _joined(thread)

    async def _enqueue(self, call: _Call) -> Any:
        self._store.check_process()
        gathered = self._gathered.setdefault(call.loop, [])
        gathered.append(call)
        if call.body is not None:
            self._hand_over(call.loop)
        elif len(gathered) == 1:
            # What the loop's other tasks submit in this turn goes along: the first caller
            # would else wake the writer alone, and its commit carry one job.
            call.loop.call_soon(self._hand_over, call.loop)
        return await call.future

    def _hand_over(self, loop: asyncio.AbstractEventLoop) -> None:
        calls = self._gathered.pop(loop, None)
        if calls is None:
            return  # another call took them along
        try:
            with self._lock:
                self._start()
                self._calls.put(calls)
        except EngineUnavailableError as error:
            for call in calls:
                call.error = error
            _resolve(calls)

    def _start(self) -> None:
        if self._is_closed:
            raise EngineUnavailableError("the engine is closed")
        if self._thread is None:
            thread = threading.Thread(
                target=self._run, name="longshore-sqlite-writer", daemon=True
            )
            try:
                thread.start()
            except RuntimeError as error:
                raise EngineUnavailableError(f"no thread to write with: {error}") from error
            self._thread = thread

    def _run(self) -> None:
        while (calls := self._take()) is not None:
            with self._turn:
                self._serve(calls)
                if self._db is not None:
                    self._log.keep_small(self._db)
                    if self._calls.empty():
                        self._rest(self._db)
        with self._turn:
            if self._db is not None:
                self._db.close()
                self._db = None
            self._log.close()

    def _serve(self, calls: list[_Call]) -> None:
        """Commit what is asked for, and answer; in the one thread that writes."""
        try:
            with translated(self._store.path):
                self._db = self._db or self._store.connect(waits=False)
                self._commit(self._db, calls)
        except BaseException as error:  # whatever it is, those who wait must hear of it
            for call in calls:
                call.error = error
        self._answer(calls)

    def _rest(self, db: sqlite3.Connection) -> None:
        """Do now, while nobody waits, what the next call would have to do."""
        with suppress(sqlite3.Error):
            self._set_durability(db, is_durable=False)
        self._log.copy_back(db)

    def _take(self) -> list[_Call] | None:
        """Everything that is queued now, waiting for the first; None to end."""
        calls = self._calls.get()
        if calls is not None:
            self._take_along(calls)
        return calls

    def _take_along(self, calls: list[_Call]) -> None:
        """Add what is queued now."""
        while len(calls) < _LARGEST_GROUP and not self._calls.empty():
            more = self._calls.get()
            if more is None:
                self._calls.put(None)
                return
            calls += more

    def _commit(self, db: sqlite3.Connection, calls: list[_Call]) -> None:
        """Commit the calls as soon as the lock is free, without those who cannot wait for it.

        Who comes while it is not goes along.
        """
        while calls:
            syncs_apart = self._prepare(db, calls)
            if self._store.begin(db, within=min(_STEP, self._store.busy_timeout)):
                self._carry_out(db, calls, syncs_apart=syncs_apart)
                return
            now = time.monotonic()
            late = [call for call in calls if call.until <= now]
            for call in late:
                call.error = busy(self._store.path)
            calls[:] = [call for call in calls if call.until > now]
            self._answer(late)
            self._take_along(calls)

    def _prepare(self, db: sqlite3.Connection, calls: list[_Call]) -> bool:
        """Make the commit as durable as the calls ask; whether the disk is waited for apart."""
        durable = [call for call in calls if call.is_durable]
        # New jobs may be seen before they are on disk, for nobody was told of them yet; how
        # jobs ended may not. So submits let others write while the disk is busy.
        syncs_apart = bool(durable) and all(call.body is None for call in durable)
        if durable and self._log.is_in_doubt:
            self._sync(db)  # nothing may be promised on top of what may be missing
        self._set_durability(db, is_durable=bool(durable) and not syncs_apart)
        return syncs_apart

    def _commit_here(self, db: sqlite3.Connection, call: _Call) -> bool:
        """Commit one call that need not be durable; False when it would have to wait."""
        self._store.check_process()
        with translated(self._store.path):
            self._set_durability(db, is_durable=False)
            if not self._store.begin_now(db):
                return False
            self._carry_out(db, [call], syncs_apart=False)
        return True

    def _carry_out(
        self, db: sqlite3.Connection, calls: list[_Call], *, syncs_apart: bool
    ) -> None:
        transaction = Transaction(db, self._store.clock.now())
        try:
            self.numbers.move_ahead(transaction)
            self._apply(transaction, calls)
            transaction.finish()
            if not syncs_apart:
                self.tell(transaction)  # they get up while the disk is busy
            db.execute("commit")
            self.numbers.committed()
        except BaseException:
            transaction.roll_back()
            if db.in_transaction:
                db.execute("rollback")
            raise
        if syncs_apart:
            self.tell(transaction)
            self._sync(db)
        for call in calls:
            result: object = call.result
            if isinstance(result, AfterCommit):
                self._read(db, call, cast("AfterCommit[Any]", result))

    def tell(self, transaction: Transaction) -> None:
        """Wake those whom the transaction concerns."""
        if transaction.wakes:
            self._wake(WORK)
        if transaction.calls:
            self._wake(CANCEL)

    def _sync(self, db: sqlite3.Connection) -> None:
        if self._store.synchronous is not Synchronous.FULL:
            return
        try:
            self._log.sync(db)
        except OSError as error:
            raise EngineUnavailableError(
                f"{self._store.path}: whether the last jobs are stored is not known: {error}"
            ) from error

    def _read(self, db: sqlite3.Connection, call: _Call, result: AfterCommit[Any]) -> None:
        try:
            with translated(self._store.path):
                call.result = result.read(db)
        except LongshoreError as error:
            # It was applied all the same, as after any answer that got lost.
            call.error = error

    def _set_durability(self, db: sqlite3.Connection, *, is_durable: bool) -> None:
        wanted = self._store.synchronous if is_durable else Synchronous.NORMAL
        if wanted is not self._synchronous:
            db.execute(f"pragma synchronous = {wanted}")
            self._synchronous = wanted

    def _apply(self, transaction: Transaction, calls: list[_Call]) -> None:
        if len(calls) == 1:
            # Alone in its transaction, it needs no savepoint: what it raises undoes all.
            calls[0].result = self._body(calls[0])(transaction)
            return
        at = 0
        while at < len(calls):
            end = at + 1
            while calls[at].body is None and end < len(calls) and calls[end].body is None:
                end += 1
            if end - at == 1 or not self._submit_together(transaction, calls[at:end]):
                for call in calls[at:end]:
                    self._apply_one(transaction, call)
            at = end

    def _submit_together(self, transaction: Transaction, calls: list[_Call]) -> bool:
        """Store the jobs of several submits at once; False when one of them is at fault."""
        trial = _Call.__new__(_Call)
        trial.body, trial.error = None, None
        trial.jobs = [job for call in calls for job in call.jobs]
        self._apply_one(transaction, trial)
        if trial.error is not None:
            return False
        at = 0
        for call in calls:
            call.result = trial.result[at : at + len(call.jobs)]
            at += len(call.jobs)
        return True

    def _apply_one(self, transaction: Transaction, call: _Call) -> None:
        """Run one body; what it raises is its caller's alone, and leaves no trace."""
        db = transaction.db
        inner = Transaction(db, transaction.now)
        db.execute("savepoint body")
        try:
            with translated(self._store.path):
                call.result = self._body(call)(inner)
        except BaseException as error:  # its neighbours are not to blame, whatever it is
            inner.roll_back()
            if not db.in_transaction:
                raise  # a full disk ends the whole transaction
            db.execute("rollback to body")
            db.execute("release body")
            call.error = error
        else:
            db.execute("release body")
            transaction.groups += inner.groups
            transaction.counts.update(inner.counts)
            transaction.undo += inner.undo
            transaction.wakes |= inner.wakes
            transaction.freed |= inner.freed
            transaction.calls |= inner.calls

    def _body(self, call: _Call) -> Body:
        return call.body or (lambda transaction: self._submit(transaction, call.jobs))

    def _answer(self, calls: list[_Call]) -> None:
        loops = {call.loop for call in calls}
        for loop in loops:
            mine = [call for call in calls if call.loop is loop]
            with suppress(RuntimeError):  # its loop was closed: nobody waits there any more
                loop.call_soon_threadsafe(_resolve, mine)


def _resolve(calls: list[_Call]) -> None:
    for call in calls:
        if call.future.done():
            continue  # the caller was cancelled; what it asked for was applied all the same
        if call.error is not None:
            call.future.set_exception(call.error)
        else:
            call.future.set_result(call.result)


async def _joined(thread: threading.Thread) -> None:
    # Not in the loop's own threads: handlers may hold all of those, and for ever.
    waiter = ThreadPoolExecutor(1)
    try:
        await asyncio.get_running_loop().run_in_executor(waiter, thread.join)
    finally:
        waiter.shutdown(wait=False)
