"""The app from code that does not await: a few verbs, each run on the app's event loop.

If the app is open, its own loop does the work. If not, a thread with a loop is started at the
first call and kept until the process ends: a web application of plain functions needs nothing
else. A forked child starts a thread of its own.
"""

import asyncio
import os
import threading
import weakref
from collections.abc import Callable, Coroutine, Iterable
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from typing import Any, Protocol, TypeVar

from longshore.errors import ConfigError, WaitTimeoutError
from longshore.handle import JobHandle
from longshore.operations.job_documents import Job
from longshore.task import Spec

__all__ = ["Sync"]

R = TypeVar("R")
T = TypeVar("T")

_PATIENCE = 120.0
"""Longer than any engine waits for its store: by then it is the event loop that is stuck."""


class Openable(AbstractAsyncContextManager[Any], Protocol):
    """What the verbs here need of the app."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop | None:
        """The loop on which it is open in this process."""
        ...

    async def submit_spec(self, spec: Spec[R]) -> JobHandle[R]:
        """Store one job."""
        ...

    async def submit_many(self, specs: Iterable[Spec[R]]) -> list[JobHandle[R]]:
        """Store many."""
        ...

    def submit_here(self, spec: Spec[R]) -> JobHandle[R]:
        """Store a job inside the transaction of its connection, in the calling thread."""
        ...


class Sync:
    """Submit and wait from plain functions and threads. Every verb blocks until it is done."""

    def __init__(self, app: Openable) -> None:
        self._app = app
        self._portal: _Portal | None = None
        self._lock = threading.Lock()
        forget = weakref.WeakMethod(self._forget)
        os.register_at_fork(after_in_child=lambda: (method := forget()) and method())

    def open(self) -> None:
        """Open the app now, and not at the first call."""
        self._loop()

    def submit(self, spec: Spec[R]) -> JobHandle[R]:
        """Like `await task.submit(...)`, for `task.spec(...)`."""
        if spec.connection is not None:
            self._refuse_late_opening(spec.connection)
            # A connection belongs to the thread that opened it.
            return self._app.submit_here(spec)
        return self.run(lambda: self._app.submit_spec(spec))

    def submit_many(self, specs: Iterable[Spec[R]]) -> list[JobHandle[R]]:
        """Like `await app.submit_many(...)`."""
        return self.run(lambda: self._app.submit_many(specs))

    def result(self, handle: JobHandle[R], timeout: timedelta | float = 60.0) -> R:
        """Like `await handle.result(...)`."""
        waiting = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
        return self.run(lambda: handle.result(waiting), patience=waiting + _PATIENCE)

    def get(self, handle: JobHandle[Any]) -> Job:
        """Like `await handle.get()`."""
        return self.run(handle.get)

    def cancel(self, handle: JobHandle[Any], reason: str = "cancelled by its producer") -> Job:
        """Like `await handle.cancel()`."""
        return self.run(lambda: handle.cancel(reason))

    def run(
        self, call: Callable[[], Coroutine[Any, Any, T]], *, patience: float = _PATIENCE
    ) -> T:
        """What the coroutine function returns, run on the app's loop: for all other verbs."""
        loop = self._loop()
        if loop is _running_loop():
            raise ConfigError("app.sync would block the event loop it runs on; await instead")
        future = asyncio.run_coroutine_threadsafe(call(), loop)
        try:
            return future.result(patience)
        except TimeoutError as error:
            if future.done():
                raise
            raise WaitTimeoutError(
                f"the event loop did not answer in {patience:g} s"
            ) from error
        finally:
            # Whoever is interrupted while waiting leaves no call behind.
            future.cancel()

    def close(self) -> None:
        """End the thread, if one was started. The next call starts another."""
        with self._lock:
            portal, self._portal = self._portal, None
        if portal is not None:
            portal.close()

    def _refuse_late_opening(self, connection: object) -> None:
        # To open may mean to write, and the caller's transaction may hold the one write lock.
        if self._app.loop is None and getattr(connection, "in_transaction", True):
            raise ConfigError("the app is not open; call app.sync.open() before you begin")
        self._loop()

    def _forget(self) -> None:
        # The parent's thread did not come along, and its lock may have been held by another.
        self._portal = None
        self._lock = threading.Lock()

    def _loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            loop = self._app.loop
            if loop is None:
                self._portal = _Portal(self._app)
                loop = self._portal.loop
            return loop


class _Portal:
    """A thread with an event loop on which the app is open.

    A daemon: whoever returned from a verb has its answer, so nothing is lost when the process
    ends without `close`.
    """

    def __init__(self, app: Openable) -> None:
        self._app = app
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self.loop.run_forever, name="longshore-sync", daemon=True
        )
        self._thread.start()
        try:
            self._wait(app.__aenter__())
        except BaseException:
            self._stop()
            raise

    def close(self) -> None:
        """Close the app and end the thread."""
        if self._thread.is_alive():
            self._wait(self._app.__aexit__(None, None, None))
            self._stop()

    def _wait(self, call: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(call, self.loop).result(_PATIENCE)

    def _stop(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(_PATIENCE)
        self.loop.close()


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
