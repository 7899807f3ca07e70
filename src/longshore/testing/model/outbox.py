"""The outbox as a list, with a record per consumer."""

from collections.abc import Sequence

from longshore.contract.records import Put, Record
from longshore.core import audit_record
from longshore.core.consumer import Consumer, Cursor
from longshore.core.event import EventBatch, Span
from longshore.errors import CursorLostError
from longshore.runtime.actor import signed
from longshore.testing.model.store import Reading, Store

__all__ = ["ModelOutbox"]


class ModelOutbox:
    """See `longshore.contract.outbox.Outbox`."""

    _store: Store

    async def events(
        self, *, after: int, limit: int, cursor: Cursor | None = None
    ) -> list[EventBatch]:
        """See `longshore.contract.outbox.Outbox`."""
        self._store.now()
        if cursor is not None:
            self._extend(self._held(cursor))
        return [batch for batch in self._store.batches if batch.position > after][:limit]

    async def span(self) -> Span:
        """See `longshore.contract.outbox.Outbox`."""
        self._store.now()
        last = self._store.last_position
        first = self._store.batches[0].position if self._store.batches else last + 1
        return Span(first, last)

    async def take_cursor(self, consumer: str, *, holder: str, lease: int) -> Cursor | None:
        """See `longshore.contract.outbox.Outbox`."""
        now = self._store.now()
        known = self._store.consumers.setdefault(consumer, Reading(seen_at=now))
        is_free = not known.leased_until - known.lease <= now < known.leased_until
        if known.holder not in ("", holder) and not is_free:
            return None
        cursor = Cursor(consumer, known.token + 1, known.position, known.gone_at)
        known.token, known.holder, known.lease = cursor.token, holder, lease
        self._extend(known)
        return cursor

    async def advance(
        self,
        cursor: Cursor,
        *,
        position: int,
        quarantined: Sequence[Put] = (),
        releases: bool = False,
    ) -> None:
        """See `longshore.contract.outbox.Outbox`."""
        known = self._held(cursor)
        known.position = max(known.position, position)
        self._extend(known)
        if releases:
            known.holder, known.leased_until = "", 0
        now = self._store.now()
        for one in quarantined:
            self._store.records[one.ref] = Record(
                kind=one.ref.kind,
                name=one.ref.name,
                tenant=one.ref.tenant or "",
                version=now,
                body=one.body,
                created_at=now,
                changed_at=now,
            )

    async def consumers(self) -> list[Consumer]:
        """See `longshore.contract.outbox.Outbox`."""
        now = self._store.now()
        found: list[Consumer] = []
        for name, known in sorted(self._store.consumers.items()):
            left = [one for one in self._store.batches if one.position > known.position]
            found.append(
                Consumer(
                    name=name,
                    position=known.position,
                    behind=len(left),
                    waits_since=left[0].at if left else None,
                    holder=(known.holder or None) if known.leased_until > now else None,
                    seen_at=known.seen_at,
                    gone_at=known.gone_at,
                )
            )
        return found

    async def delete_consumer(self, name: str) -> bool:
        """See `longshore.contract.outbox.Outbox`."""
        self._store.now()
        was_there = self._store.consumers.pop(name, None) is not None
        if was_there:
            self._store.record(signed(audit_record.consumer_forgotten(name)))
        return was_there

    def _held(self, cursor: Cursor) -> Reading:
        self._store.now()
        known = self._store.consumers.get(cursor.consumer)
        if known is None or known.token != cursor.token or not known.holder:
            raise CursorLostError(cursor.consumer)
        return known

    def _extend(self, known: Reading) -> None:
        now = self._store.now()
        known.leased_until, known.seen_at, known.gone_at = now + known.lease, now, None
