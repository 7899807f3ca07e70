"""Show what happens to jobs, as it happens: the outbox as log lines."""

import logging

import msgspec

from longshore.contract import Outbox
from longshore.core import ids
from longshore.core.event import Name, expand

__all__ = ["Tail"]

log = logging.getLogger("longshore.events")

# What a worker and a scheduler log themselves is left out.
_SHOWN = {
    Name.SUBMITTED,
    Name.SUCCEEDED,
    Name.SNOOZED,
    Name.CANCEL_REQUESTED,
    Name.CANCELLED,
    Name.REPLAYED,
    Name.PURGED,
}
_PAUSE = 0.2
_PAGE = 500
_LINES = 40
"""More at one look than anyone can read; the rest is counted."""


class Tail:
    """Logs events. It marks nothing, so relays still get them all."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self._position = 0

    async def skip(self) -> None:
        """Begin with what happens from now on."""
        while batches := await self._outbox.events(after=self._position, limit=_PAGE):
            self._position = batches[-1].position

    async def tick(self) -> float:
        """Log what is new."""
        room, hidden = _LINES, 0
        for batch in await self._outbox.events(after=self._position, limit=_PAGE):
            self._position = batch.position
            shown = [group for group in batch.groups if group.name in _SHOWN]
            count = sum(len(group.ids) // 16 for group in shown)
            if count > room:
                hidden += count
                continue
            room -= count
            for event in expand(msgspec.structs.replace(batch, groups=shown)):
                facts = {"type": event.type, "queue": event.queue}
                log.info(str(event.name), extra=facts | {"job": ids.text(event.job_id)})
        if hidden:
            log.info("more events", extra={"count": hidden})
        return _PAUSE
