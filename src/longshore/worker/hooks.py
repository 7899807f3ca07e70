"""Runs what tasks want done after a job of theirs was cancelled."""

import asyncio
import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import Context, copy_context
from typing import Any

from longshore.core import ids
from longshore.job_context import CURRENT
from longshore.worker.attempt import Attempt
from longshore.worker.registry import Hook

__all__ = ["Hooks"]

log = logging.getLogger("longshore.worker")

_LONGEST = 10.0
"""Seconds for one hook."""
_AT_ONCE = 32
_CLOSING = 0.2


class Hooks:
    """At most 32 at once, each with its deadline. Nothing they do changes how a job ended."""

    def __init__(self, *, on_idle: Callable[[], None]) -> None:
        self._on_idle = on_idle
        self._turn = asyncio.Semaphore(_AT_ONCE)
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def is_busy(self) -> bool:
        """Some have not ended."""
        return bool(self._tasks)

    def run(self, attempt: Attempt) -> None:
        """Start the hooks of a job that the engine has accepted as cancelled."""
        context = copy_context()
        context.run(CURRENT.set, attempt)
        loop = asyncio.get_running_loop()
        task = loop.create_task(self._run_all(attempt, context), context=context)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    async def close(self) -> None:
        """Stop those that still run."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_CLOSING)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not self._tasks:
            self._on_idle()

    async def _run_all(self, attempt: Attempt, context: Context) -> None:
        claim, handler = attempt.claim, attempt.handler
        async with self._turn:
            for hook in handler.on_cancelled:
                error = await _outcome(hook, handler.decode(claim.payload), context)
                if error is not None:
                    why = f"{type(error).__name__}: {error}"
                    facts = {"job": ids.text(claim.id), "type": claim.type, "error": why}
                    log.warning("cancelled hook failed", extra=facts)


async def _outcome(hook: Hook, arguments: Any, context: Context) -> BaseException | None:
    """What the hook raised, if anything, a TimeoutError if it took too long."""
    try:
        async with asyncio.timeout(_LONGEST):
            if not hook.is_async:
                return await asyncio.wrap_future(_in_thread(hook, arguments, context))
            await hook.run(arguments)
    # SystemExit and KeyboardInterrupt are the hook's too: here they end nothing else.
    except BaseException as error:
        task = asyncio.current_task()
        if isinstance(error, asyncio.CancelledError) and task and task.cancelling():
            raise
        return error
    return None


def _in_thread(hook: Hook, arguments: Any, context: Context) -> Future[BaseException | None]:
    ended: Future[BaseException | None] = Future()
    ended.set_running_or_notify_cancel()

    def serve() -> None:
        raised: BaseException | None = None
        try:
            context.copy().run(hook.run, arguments)
        except BaseException as error:
            raised = error
        ended.set_result(raised)

    # A daemon, and not of the loop's executor: a worker that leaves does not wait for it.
    threading.Thread(target=serve, name="longshore-hook", daemon=True).start()
    return ended
