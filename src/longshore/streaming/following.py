"""Follow one job to its end, beside its store."""

from collections.abc import AsyncIterator
from time import monotonic
from typing import Protocol
from weakref import WeakKeyDictionary

from longshore.contract.outbox import Outbox
from longshore.core.job import Job, JobId
from longshore.core.sse import Cursor
from longshore.errors import WaitTimeoutError
from longshore.streaming.events import JobEvent, Wish, snapshot
from longshore.streaming.hub import Hub, Listener

__all__ = ["Store", "follow"]

_LOOK_S = 15.0
_hubs: "WeakKeyDictionary[Outbox, Hub]" = WeakKeyDictionary()
"""One reader of a store, however many of its jobs are followed here."""


class Store(Outbox, Protocol):
    """Knows how jobs stand, and what happens to them."""

    async def get(self, job_id: JobId, *, tenant: str | None = None) -> Job:
        """The job, or JobNotFoundError."""
        ...

    async def now(self) -> int:
        """The store's clock."""
        ...


def follow(
    store: Store, job_id: JobId, seconds: float | None, *, tenant: str | None = None
) -> AsyncIterator[JobEvent]:
    """How the job stands, and then what happens to it, up to its end.

    WaitTimeoutError when that takes longer; JobNotFoundError for another tenant's job.
    """
    wish = Wish(job_id=job_id, tenant=tenant)
    return _follow(store, wish, None if seconds is None else monotonic() + seconds)


async def _follow(store: Store, wish: Wish, deadline: float | None) -> AsyncIterator[JobEvent]:
    hub = _hubs.get(store) or _hubs.setdefault(store, Hub(store))
    after: Cursor | None = None
    while True:
        listener = await hub.listen("", wish)
        try:
            async for event in _heard(listener, store, after, deadline):
                yield event
                if event.is_last:
                    return
            # Too much happened at once: what was left out is read from the store.
            after = listener.seen
        finally:
            listener.close()


async def _heard(
    listener: Listener, store: Store, after: Cursor | None, deadline: float | None
) -> AsyncIterator[JobEvent]:
    if after is None:
        wish = listener.wish
        assert wish.job_id is not None
        listener.join()
        job = await store.get(wish.job_id, tenant=wish.tenant)
        yield snapshot(job, listener.seen, await store.now()).event
    else:
        async for portion in listener.missed(after):
            for told in portion:
                yield told.event
    while not listener.is_over:
        left = _LOOK_S if deadline is None else deadline - monotonic()
        if left <= 0:
            raise WaitTimeoutError("the job goes on, but the time to follow it is over")
        for told in await listener.news(min(left, _LOOK_S)):
            yield told.event
