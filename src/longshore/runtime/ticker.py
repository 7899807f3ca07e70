"""Run a tick again and again, sleeping as long as the tick asks."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from longshore.errors import EngineBusyError, EngineUnavailableError, SchemaError

__all__ = ["FAULTS_OF_STORE", "Beat", "Tick"]

Tick = Callable[[], Awaitable[float]]
"""One step of a loop: returns the seconds until the next one."""

FAULTS_OF_STORE = (EngineUnavailableError, EngineBusyError, SchemaError)
"""Errors of a tick that concern all its items, so that it is tried again later as a whole.
Any other is that of one item, such as a broken record: the tick goes on without it."""

log = logging.getLogger("longshore.beat")

_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 5.0
_LONGEST_SLEEP = 3_600.0


class Beat:
    """A loop around one tick. `nudge` wakes it early, `stop` ends it after the current tick.

    A tick that raises is logged and tried again after a pause that doubles up to five seconds:
    a loop that keeps the queue in order must outlive any single fault.
    """

    def __init__(self, name: str, tick: Tick) -> None:
        self.name = name
        self._tick = tick
        self._wake = asyncio.Event()
        self._stopping = False
        self._pause = _FIRST_PAUSE

    async def run(self) -> None:
        """Tick until stopped."""
        while not self._stopping:
            self._wake.clear()
            delay = await self._guarded_tick()
            # A tick that never waited and was nudged must not keep others from running.
            await asyncio.sleep(0)
            await self._sleep(delay)

    def nudge(self) -> None:
        """Tick now."""
        self._wake.set()

    def stop(self) -> None:
        """Finish the current tick, then return from run."""
        self._stopping = True
        self._wake.set()

    async def _sleep(self, seconds: float) -> None:
        # Not by a timeout: where a tick left a cancellation behind, that would end the loop.
        alarm = asyncio.get_running_loop().call_later(
            min(seconds, _LONGEST_SLEEP), self._wake.set
        )
        try:
            await self._wake.wait()
        finally:
            alarm.cancel()

    async def _guarded_tick(self) -> float:
        try:
            delay = await self._tick()
        except Exception:
            log.exception("tick failed", extra={"beat": self.name, "pause": self._pause})
            delay, self._pause = self._pause, min(self._pause * 2, _LONGEST_PAUSE)
        else:
            self._pause = _FIRST_PAUSE
        return delay
