"""The end of requests that take too long: one timer for all of them, not one for each."""

import asyncio
from types import TracebackType
from typing import Any

__all__ = ["Patience"]

_LOOK_S = 1.0


class Patience:
    """Inside the block a task has so many seconds, and up to one more; then TimeoutError."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._since: dict[asyncio.Task[Any], float] = {}
        """Who is inside, oldest first."""
        self._spent: set[asyncio.Task[Any]] = set()
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> None:
        loop = asyncio.get_running_loop()
        task = asyncio.current_task(loop)
        assert task is not None
        self._since[task] = loop.time()
        if self._timer is None:
            self._timer = loop.call_later(_LOOK_S, self._look, loop)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._since.pop(task, None)
        if task in self._spent:
            self._spent.discard(task)
            if task.uncancel() == 0 and kind is asyncio.CancelledError:
                raise TimeoutError from error

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        """Interrupt those whose time is over; look again while anyone is inside."""
        now = loop.time()
        for task, since in list(self._since.items()):
            if now - since < self._seconds:
                break
            del self._since[task]
            self._spent.add(task)
            task.cancel()
        self._timer = loop.call_later(_LOOK_S, self._look, loop) if self._since else None
