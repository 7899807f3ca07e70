"""Keeps the lease, and learns from the engine which jobs to stop."""

import logging
from collections.abc import Callable

from longshore.errors import EngineBusyError, EngineUnavailableError, LeaseLostError
from longshore.worker.attempt import Stop
from longshore.worker.lease import Standing
from longshore.worker.settler import Settler
from longshore.worker.slots import Slots

__all__ = ["Renewer"]

log = logging.getLogger("longshore.worker")

_SOON = 0.1
"""Seconds until it is looked again whether there is a session. The first renewal tells how it
shares its queues."""


class Renewer:
    """Renews each third of the lease; after a renewal that failed, ten times as often."""

    def __init__(
        self,
        standing: Standing,
        slots: Slots,
        settler: Settler,
        *,
        every: float,
        on_lost: Callable[[int], None],
        on_quiet: Callable[[], None],
    ) -> None:
        self._standing = standing
        self._slots = slots
        self._settler = settler
        self._every = every
        self._on_lost = on_lost
        self._on_quiet = on_quiet

    async def tick(self) -> float:
        """Renew, and compare what both sides hold."""
        if not self._standing.is_live:
            return min(self._every, _SOON)
        held = [*self._slots.references(), *self._settler.references()]
        try:
            answer = await self._standing.renew(held)
        except LeaseLostError as lost:
            # A late answer may be about the session before this one; hence the token.
            self._on_lost(lost.token)
            return self._every
        except (EngineBusyError, EngineUnavailableError, TimeoutError) as error:
            # Unknown, not lost: it may have been renewed, and there is time to ask again.
            log.warning("renewal failed", extra={"error": str(error) or "no answer"})
            return self._every / 10
        self._slots.stop(answer.lost, Stop.LOST)
        self._slots.stop(answer.cancel, Stop.CANCEL)
        if answer.released:
            log.warning("unknown claims released", extra={"count": answer.released})
        if answer.is_quiet:
            self._on_quiet()
        return self._every
