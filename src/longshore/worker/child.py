"""A child process: imports the worker's tasks and runs one job after another, alone.

Forked by `worker.child_reaper`, which is its parent in its worker's place. The handler has the
main thread, so that a signal can interrupt it: SIGTERM is how the worker tells it to stop, and
raises CancelledError in it, once. Whatever the handler then does, the worker kills this
process afterwards.
"""

import asyncio
import inspect
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Coroutine, Generator
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    ExitStack,
    contextmanager,
    suppress,
)
from contextvars import copy_context
from time import monotonic
from typing import Any, cast

from longshore import tracing
from longshore.core.job import Claim
from longshore.core.settle import failure
from longshore.errors import ConfigError, LongshoreError
from longshore.job_context import COMPLETER, CURRENT, REPORTER, Slot
from longshore.worker import app_locator, child_protocol, seccomp_guard
from longshore.worker.child_progress import Teller
from longshore.worker.outcome import describe
from longshore.worker.own_tasks import EXIT_BROKEN, OwnTask, end_process, guarding_loop
from longshore.worker.process_tree import rss_bytes
from longshore.worker.registry import Execution, Handler, Registry
from longshore.worker.self_signals import auditing_all_signals, refusing_self_signals

__all__ = ["Child", "main"]

_CHUNK = 1 << 16
_TOLD = "the worker told this job to stop"
_OOM_SCORE = 500
"""Of 1,000: when memory runs out, the kernel takes a child before its worker."""


_Ended = tuple[object, BaseException | None]
"""What a handler returned, or what it raised: not raised again, which would add our frames."""


class _Running:
    """The job as its handler sees it."""

    __slots__ = ("cancel_requested", "claim", "deadline", "is_untold")

    def __init__(self, order: child_protocol.Order) -> None:
        self.claim: Claim | None = order.claim
        left = float("inf") if order.seconds is None else order.seconds
        self.deadline = monotonic() + left
        self.cancel_requested = False
        self.is_untold = False
        """The request came when the handler could not be interrupted."""

    def charge_crash(self) -> None:
        """End this process, which runs nothing but this job: that is the crash."""
        end_process(EXIT_BROKEN)


class _NotOpenError(Exception):
    """The app could not be opened for a handler that finds it open in a worker."""


class _NoTransactions:
    """Refuses what needs the worker's own connection to the engine."""

    was_asked = False

    def transaction(self, slot: Slot) -> AbstractAsyncContextManager[Any]:
        """A ConfigError."""
        self.was_asked = True
        raise ConfigError(
            "job.transaction() is for async tasks on the event loop of their worker; this one "
            "runs in a process of its own"
        )

    def keep(self, slot: Slot, result: object) -> None:
        """The same."""
        self.transaction(slot)


