"""Make a delivery of every event that a webhook endpoint wants to hear of.

It reads the outbox by a cursor of its own, and a delivery is an ordinary job under a key of the
endpoint and the event: whoever crashes between both, and reads on, doubles nothing.
"""

import logging
import secrets
from collections.abc import Iterator, Sequence
from itertools import islice

from longshore.contract import Engine
from longshore.core import webhook
from longshore.core.consumer import Cursor
from longshore.core.event import Event, EventBatch
from longshore.core.job import NewJob
from longshore.core.outbox_batch import next_portion
from longshore.core.webhook import Endpoint
from longshore.errors import CursorLostError
from longshore.operations import deliveries
from longshore.records import webhooks
from longshore.runtime.ids import IdSource

__all__ = ["CONSUMER", "Notifier"]

log = logging.getLogger("longshore.scheduler")

CONSUMER = "webhooks"
_LEASE_US = 15_000_000
_PAGE = 200
_EVENTS = 5_000
"""Looked at between two notes of how far it has come."""
_AT_ONCE = 500
_PAUSE_S = 0.25
_ELSEWHERE_S = 3.0
"""Another process does it, or nobody wants to hear anything."""


class Notifier:
    """Submits deliveries. Any number of processes: one of them reads at a time."""

    def __init__(self, engine: Engine, ids: IdSource) -> None:
        self._engine = engine
        self._ids = ids
        self._holder = f"scheduler-{secrets.token_hex(4)}"
        self._cursor: Cursor | None = None
        self._position = 0
        self._waiting: list[EventBatch] = []
        self._into = 0
        """Events of the first batch that waits which are delivered already."""
        self._is_more = False

    async def tick(self) -> float:
        """Submit what the next events are to bring; the seconds until the next look."""
        if self._cursor is None and not await self._begin():
            return _ELSEWHERE_S
        assert self._cursor is not None
        try:
            return await self._pass_on(self._cursor)
        except CursorLostError:
            self._cursor = None
            return _PAUSE_S

    async def _begin(self) -> bool:
        if not await webhooks.every(self._engine):
            return False
        self._cursor = await self._engine.take_cursor(
            CONSUMER, holder=self._holder, lease=_LEASE_US
        )
        if self._cursor is None:
            return False
        self._position, self._waiting, self._into = self._cursor.position, [], 0
        return True

    async def _pass_on(self, cursor: Cursor) -> float:
        engine = self._engine
        if not self._waiting:
            self._waiting = await engine.events(
                after=self._position, limit=_PAGE, cursor=cursor
            )
            self._is_more = len(self._waiting) == _PAGE
        # After the look: whoever was there before it happened hears of it.
        endpoints = await webhooks.every(engine)
        if not endpoints:
            # Nothing shall be kept for nobody. Whoever comes later hears of what is later.
            self._cursor = None
            await engine.delete_consumer(CONSUMER)
            return _ELSEWHERE_S
        if self._waiting:
            await self._submit(cursor, endpoints)
        return 0.0 if self._waiting or self._is_more else _PAUSE_S

    async def _submit(self, cursor: Cursor, endpoints: Sequence[Endpoint]) -> None:
        engine, waiting = self._engine, self._waiting
        portion = next_portion(waiting, _EVENTS, into=self._into)
        jobs = self._deliveries(portion.events, endpoints)
        while few := list(islice(jobs, _AT_ONCE)):
            await engine.submit(few)
            # Keeps the cursor: a portion may bring many deliveries, to a store that is slow.
            await engine.advance(cursor, position=self._position)
        reached = waiting[portion.passed - 1].position if portion.passed else self._position
        await engine.advance(cursor, position=reached)
        self._position = reached
        self._waiting, self._into = waiting[portion.passed :], portion.into

    def _deliveries(
        self, events: Sequence[Event], endpoints: Sequence[Endpoint]
    ) -> Iterator[NewJob]:
        for one in events:
            body = ""
            for it in endpoints:
                try:
                    if not webhook.fits(it, one):
                        continue
                    body = body or webhook.body_of(one)
                    job = self._delivery(one, it, body)
                except Exception as error:
                    # Whatever the event or the endpoint holds: others hear of theirs.
                    names = {"event_id": one.id, "endpoint": it.id, "tenant": it.tenant}
                    log.exception("event not delivered", extra={**names, "error": str(error)})
                else:
                    yield job

    def _delivery(self, event: Event, endpoint: Endpoint, body: str) -> NewJob:
        message = webhook.message_id(event.id)
        return deliveries.delivery_job(
            self._ids.make(),
            endpoint,
            deliveries.Message(endpoint.id, message, event.name, body),
            key=f"{webhook.TASK}:{endpoint.id}:{event.id}",
            trace=event.trace,
        )
