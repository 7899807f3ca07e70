"""Ends sessions that the worker has lost, so that their jobs need not wait for reclaim.

A worker that could not renew stops its handlers and opens another session as soon as the store
answers. The lost session may still be there, with its jobs: reclaimers, which noticed the
outage too, wait one full lease before they touch it. The worker itself need not wait. Once all
handlers of the session have stopped, nobody runs its jobs, and the worker ends it.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass

from longshore.core.crash_record import outlived
from longshore.core.job import Held, Settlement
from longshore.errors import LeaseLostError, LongshoreError
from longshore.runtime.ticker import Beat
from longshore.worker.attempt import Attempt, Stop
from longshore.worker.settler import Batch, Settler
from longshore.worker.slots import Slots

__all__ = ["LostSessions"]

log = logging.getLogger("longshore.worker")

_CHECK_EVERY = 0.05
"""Seconds between two checks whether the handlers of a lost session have stopped."""
_IDLE = 60.0


@dataclass(frozen=True, slots=True)
class _Lost:
    """A session that this worker has lost, and what the worker knows of its jobs."""

    token: int
    running: frozenset[Attempt]
    """Attempts whose handlers ran when the lease was over; they were told to stop."""
    unsettled: Batch
    """Attempts that had ended under the lease, and that the store has not acknowledged."""


class LostSessions:
    """The sessions that the worker has lost and not yet ended.

    A session whose handlers do not all stop is left to reclaim: a thread that runs on, or a
    coroutine that swallows its cancellation, keeps all jobs of its session waiting.
    """

    def __init__(self, slots: Slots, settler: Settler, *, on_ended: Callable[[], None]) -> None:
        """`on_ended` is called when jobs of a lost session can be claimed again."""
        self._slots = slots
        self._settler = settler
        self._standing = settler.standing
        self._lost: list[_Lost] = []
        self._on_ended = on_ended
        self.beat = Beat("lost sessions", self.tick)

    def add(self, token: int) -> None:
        """Stop the handlers of a session that is lost, and end it when they have stopped."""
        running = [one for one in self._slots.attempts() if one.stop is not Stop.LOST]
        self._slots.abandon()
        self._lost.append(_Lost(token, frozenset(running), self._settler.forget()))
        self.beat.nudge()

    async def tick(self) -> float:
        """End the sessions whose handlers have stopped, if the store can be reached."""
        at_work = set(self._slots.attempts())
        stopped = [one for one in self._lost if at_work.isdisjoint(one.running)]
        if self._standing.is_live:
            for one in stopped:
                await self._end(one)
        return _CHECK_EVERY if self._lost else _IDLE

    async def _end(self, lost: _Lost) -> None:
        engine_time = self._standing.engine_time
        started = {one.reference: engine_time(one.started) for one in lost.running}

        def decide(held: list[Held]) -> list[Settlement]:
            return outlived(held, lost.unsettled.settlements, stopped=started)

        try:
            held = await self._standing.end_lost(lost.token, decide)
        except LeaseLostError:
            return  # the store cannot be reached again; the next tick that can retries
        except LongshoreError as error:
            # A retry would fail in the same way: a key that was revoked, another schema.
            log.warning(
                "lost session left to reclaim", extra={"token": lost.token, "error": str(error)}
            )
            held = []
        self._lost.remove(lost)
        if held:
            settled = lost.unsettled.only({(one.handle, one.delivery) for one in held})
            count = len(settled.settlements)
            log.warning(
                "lost session ended",
                extra={"token": lost.token, "settled": count, "released": len(held) - count},
            )
            self._settler.accepted(settled, ())
            self._on_ended()