class Child:
    """Runs orders as they come, until the worker has no more."""

    def __init__(
        self,
        handlers: Callable[[str], Handler],
        connection: socket.socket,
        *,
        is_weighed: bool = False,
        app: AbstractAsyncContextManager[Any] | None = None,
    ) -> None:
        self._handlers = handlers
        self._teller = Teller(connection, self._undisturbed)
        self._is_weighed = is_weighed
        self._app = app
        """Open around coroutines that expect to share the event loop of their worker."""
        self._running: _Running | None = None
        self._is_interruptible = False
        self._task: asyncio.Task[Any] | None = None
        self._runner: asyncio.Runner | None = None
        self._context = copy_context()
        self._transactions = _NoTransactions()
        self._context.run(COMPLETER.set, self._transactions)
        self._context.run(REPORTER.set, self._teller)
        self._is_fit = True
        self._pid = os.getpid()

    def run(self, order: child_protocol.Order) -> child_protocol.FromChild:
        """Carry it out and tell how it went, which is returned too."""
        if order.fence:
            # Without it the job runs all the same: it may well be innocent.
            with suppress(OSError):
                seccomp_guard.put_up(order.fence)
        self._running = running = _Running(order)
        self._teller.begin(order.now)
        try:
            report = self._outcome(self._handlers(order.claim.type), order.claim)
        finally:
            self._running = running.claim = None
        self._teller.end(report)
        return report

    def interrupt(self, *_: object) -> None:
        """Tell the handler to stop: a coroutine is cancelled, a function raises from here."""
        if os.getpid() != self._pid:
            # Of a process that the handler has forked, SIGTERM means what it always meant.
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGTERM)
        if self._running is None or self._running.cancel_requested:
            return
        self._running.cancel_requested = True
        if self._task is not None:
            self._task.get_loop().call_soon_threadsafe(self._task.cancel)
        elif self._is_interruptible:
            raise asyncio.CancelledError(_TOLD)
        else:
            self._running.is_untold = True

    @contextmanager
    def _undisturbed(self) -> Generator[None]:
        """Let what is done in the block not be broken off by a request to stop."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        was_interruptible, self._is_interruptible = self._is_interruptible, False
        try:
            yield
        finally:
            self._is_interruptible = was_interruptible
        running = self._running
        if was_interruptible and running is not None and running.is_untold:
            running.is_untold = False
            raise asyncio.CancelledError(_TOLD)

    def close(self) -> None:
        """End what handlers left on the event loop."""
        if self._runner is not None:
            self._runner.close()

    def _outcome(self, handler: Handler, claim: Claim) -> child_protocol.FromChild:
        try:
            arguments = handler.decode(claim.payload)
        except Exception as error:
            return child_protocol.Undecodable(message=_bounded(error))
        self._transactions.was_asked = False
        try:
            result, raised = self._call(handler, arguments)
        except _NotOpenError:
            return child_protocol.Unfit(is_for_good=False, **self._facts())
        if raised is not None:
            if self._transactions.was_asked and handler.execution is not Execution.PROCESS:
                return child_protocol.Unfit(is_for_good=True, **self._facts())
            return self._raised(raised)
        try:
            kept = None if result is None else handler.encode_result(result)
        except Exception as error:
            return child_protocol.Unstorable(message=_bounded(error), **self._facts())
        return child_protocol.Returned(result=kept, **self._facts())

    def _call(self, handler: Handler, arguments: Any) -> _Ended:
        context = self._context.copy()
        context.run(CURRENT.set, self._running)
        self._is_interruptible = True
        try:
            result = context.run(handler.run, arguments)
        # SystemExit and KeyboardInterrupt are the handler's too.
        except BaseException as error:
            return None, error
        finally:
            self._is_interruptible = False
        if not inspect.iscoroutine(result):
            return result, None
        if self._runner is None:
            self._runner = asyncio.Runner()
            loop = self._runner.get_loop()
            # As in a worker, there is a task that is not the handler's.
            self._witness = OwnTask(asyncio.Event().wait(), loop=loop)
        app = self._app if handler.execution is Execution.ASYNC else None
        try:
            with guarding_loop(self._runner.get_loop()):
                return self._runner.run(self._await(result, app), context=context)
        except _NotOpenError:
            raise
        except BaseException as error:
            # SystemExit in a task that the handler started leaves the loop on its own, and
            # the handler behind.
            self._is_fit = False
            return None, error

    async def _await(
        self,
        coroutine: Coroutine[Any, Any, object],
        app: AbstractAsyncContextManager[Any] | None,
    ) -> _Ended:
        async with AsyncExitStack() as stack:
            if app is not None:
                try:
                    await stack.enter_async_context(app)
                except LongshoreError as error:
                    coroutine.close()
                    raise _NotOpenError from error
            self._task = asyncio.current_task()
            if self._task and self._running and self._running.cancel_requested:
                self._task.cancel()
            try:
                return await coroutine, None
            except BaseException as error:
                return None, error
            finally:
                self._task = None

    def _raised(self, error: BaseException) -> child_protocol.Raised:
        try:
            wish = child_protocol.wish_of(error, _bounded(error))
            return child_protocol.Raised(failure=describe(error), wish=wish, **self._facts())
        except MemoryError:
            why = failure("MemoryError", "no memory is left to tell more")
            return child_protocol.Raised(failure=why, is_last=True)

    def _facts(self) -> dict[str, Any]:
        held = rss_bytes() if self._is_weighed else 0
        return {"rss_bytes": held, "is_last": not self._is_fit}


def main(fd: int, line: int) -> None:
    """Serve the worker at the other end of the socket; `line` is the lifeline."""
    _volunteer()
    connection = socket.socket(fileno=fd)
    connection.set_inheritable(False)
    os.set_inheritable(line, False)
    # A process that a handler forks answers nobody.
    os.register_at_fork(after_in_child=connection.close)
    for stream in (sys.stdout, sys.stderr):
        # What was printed must not be lost with a process that is killed.
        if stream is not None:
            cast("Any", stream).reconfigure(line_buffering=True)
    orders = _Orders(connection)
    with auditing_all_signals(), ExitStack() as stack:
        try:
            setup = cast("child_protocol.Setup", orders.next())
            handlers, app = _handlers(setup, stack)
            child = Child(handlers, connection, is_weighed=setup.is_weighed, app=app)
        # SystemExit too: whatever keeps the tasks from being imported is told to the worker.
        except BaseException as error:
            connection.sendall(child_protocol.encode(_refusal(error)))
            return
        signal.signal(signal.SIGTERM, child.interrupt)
        stack.enter_context(refusing_self_signals())
        connection.sendall(child_protocol.encode(child_protocol.Ready(os.getpid())))
        _serve(child, orders)


class _Orders:
    """The worker's messages, one by one; None when there are no more."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._frames = child_protocol.Frames()
        self._bodies: list[bytes] = []

    def next(self) -> child_protocol.ToChild | None:
        """The next one, whole."""
        while not self._bodies:
            chunk = self._connection.recv(_CHUNK)
            if not chunk:
                return None
            self._bodies += self._frames.feed(chunk)
        return child_protocol.decode_order(self._bodies.pop(0))


