"""Say in the log when a circuit breaker opens or closes."""

import logging

from longshore.contract import Records
from longshore.core.limit_settings import Phase
from longshore.records import breaker_settings

__all__ = ["BreakerWatch"]

log = logging.getLogger("longshore.scheduler")

_TICK = 1.0
_EVENTS = {
    Phase.OPEN: (logging.WARNING, "breaker opened"),
    Phase.HALF_OPEN: (logging.INFO, "breaker half-opened"),
    Phase.CLOSED: (logging.INFO, "breaker closed"),
}


class BreakerWatch:
    """Compares how breakers stand with how they stood a second ago.

    The store moves them, and no process of the fleet is there when it does. What came and
    went within the second is in the events.
    """

    def __init__(self, engine: Records) -> None:
        self._engine = engine
        self._known: dict[str, Phase] = {}

    async def tick(self) -> float:
        """Tell what has changed; look again in a second."""
        stands = {one.type: one.phase for one in await breaker_settings.every(self._engine)}
        for type_name, phase in stands.items():
            if phase is not self._known.get(type_name, Phase.CLOSED):
                level, event = _EVENTS[phase]
                log.log(level, event, extra={"type": type_name})
        self._known = stands
        return _TICK
