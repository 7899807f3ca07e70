"""Keeps jobs from cancelling tasks of their worker, and from stopping its event loop.

A handler shares the event loop with its worker and with other jobs. If it cancels every task it
finds, or stops the loop, it would end them all, and the worker would leave as if it had been
asked to. So a worker's own tasks refuse to be cancelled from inside a job, the loop refuses to
be stopped from there, and the job that tried is charged a crash. The context variable `CURRENT`
names that job: tasks, callbacks and `asyncio.to_thread` inherit it from the handler.
"""

import asyncio
import os
import sys
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager, suppress
from typing import Any, NoReturn, Protocol, TypeVar, cast, runtime_checkable

from longshore.job_context import CURRENT

__all__ = [
    "EXIT_BROKEN",
    "Chargeable",
    "OwnTask",
    "charge_crash",
    "end_process",
    "guarding_loop",
    "make_task",
    "own_task",
]

T = TypeVar("T")

EXIT_BROKEN = 77
"""Exit code of a worker, or a child process, that a job has broken from inside."""


@runtime_checkable
class Chargeable(Protocol):
    """A running job that can be charged a crash for what it did to its worker."""

    def charge_crash(self) -> None:
        """Let the attempt end as a crash, whatever its handler does now."""
        ...


class OwnTask(asyncio.Task[T]):
    """A task that a job can cancel only if it started the task, or runs in it now.

    `runs` tells which job the task runs now, if any.
    """

    def __init__(
        self,
        coroutine: Coroutine[Any, Any, T] | Generator[Any, None, T],
        *,
        runs: Callable[[], object] = lambda: None,
        **options: Any,
    ) -> None:
        self._runs = runs
        self._starter = CURRENT.get()
        super().__init__(coroutine, **options)

    def cancel(self, msg: Any | None = None) -> bool:
        """Cancel the task; from inside a job that has no right to, charge that job instead."""
        return super().cancel(msg) if self._may_cancel() else False

    def _may_cancel(self) -> bool:
        job = CURRENT.get()
        return job in (None, self._starter, self._runs()) or not charge_crash(job)


def own_task(
    coroutine: Coroutine[Any, Any, T],
    *,
    name: str | None = None,
    runs: Callable[[], object] = lambda: None,
) -> OwnTask[T]:
    """Start a task of the worker's on the running loop, in a copy of the present context."""
    return OwnTask(coroutine, loop=asyncio.get_running_loop(), name=name, runs=runs)


def make_task(
    loop: asyncio.AbstractEventLoop,
    coroutine: Coroutine[Any, Any, T] | Generator[Any, None, T],
    **options: Any,
) -> asyncio.Task[T]:
    """Task factory for a loop of Longshore's own: tasks that no job starts are the worker's."""
    if CURRENT.get() is None:
        return OwnTask(coroutine, loop=loop, **options)
    return asyncio.Task(coroutine, loop=loop, **options)


class _Stop:
    """Replaces the `stop` of an event loop while at least one worker runs on it."""

    def __init__(self, stop: Callable[[], None]) -> None:
        self._stop = stop
        self._owner = CURRENT.get()
        self.workers = 0

    def __call__(self) -> None:
        """Stop the loop; from inside a job, charge that job instead."""
        job = CURRENT.get()
        if job in (None, self._owner) or not charge_crash(job):
            self._stop()


@contextmanager
def guarding_loop(loop: asyncio.AbstractEventLoop) -> Generator[None]:
    """Inside the block no job can stop the loop, be it Longshore's or the user's own."""
    guarded = cast("Any", loop)
    if not isinstance(guarded.stop, _Stop):
        guarded.stop = _Stop(guarded.stop)
    stop = guarded.stop
    stop.workers += 1
    try:
        yield
    finally:
        stop.workers -= 1
        if not stop.workers and guarded.stop is stop:
            del guarded.stop


def end_process(code: int) -> NoReturn:
    """End this process at once, after flushing standard output and error."""
    for stream in (sys.stdout, sys.stderr):
        # The interrupted code may be writing to the stream, or have closed it.
        with suppress(OSError, RuntimeError, ValueError, AttributeError):
            stream.flush()
    os._exit(code)


def charge_crash(job: object) -> bool:
    """Charge the job a crash, if it is one that a worker runs; whether it is."""
    if not isinstance(job, Chargeable):
        return False
    job.charge_crash()
    return True
