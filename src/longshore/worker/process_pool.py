"""The child processes of a worker: started when needed, reused, replaced, sent home."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress

from longshore.errors import ConfigError, LongshoreError
from longshore.worker import child_protocol
from longshore.worker.settings import ChildLimits
from longshore.worker.spawned import Spawned
from longshore.worker.starter import Start

__all__ = ["Crew"]

log = logging.getLogger("longshore.worker")

_START = 300.0
"""Seconds in which a child has to import its tasks; some import a whole laboratory."""
_PAUSE = 0.2
_STARTS = 4
"""Children in a row that never became ready, after which there is no point in more."""
_FAREWELL = 5.0
"""Seconds for a child that was sent home to run its exit handlers."""
_CLOSING = 0.5


class Crew:
    """As many children as the limits allow. Each is starting, idle, busy or leaving.

    `on_report` brings how a busy child's order went, `on_progress` how far it is; `on_change`
    says that there may be an idle one, or a fault; `on_gone` that a child is dead, whatever it
    was.
    """

    def __init__(
        self,
        start: Start,
        limits: ChildLimits,
        *,
        on_report: Callable[[Spawned, child_protocol.Report], None],
        on_progress: Callable[[Spawned, child_protocol.Progress], None],
        on_gone: Callable[[Spawned], None],
        on_change: Callable[[], None],
    ) -> None:
        self._start = start
        self._limits = limits
        self._on_report = on_report
        self._on_progress = on_progress
        self._on_gone = on_gone
        self._on_change = on_change
        self._loop: asyncio.AbstractEventLoop
        self._starting: set[Spawned] = set()
        self._idle: dict[Spawned, float] = {}
        """Since when; the last to become idle is the last."""
        self._busy: set[Spawned] = set()
        self._leaving: set[Spawned] = set()
        self._jobs: dict[Spawned, int] = {}
        self._tidying: asyncio.TimerHandle | None = None
        self._failed_starts = 0
        self._has_served = False
        self._is_closed = False
        self._departed = asyncio.Event()
        self.fault: LongshoreError | None = None
        """Why no child can serve."""

    @property
    def pids(self) -> list[int]:
        """Of all children, those on their way out included."""
        everyone = (*self._starting, *self._idle, *self._busy, *self._leaving)
        return [child.runs_as for child in everyone]

    def open(self, loop: asyncio.AbstractEventLoop) -> None:
        """Work on this loop."""
        self._loop = loop

    def take(self) -> Spawned | None:
        """An idle child, for one order."""
        if not self._idle:
            return None
        # The one that was busy last: the others grow old, and leave.
        child, _ = self._idle.popitem()
        self._busy.add(child)
        return child

    def give_back(self, child: Spawned, report: child_protocol.Report) -> None:
        """The order is done: keep the child for the next one, or replace it."""
        self._busy.discard(child)
        self._jobs[child] += 1
        most_jobs, most_bytes = self._limits.jobs, self._limits.recycle_bytes
        if (
            report.is_last
            or self._is_closed
            or (most_jobs is not None and self._jobs[child] >= most_jobs)
            or (most_bytes is not None and report.rss_bytes > most_bytes)
        ):
            self._send_home(child, _FAREWELL)
        else:
            self._rest(child)

    def discard(self, child: Spawned) -> None:
        """Kill a child that was told to stop: it may have left anything, processes included."""
        self._busy.discard(child)
        self._leaving.add(child)
        child.kill()

    def grow(self, wanted: int) -> None:
        """Have so many children idle or on their way, as far as the limit allows."""
        missing = wanted - len(self._idle) - len(self._starting)
        room = self._limits.most - len(self._idle) - len(self._starting) - len(self._busy)
        for _ in range(min(missing, room)):
            if self._is_closed or self.fault is not None or not self._add():
                return

    async def close(self) -> None:
        """End every child, whatever it does. When this returns, none is left."""
        self._is_closed = True
        if self._tidying is not None:
            self._tidying.cancel()
        for child in [*self._starting, *self._busy]:
            child.kill()
        for child in list(self._idle):
            self._send_home(child, _CLOSING)
        for child in self._leaving:
            child.hurry(_CLOSING)
        # Those that were sent home are killed at the end of their patience.
        with suppress(TimeoutError):
            async with asyncio.timeout(2 * _CLOSING):
                while self.pids:
                    self._departed.clear()
                    await self._departed.wait()

    def _add(self) -> bool:
        try:
            child = self._start(self._loop, on_message=self._heard, on_gone=self._gone)
        except OSError as error:
            self._start_failed(str(error))
            return False
        log.debug("child process started", extra={"pid": child.pid})
        child.kill_after(_START)
        self._starting.add(child)
        return True

    def _heard(self, child: Spawned, message: child_protocol.FromChild) -> None:
        if isinstance(message, child_protocol.Ready):
            child.runs_as = message.pid
            self._is_ready(child)
        elif isinstance(message, child_protocol.Refused):
            self._is_refused(child, message)
        elif child not in self._busy:
            return
        elif isinstance(message, child_protocol.Progress):
            self._on_progress(child, message)
        else:
            self._on_report(child, message)

    def _is_ready(self, child: Spawned) -> None:
        self._starting.discard(child)
        self._failed_starts = 0
        self._has_served = True
        self._jobs[child] = 0
        child.spare()
        self._rest(child)
        self._on_change()

    def _is_refused(self, child: Spawned, why: child_protocol.Refused) -> None:
        self._starting.discard(child)
        child.spare()
        self._send_home(child, _FAREWELL)
        log.error("child process refused", extra={"error": why.message, "at": why.traceback})
        # The worker itself has imported these tasks. If children could too until now, the code
        # was replaced on disk, and a fresh worker will do better.
        kind = LongshoreError if self._has_served else ConfigError
        self.fault = kind(f"a child process cannot import the tasks: {why.message}")
        self._on_change()

    def _rest(self, child: Spawned) -> None:
        if self._is_closed:
            self._send_home(child, _CLOSING)
            return
        self._idle[child] = self._loop.time()
        if self._tidying is None:
            patience = self._limits.idle
            self._tidying = self._loop.call_later(patience, self._tidy)

    def _tidy(self) -> None:
        """Send home who has been idle for long."""
        self._tidying = None
        patience = self._limits.idle
        now = self._loop.time()
        for child, since in list(self._idle.items()):
            if now >= since + patience:
                self._send_home(child, _FAREWELL)
        if self._idle:
            oldest = min(self._idle.values())
            self._tidying = self._loop.call_later(oldest + patience - now, self._tidy)

    def _send_home(self, child: Spawned, patience: float) -> None:
        self._idle.pop(child, None)
        self._leaving.add(child)
        child.leave(patience)

    def _gone(self, child: Spawned) -> None:
        is_start = child in self._starting
        for group in (self._starting, self._busy, self._leaving):
            group.discard(child)
        self._idle.pop(child, None)
        self._jobs.pop(child, None)
        log.debug("child process ended", extra={"pid": child.pid, "how": child.epitaph})
        self._departed.set()
        self._on_gone(child)
        if is_start and not self._is_closed:
            self._start_failed(child.epitaph)
        else:
            self._on_change()

    def _start_failed(self, why: str) -> None:
        self._failed_starts += 1
        log.error("child process not started", extra={"error": why})
        if self._failed_starts < _STARTS:
            self._loop.call_later(_PAUSE * 2**self._failed_starts, self._on_change)
            return
        self.fault = self.fault or LongshoreError(f"no child process can be started: {why}")
        self._on_change()
