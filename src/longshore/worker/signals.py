"""Signals: the first asks a worker to drain, the second to leave at once, the third kills it.

A handler of ours only sets things in motion on the event loop; nothing is raised into
whatever code happened to run. Signals are heeded from the first lines of a command to its end:
before there is anything to drain, and once it is drained, they end the process at once. What a
job sends to its own worker does not arrive here: see `worker.self_signals`.
"""

import asyncio
import atexit
import ctypes
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager, suppress
from contextvars import copy_context
from time import monotonic
from typing import Any, NoReturn, Protocol, TypeVar

from longshore.worker.own_tasks import EXIT_BROKEN, end_process, make_task
from longshore.worker.self_signals import STOP_SIGNALS

__all__ = [
    "before_leaving",
    "begin_again",
    "drained_by_signals",
    "leave",
    "leave_at_once_on_signals",
    "leave_with_parent",
    "run_to_end",
]

log = logging.getLogger("longshore.worker")

T = TypeVar("T")

_PR_SET_PDEATHSIG = 1
_REPEAT_WITHIN = 0.02
"""Seconds within which a second signal counts as the first one repeated: `timeout` and some
shells send a signal to the process and then to its group."""
_CHECK_EVERY = 0.25
"""Seconds between two checks whether a job has replaced the signal handlers. A signal that
comes just before the event loop goes to sleep is handled at the next check, too."""
_LEFTOVER_GRACE = 0.05
"""Seconds for tasks and threads of handlers to end after `main`; they were told to before."""
_leftovers: list[asyncio.Task[Any] | threading.Thread] = []
"""Tasks and threads that did not end. Never freed, since asyncio logs an error for every
pending task that is destroyed."""
_before_exit: list[Callable[[], object]] = []
"""Functions to call before a signal ends the process at once."""


class Stoppable(Protocol):
    """A service that can be asked to stop: a worker, a scheduler."""

    def drain(self) -> None:
        """Finish what runs, then stop."""
        ...

    def stop_now(self) -> None:
        """Stop without finishing what runs."""
        ...


class _LastSignal:
    """When this process last handled a stop signal, by whichever handler."""

    at = -_REPEAT_WITHIN

    @classmethod
    def is_repeated(cls) -> bool:
        """Note that a signal came now; whether it only repeats the one before."""
        before, cls.at = cls.at, monotonic()
        return cls.at - before < _REPEAT_WITHIN


class _Drain:
    """Handles the stop signals of a running service: the first drains, the second stops it."""

    def __init__(self, service: Stoppable, loop: asyncio.AbstractEventLoop) -> None:
        self._steps: list[Callable[[], None]] = [service.drain, service.stop_now]
        self._loop = loop
        # Not that of the job that happens to run when a signal comes.
        self._context = copy_context()
        self._handler = _handler(self._received)
        self._next_check: asyncio.TimerHandle

    def begin(self) -> None:
        """Set the signal handlers, and keep them set."""
        for number in STOP_SIGNALS:
            _set(number, self._handler)
        self._next_check = self._loop.call_later(_CHECK_EVERY, self._restore_handlers)

    def end(self) -> None:
        """Check the signal handlers no more; they stay set."""
        self._next_check.cancel()

    def _received(self, number: signal.Signals) -> None:
        self._loop.call_soon_threadsafe(self._advance, number, context=self._context)

    def _advance(self, number: signal.Signals) -> None:
        log.info("signal received", extra={"signal": number.name})
        if self._steps:
            self._steps.pop(0)()
        if not self._steps:
            for one in STOP_SIGNALS:
                signal.signal(one, signal.SIG_DFL)

    def _restore_handlers(self) -> None:
        """Set our handlers again where a job has replaced them."""
        self._next_check = self._loop.call_later(_CHECK_EVERY, self._restore_handlers)
        for number in STOP_SIGNALS if self._steps else ():
            if signal.getsignal(number) is not self._handler:
                log.warning("signal handler replaced by a job", extra={"signal": number.name})
                _set(number, self._handler)


@contextmanager
def drained_by_signals(service: Stoppable) -> Generator[None]:
    """Inside the block SIGTERM and SIGINT drain; call it in the running loop.

    A job that sets other handlers loses them within a quarter of a second.
    """
    drain = _Drain(service, asyncio.get_running_loop())
    previous = {number: signal.getsignal(number) for number in STOP_SIGNALS}
    drain.begin()
    try:
        yield
    finally:
        drain.end()
        # In one step, for a signal must never meet the default, which kills.
        for number, before in previous.items():
            _set(number, before)