def _serve(child: Child, orders: _Orders) -> None:
    while (order := orders.next()) is not None:
        report = child.run(cast("child_protocol.Order", order))
        if cast("child_protocol.Report", report).is_last:
            break
    child.close()


def _handlers(
    setup: child_protocol.Setup, stack: ExitStack
) -> tuple[Callable[[str], Handler], AbstractAsyncContextManager[Any] | None]:
    """What runs each type, all of them found, or ConfigError. The app is moved for good."""
    app = None
    sys.path[:] = setup.search_path
    found: Any = app_locator.load(setup.origin)
    if isinstance(found, Registry):
        handlers = {name: found.get(name) for name in setup.types}
    else:
        app = stack.enter_context(found._as_in_worker(setup.origin))
        tasks, settings = app.tasks, app.settings
        if setup.origin.logs is not None:
            # The worker is a process of Longshore's own, and so is this one.
            stack.enter_context(tracing.exporting(settings.tracing))
        own = (tasks[name].handler() for name in setup.types if name in tasks)
        traced = tracing.around(own, settings.tracing, settings.worker.name)
        handlers = {handler.type: handler for handler in traced}
    known = {name: one for name, one in handlers.items() if one is not None}
    if unknown := set(setup.types) - known.keys():
        raise ConfigError(
            f"task {min(unknown)!r} is not there when a child process imports "
            f"{', '.join(setup.origin.modules)}; declare it at the top level of a module"
        )
    return known.__getitem__, app


def _refusal(error: BaseException) -> child_protocol.Refused:
    why = describe(error)
    is_plain = isinstance(error, ConfigError)
    words = why.message if is_plain else f"{why.kind}: {why.message}"
    return child_protocol.Refused(words, why.traceback)


def _volunteer() -> None:
    with suppress(OSError), open("/proc/self/oom_score_adj", "r+") as file:
        if int(file.read()) < _OOM_SCORE:
            file.seek(0)
            file.write(str(_OOM_SCORE))


def _bounded(error: BaseException) -> str:
    return describe(error).message
