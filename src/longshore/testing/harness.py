"""Run a queue to its end inside a test, and wait for what other processes do.

    async with drained(app) as queue:
        await sign_up("ann")               # submits jobs
        await queue.drain()                # runs them one by one, and those they submit
        assert mailbox == ["welcome, ann"]

Inside the block the app is on an empty queue in memory, with a clock that stands still. What a
task raises, `drain` raises. A test that does not await says `with drained(app)`.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Generator
from contextlib import AsyncExitStack, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from types import TracebackType
from typing import Any, TypeVar

from longshore.app import Longshore
from longshore.contract import Engine
from longshore.core.units import microseconds
from longshore.directives import Cancel, Dead, Snooze
from longshore.runtime.clock import ManualClock
from longshore.worker.registry import Execution, Handler, Registry
from longshore.worker.settings import WorkerSettings
from longshore.worker.worker import Worker

__all__ = ["Borrowed", "Drained", "Queue", "SyncQueue", "drain", "drained", "eventually"]

T = TypeVar("T")

_MOST_RUNS = 10_000
_PROMOTED = 1_000


@dataclass(slots=True)
class Drained:
    """What a drain did."""

    most: int
    runs: list[str] = field(default_factory=list[str])
    """The type name of every attempt, in order."""
    errors: list[Exception] = field(default_factory=list[Exception])
    """What attempts raised, in order; not wishes to run later or not at all."""

    def raise_errors(self) -> None:
        """Raise the error, if there was one; a group, if there were several."""
        if len(self.errors) == 1:
            raise self.errors[0]
        if self.errors:
            raise ExceptionGroup(f"{len(self.errors)} attempts failed", self.errors)


async def drain(
    app: Longshore,
    *,
    advance: timedelta = timedelta(),
    clock: ManualClock | None = None,
    raises: bool = True,
    most: int = _MOST_RUNS,
) -> Drained:
    """Run every ready job of an open app, one at a time, until none is left.

    With `clock`, the one the engine runs on, also what becomes due within `advance`: retries
    and delayed jobs. The clock jumps from one due time to the next. A job past the `most`th is
    killed: a task that submits itself would never end.
    """
    done = Drained(most=most)
    registry = _recording(app.registry(), done)
    left = microseconds(advance) if clock else 0
    pause: int | None = 0
    while pause is not None and pause <= left:
        if clock:
            clock.advance(pause)
        left -= pause
        before = len(done.runs)
        await _run_ready(app.engine, registry, clock)
        promoted = await app.engine.promote(limit=_PROMOTED)
        # What ran may have submitted to a queue that was empty, and so not served, before.
        is_busy = promoted.count or len(done.runs) > before
        pause = 0 if is_busy else promoted.next_due_in
    if raises:
        done.raise_errors()
    return done


class Queue:
    """An app on a queue of its own, inside `async with drained(app)`."""

    def __init__(self, app: Longshore, clock: ManualClock) -> None:
        self.app = app
        self.clock = clock
        """Stands still unless told to `advance`, or drained with `advance`."""

    async def drain(
        self, advance: timedelta = timedelta(), *, raises: bool = True, most: int = _MOST_RUNS
    ) -> Drained:
        """Run what is ready, and what becomes due within `advance`."""
        return await drain(
            self.app, advance=advance, clock=self.clock, raises=raises, most=most
        )


class SyncQueue:
    """An app on a queue of its own, inside `with drained(app)`."""

    def __init__(self, app: Longshore, clock: ManualClock) -> None:
        self.app = app
        self.clock = clock
        """Stands still unless told to `advance`, or drained with `advance`."""

    def drain(
        self, advance: timedelta = timedelta(), *, raises: bool = True, most: int = _MOST_RUNS
    ) -> Drained:
        """Run what is ready, and what becomes due within `advance`."""
        queue = Queue(self.app, self.clock)
        return self.app.sync.run(lambda: queue.drain(advance, raises=raises, most=most))


def drained(app: Longshore) -> "Borrowed":
    """The app on an empty queue in memory, which is drained once more at the end."""
    return Borrowed(app)


class Borrowed:
    """An app that is moved to a queue of its own for the time of a block."""

    def __init__(self, app: Longshore) -> None:
        self._app = app
        self._clock = ManualClock()
        self._stack = ExitStack()
        self._async_stack = AsyncExitStack()

    async def __aenter__(self) -> Queue:
        self._async_stack.enter_context(self._app.at("sqlite://:memory:", clock=self._clock))
        await self._async_stack.enter_async_context(self._app)
        return Queue(self._app, self._clock)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        async with self._async_stack:
            if error is None:
                await Queue(self._app, self._clock).drain()

    def __enter__(self) -> SyncQueue:
        self._stack.enter_context(self._app.at("sqlite://:memory:", clock=self._clock))
        self._stack.callback(self._app.sync.close)
        return SyncQueue(self._app, self._clock)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._stack:
            if error is None:
                SyncQueue(self._app, self._clock).drain()


async def eventually(
    condition: Callable[[], T | Awaitable[T]], *, within: float = 10.0, every: float = 0.02
) -> T:
    """What `condition` returns, as soon as that is true; AssertionError after `within` seconds.

    For tests of real processes, where nothing else tells when something happened.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + within
    while not (value := await _answer(condition)):
        assert loop.time() < deadline, f"not within {within:g} s; last: {value!r:.200}"
        await asyncio.sleep(every)
    return value


async def _answer(condition: Callable[[], T | Awaitable[T]]) -> T:
    answer: Any = condition()
    return await answer if inspect.isawaitable(answer) else answer


async def _run_ready(engine: Engine, registry: Registry, clock: ManualClock | None) -> None:
    queues = [counts.queue for counts in await engine.counts() if counts.ready]
    if queues:
        settings = WorkerSettings(
            queues=tuple(queues), concurrency=1, claim_batch=1, flush_after=timedelta()
        )
        await Worker(engine, registry, settings, clock=clock).run(until_idle=True)


def _recording(registry: Registry, done: Drained) -> Registry:
    handlers = (registry.get(name) for name in registry.types)
    return Registry(_recorded(handler, done) for handler in handlers if handler)


def _recorded(handler: Handler, done: Drained) -> Handler:
    run: Callable[[Any], Any] = handler.run

    async def run_async(arguments: Any) -> object:
        with _noting(handler.type, done):
            return await run(arguments)

    def run_sync(arguments: Any) -> object:
        with _noting(handler.type, done):
            return run(arguments)

    # What would run in a child process runs here too: a test wants to see what it does.
    is_async = handler.execution is Execution.ASYNC or handler.is_async
    execution = Execution.ASYNC if is_async else Execution.THREAD
    return replace(handler, run=run_async if is_async else run_sync, execution=execution)


@contextmanager
def _noting(type_name: str, done: Drained) -> Generator[None]:
    done.runs.append(type_name)
    try:
        _refuse_endless(done)
        yield
    except Exception as error:
        if not isinstance(error, Snooze | Cancel):
            done.errors.append(error)
        raise


def _refuse_endless(done: Drained) -> None:
    if len(done.runs) > done.most:
        raise Dead(f"the queue is not empty after {done.most} runs; does a task submit itself?")