def leave_at_once_on_signals() -> None:
    """From now on SIGTERM and SIGINT end this process, with exit code 0.

    For the first lines of a command that stays: nothing has begun, or, after the block of
    `drained_by_signals`, all has ended. Only for a process of Longshore's own.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    handler = _handler(lambda _: _leave_at_once())
    for number in STOP_SIGNALS:
        _set(number, handler)
    # Registered first, so it is done last: Python ends with the default handlers.
    atexit.register(_ignore_signals)


def before_leaving(act: Callable[[], object]) -> None:
    """Call this function before a signal ends the process at once."""
    _before_exit.append(act)


def run_to_end(
    main: Coroutine[Any, Any, T],
    *,
    loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None,
) -> T:
    """Like `asyncio.run`, but outlives a SystemExit raised in a task that a handler started.

    asyncio lets the SystemExit of any task out of the loop. The task that raised it keeps it,
    and so whoever awaits that task hears of it; so the loop can go on. It goes on too when
    somebody has stopped it. No job can cancel `main`, or any task that no job has started. Nor
    does it wait for tasks and threads that handlers have left behind: see `leave`.
    """
    known = set(threading.enumerate())
    runner = asyncio.Runner(loop_factory=loop_factory)
    loop = runner.get_loop()
    loop.set_task_factory(make_task)
    task = loop.create_task(main)
    try:
        return _result(loop, task)
    finally:
        with suppress(SystemExit, KeyboardInterrupt):
            _leftovers.extend(loop.run_until_complete(_cancel_tasks()))
        _leftovers.extend(_leftover_threads(set(threading.enumerate()) - known))
        if not _leftovers:
            runner.close()


def leave(code: int) -> None:
    """End the process at once if what handlers left behind would keep it; else do nothing.

    For the end of a command: what else is to be done has been done.
    """
    if _leftovers:
        log.warning("handlers left behind, process ended", extra={"left": len(_leftovers)})
        logging.shutdown()
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(code)


def begin_again(folder: str) -> None:
    """Run the command of this process anew in its place, from the folder it began in.

    The process keeps its number, so whoever watches over it sees no end. Threads that never
    end, and all that handlers have opened, are gone.
    """
    log.warning("worker begins again", extra={"pid": os.getpid()})
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os.chdir(folder)
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def _result(loop: asyncio.AbstractEventLoop, task: asyncio.Task[T]) -> T:
    while True:
        try:
            return loop.run_until_complete(task)
        except BaseException as error:
            if task.done():
                raise
            if isinstance(error, KeyboardInterrupt) and _is_interruptible():
                task.cancel()
            else:
                _survive(error, loop)


def _is_interruptible() -> bool:
    """Ctrl-C raises KeyboardInterrupt, as it does before anyone heeds signals."""
    return signal.getsignal(signal.SIGINT) is signal.default_int_handler


def _survive(error: BaseException, loop: asyncio.AbstractEventLoop) -> None:
    """Log what a job has let out of the event loop; if the loop is broken, end the process."""
    if isinstance(error, SystemExit | KeyboardInterrupt):
        log.error("a job raised %s on the event loop", type(error).__name__, exc_info=error)
    elif not loop.is_closed() and "stopped before" in str(error):
        log.error("a job stopped the event loop; it goes on")
    else:
        # Its descriptors were closed, or it was closed itself.
        log.critical("a job broke the event loop, process ended", exc_info=error)
        end_process(EXIT_BROKEN)


def _leftover_threads(threads: set[threading.Thread]) -> list[threading.Thread]:
    """The threads that do not end in time, and for which Python would wait at its exit."""
    awaited = [one for one in threads if not one.daemon]
    deadline = monotonic() + _LEFTOVER_GRACE
    for one in awaited:
        one.join(max(deadline - monotonic(), 0.0))
    return [one for one in awaited if one.is_alive()]


async def _cancel_tasks() -> set[asyncio.Task[Any]]:
    """Cancel every task, and return those that do not end in time.

    One of them waits for the threads of the default executor.
    """
    loop = asyncio.get_running_loop()
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    # Not to be cancelled: it would wait for the threads in the middle of the loop.
    threads = loop.create_task(loop.shutdown_default_executor())
    return (await asyncio.wait([*tasks, threads], timeout=_LEFTOVER_GRACE))[1]


def leave_with_parent(parent: int) -> None:
    """Have this process asked to drain when its parent dies. Linux only; elsewhere nothing.

    `parent` is who started it, and may be gone by now.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:
            raise SystemExit(0)


def _handler(received: Callable[[signal.Signals], None]) -> Callable[[int, object], None]:
    """A Python signal handler that calls `received` once per signal sent to this process."""
    pid = os.getpid()

    def handle(number: int, _: object) -> None:
        if os.getpid() != pid:
            # Of a process that a job has forked, the signal means what it always meant.
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        elif not _LastSignal.is_repeated():
            received(signal.Signals(number))

    return handle


def _set(number: int, handler: Any) -> None:
    signal.signal(number, handler)
    if callable(handler):
        signal.siginterrupt(number, False)


def _ignore_signals() -> None:
    for number in STOP_SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def _leave_at_once() -> NoReturn:
    for act in _before_exit:
        act()
    end_process(0)
