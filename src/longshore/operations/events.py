"""What happens to jobs, as it happens or as far back as it is kept."""

import asyncio
from collections.abc import AsyncGenerator, Iterable
from time import monotonic
from typing import TypedDict, Unpack

from longshore.core import event, ids, sse
from longshore.core.event import Name
from longshore.core.sse import Cursor
from longshore.errors import ConfigError, EventsExpiredError, WaitTimeoutError
from longshore.operations.local import EngineOperations
from longshore.options import Duration, microseconds
from longshore.streaming.events import JobEvent, Told, Wish

__all__ = ["EventOperations", "Heard"]

_PAGE = 500
_PAUSE_S = 0.1


class Heard(TypedDict, total=False):
    """Which events are meant; what is left out means any."""

    queue: str
    type: str
    job_id: str
    names: Iterable[str]
    """`job.succeeded`, `job.dead`, …"""


class EventOperations(EngineOperations):
    """What is done with events on an engine."""

    def follow(
        self,
        *,
        after: str = "",
        from_start: bool = False,
        timeout: Duration | None = None,
        **which: Unpack[Heard],
    ) -> AsyncGenerator[JobEvent]:
        """All that happens from now on, or after the event with this id, without an end.

        `from_start` begins with the oldest event that is kept. EventsExpiredError if what came
        after the id is no longer kept, WaitTimeoutError when the time is over.
        """
        deadline = None if timeout is None else monotonic() + microseconds(timeout) / 1e6
        wish = _wish(which, self._tenant)
        return self._events(wish, after, from_start=from_start, deadline=deadline)

    def kept_events(
        self, *, after: str = "", **which: Unpack[Heard]
    ) -> AsyncGenerator[JobEvent]:
        """The events that are kept, or those of them after the one with this id, to the end.

        Oldest first. EventsExpiredError if what came after the id is no longer kept.
        """
        wish = _wish(which, self._tenant)
        return self._events(wish, after, from_start=True, is_endless=False)

    async def _events(
        self,
        wish: Wish,
        after: str,
        *,
        from_start: bool,
        deadline: float | None = None,
        is_endless: bool = True,
    ) -> AsyncGenerator[JobEvent]:
        seen = await self._start(after, from_start=from_start)
        while True:
            # A place in the middle of a batch: what is left of the batch is read again.
            is_whole = seen == Cursor(seen.position)
            start = seen.position if is_whole else seen.position - 1
            batches = await self._engine.events(after=start, limit=_PAGE)
            for batch in batches:
                for one in event.expand(batch):
                    if wish.fits(one) and (told := Told.of(one)).cursor > seen:
                        yield told.event
                seen = Cursor(batch.position)
            if deadline is not None and monotonic() >= deadline:
                raise WaitTimeoutError("the stream goes on, but the time to read it is over")
            if len(batches) < _PAGE:
                if not is_endless:
                    return
                await asyncio.sleep(_PAUSE_S)

    async def _start(self, after: str, *, from_start: bool) -> Cursor:
        """The place behind which to begin, or EventsExpiredError."""
        span = await self._engine.span()
        if not after:
            return Cursor(span.first - 1 if from_start else span.last)
        found = sse.parse_cursor(after)
        if found is None:
            raise ConfigError(f"{after!r:.80} is not the id of an event")
        if not span.first - 1 <= found.position <= span.last:
            raise EventsExpiredError
        return found


def _wish(which: Heard, tenant: str | None) -> Wish:
    names = which.get("names")
    job_id = which.get("job_id")
    chosen = None if names is None else frozenset(names)
    if unknown := (chosen or frozenset()) - frozenset(Name):
        raise ConfigError(f"{min(unknown)!r:.80} is not the name of an event")
    return Wish(
        tenant=tenant,
        queue=which.get("queue"),
        type=which.get("type"),
        names=chosen,
        job_id=None if job_id is None else ids.parse(job_id),
    )
