"""Events that a consumer was not able to hand on, set aside so that others flow."""

import msgspec
from msgspec.structs import replace

from longshore.contract.records import (
    ANY,
    Kind,
    Order,
    Put,
    Record,
    RecordFilter,
    Records,
    Ref,
)
from longshore.core.consumer import Quarantined
from longshore.records import access

__all__ = ["latest", "put"]

_encode = msgspec.json.Encoder().encode
_decoder = msgspec.json.Decoder(Quarantined)


def put(event: Quarantined, tenant: str) -> Put:
    """What sets the event aside, for `advance_cursor`."""
    ref = Ref(Kind.QUARANTINED, f"{event.consumer} {event.event_id}", tenant)
    return Put(ref=ref, body=_encode(replace(event, at=0)), expected=ANY)


async def latest(records: Records, *, limit: int) -> list[Quarantined]:
    """Up to `limit` events that were set aside, the newest first."""
    which = RecordFilter(kind=Kind.QUARANTINED, order=Order.NEWEST)
    page = await records.list_records(which, limit=limit)
    return access.decoded(page.records, _decode)


def _decode(record: Record) -> Quarantined:
    return replace(_decoder.decode(record.body), at=record.created_at)
