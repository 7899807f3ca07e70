"""Signals: the first asks a worker to drain, the second to leave at once, the third kills it.

A handler of ours only sets things in motion on the event loop; nothing is raised into
whatever code happened to run.
"""

import asyncio
import ctypes
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager, suppress
from time import monotonic
from typing import Any, Protocol, TypeVar

__all__ = ["begin_again", "drained_by_signals", "leave", "leave_with_parent", "run_to_end"]

log = logging.getLogger("longshore.worker")

T = TypeVar("T")

_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_PR_SET_PDEATHSIG = 1
_ECHO = 0.02
"""Seconds within which a signal is the same one again: `timeout` and some shells send it to the
process and then to its group."""
_PARTING = 0.05
"""Seconds in which tasks and threads may end once all has been done; they were told before."""
_left: list[asyncio.Task[Any] | threading.Thread] = []
"""Those that did not. Never freed: a task that is destroyed while it waits makes a fuss."""


class Leaver(Protocol):
    """Something that can be asked to go: a worker, a scheduler."""

    def drain(self) -> None:
        """Finish what runs, and go."""
        ...

    def stop_now(self) -> None:
        """Go."""
        ...


@contextmanager
def drained_by_signals(leaver: Leaver) -> Generator[None]:
    """Inside the block SIGTERM and SIGINT drain; call it in the running loop."""
    loop = asyncio.get_running_loop()
    steps: list[Callable[[], None]] = [leaver.drain, leaver.stop_now]
    last = -_ECHO

    def received(number: signal.Signals) -> None:
        nonlocal last
        is_echo, last = loop.time() - last < _ECHO, loop.time()
        if is_echo:
            return
        log.info("signal received", extra={"signal": number.name})
        if steps:
            steps.pop(0)()
        if not steps:
            for one in _SIGNALS:
                loop.remove_signal_handler(one)
                signal.signal(one, signal.SIG_DFL)

    for number in _SIGNALS:
        loop.add_signal_handler(number, received, number)
    try:
        yield
    finally:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)


def run_to_end(
    main: Coroutine[Any, Any, T],
    *,
    loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None,
) -> T:
    """Like `asyncio.run`, but outlives a SystemExit raised in a task that a handler started.

    asyncio lets the SystemExit of any task out of the loop. The task that raised it keeps it,
    and so whoever awaits that task hears of it; so the loop can go on. Nor does it wait for
    tasks and threads that handlers have left behind: see `leave`.
    """
    known = set(threading.enumerate())
    runner = asyncio.Runner(loop_factory=loop_factory)
    loop = runner.get_loop()
    task = loop.create_task(main)
    try:
        return _result(loop, task)
    finally:
        with suppress(SystemExit, KeyboardInterrupt):
            _left.extend(loop.run_until_complete(_parted()))
        _left.extend(_lasting(set(threading.enumerate()) - known))
        if not _left:
            runner.close()


def leave(code: int) -> None:
    """End the process at once if what handlers left behind would keep it; else do nothing.

    For the end of a command: what else is to be done has been done.
    """
    if _left:
        log.warning("handlers left behind, process ended", extra={"left": len(_left)})
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
        except SystemExit as error:
            if task.done():
                raise
            log.error("task of a handler raised SystemExit", exc_info=error)  # noqa: TRY400
        except KeyboardInterrupt:
            if not task.cancel():
                raise


def _lasting(threads: set[threading.Thread]) -> list[threading.Thread]:
    """Those for which Python would wait, and that do not end."""
    awaited = [one for one in threads if not one.daemon]
    deadline = monotonic() + _PARTING
    for one in awaited:
        one.join(max(deadline - monotonic(), 0.0))
    return [one for one in awaited if one.is_alive()]


async def _parted() -> set[asyncio.Task[Any]]:
    """Cancel every task; those that do not heed it, the wait for busy threads included."""
    loop = asyncio.get_running_loop()
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    # Not to be cancelled: it would wait for the threads in the middle of the loop.
    threads = loop.create_task(loop.shutdown_default_executor())
    return (await asyncio.wait([*tasks, threads], timeout=_PARTING))[1]


def leave_with_parent(parent: int) -> None:
    """Have this process asked to drain when its parent dies. Linux only; elsewhere nothing.

    `parent` is who started it, and may be gone by now.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:
            os.kill(os.getpid(), signal.SIGTERM)
