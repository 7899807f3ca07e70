"""Webhook endpoints, and the gate that limits deliveries to each across the fleet."""

from collections.abc import Callable

import msgspec
from msgspec.structs import replace

from longshore.contract.records import (
    Delete,
    Found,
    Kind,
    Order,
    Put,
    Record,
    Records,
    Ref,
)
from longshore.core import audit_record, webhook, webhook_gate
from longshore.core.view import BrokenRecord
from longshore.core.webhook import Endpoint
from longshore.core.webhook_gate import Gate, Rejected
from longshore.errors import EngineBusyError, WebhookNotFoundError
from longshore.records import access
from longshore.records.access import Change

__all__ = ["admit", "change", "create", "delete", "every", "get", "release"]

_encode = msgspec.json.Encoder().encode
_decoder = msgspec.json.Decoder(Endpoint)
_gate_decoder = msgspec.json.Decoder(Gate)


async def get(records: Records, endpoint_id: str, *, tenant: str | None = None) -> Endpoint:
    """The endpoint, or WebhookNotFoundError. `tenant=None` means any tenant."""
    (record,) = (await records.get_records([_ref(endpoint_id, tenant)])).records
    if record is None:
        raise WebhookNotFoundError(endpoint_id)
    return access.read(record, _decode)


async def every(
    records: Records, *, tenant: str | None = None, broken: list[BrokenRecord] | None = None
) -> list[Endpoint]:
    """Every endpoint, oldest first. Those of a tenant go with it."""
    return await access.every(
        records, Kind.WEBHOOK, _decode, tenant=tenant, order=Order.OLDEST, broken=broken
    )


async def create(records: Records, endpoint: Endpoint, *, most: int | None = None) -> bool:
    """Whether the endpoint is stored: no other has its id.

    One that cannot be decoded is replaced. TenantNotFoundError where its tenant does not exist,
    CapReachedError where the tenant has `most` already.
    """
    webhook.validate(endpoint)
    ref = _ref(endpoint.id, endpoint.tenant)
    (record,) = (await records.get_records([ref])).records
    expected = 0
    if record is not None and access.read_or_none(record, _decode) is None:
        expected = record.version
    put = Put(ref=ref, body=_body(endpoint), expected=expected, most=most)
    return await access.write(records, put, audit=audit_record.webhook_put(endpoint, None))


async def change(
    records: Records,
    endpoint_id: str,
    changes: Callable[[Endpoint], Endpoint],
    *,
    tenant: str | None = None,
) -> Endpoint:
    """Store what `changes` makes of the endpoint, or WebhookNotFoundError.

    It is called again when somebody else changed the endpoint in the same moment.
    """

    def decide(found: Found) -> Change:
        (record,) = found.records
        if record is None:
            raise WebhookNotFoundError(endpoint_id)
        standing = access.read(record, _decode)
        wanted = changes(standing)
        webhook.validate(wanted)
        if wanted == standing:
            return Change([])
        ref = _ref(endpoint_id, record.tenant)
        put = Put(ref=ref, body=_body(wanted), expected=record.version)
        return Change([put], audit_record.webhook_put(wanted, standing))

    await access.change(
        records, [_ref(endpoint_id, tenant)], decide, f"the endpoint {endpoint_id!r}"
    )
    return await get(records, endpoint_id, tenant=tenant)


async def delete(records: Records, endpoint_id: str, *, tenant: str | None = None) -> None:
    """Remove it, or WebhookNotFoundError. Deliveries that wait are not made."""

    def decide(found: Found) -> Change:
        (record,) = found.records
        if record is None:
            raise WebhookNotFoundError(endpoint_id)
        deletes = [
            Delete(ref=_ref(endpoint_id, record.tenant)),
            Delete(ref=Ref(Kind.WEBHOOK_GATE, endpoint_id, record.tenant)),
        ]
        return Change(deletes, audit_record.webhook_deleted(endpoint_id, tenant))

    await access.change(
        records, [_ref(endpoint_id, tenant)], decide, f"the endpoint {endpoint_id!r}"
    )


async def admit(
    records: Records, endpoint_id: str, delivery: str, *, max_in_flight: int, lease: int
) -> Rejected | None:
    """Let a delivery go to the endpoint, one of at most so many of the whole fleet.

    None: it may go; its place is its own until it is released, at most `lease` microseconds.
    WebhookNotFoundError where the endpoint is gone.
    """
    rejected: Rejected | None = None

    def step(gate: Gate, now: int) -> Gate:
        nonlocal rejected
        after, rejected = webhook_gate.admit(
            gate, delivery, max_in_flight=max_in_flight, lease=lease, now=now
        )
        return after

    try:
        await _move(records, endpoint_id, step)
    except EngineBusyError:
        # So many come and go at this endpoint: as if all places were taken.
        return Rejected()
    return rejected


async def release(
    records: Records, endpoint_id: str, delivery: str, *, succeeded: bool | None
) -> None:
    """Give the place back, and tell the fleet how it went; None: that says nothing.

    Where others keep changing the gate the place lapses by itself.
    """

    def step(gate: Gate, now: int) -> Gate:
        return webhook_gate.release(gate, delivery, succeeded=succeeded, now=now)

    try:
        await _move(records, endpoint_id, step)
    except (EngineBusyError, WebhookNotFoundError):
        return


async def _move(records: Records, endpoint_id: str, step: Callable[[Gate, int], Gate]) -> None:
    refs = [_ref(endpoint_id, None), Ref(Kind.WEBHOOK_GATE, endpoint_id, None)]

    def decide(found: Found) -> Change:
        endpoint, record = found.records
        if endpoint is None:
            raise WebhookNotFoundError(endpoint_id)
        # A gate that cannot be decoded is open.
        before = access.read_or_none(record, _decode_gate) or Gate()
        after = step(before, found.now)
        if after == before:
            return Change([])
        put = Put(
            ref=Ref(Kind.WEBHOOK_GATE, endpoint_id, endpoint.tenant),
            body=_encode(after),
            expected=0 if record is None else record.version,
        )
        return Change([put])

    await access.change(records, refs, decide, f"the gate of {endpoint_id!r}")


def _ref(endpoint_id: str, tenant: str | None) -> Ref:
    return Ref(Kind.WEBHOOK, endpoint_id, tenant)


def _body(endpoint: Endpoint) -> bytes:
    return _encode(replace(endpoint, created_at=0))


def _decode(record: Record) -> Endpoint:
    it = _decoder.decode(record.body)
    return replace(it, id=record.name, tenant=record.tenant, created_at=record.created_at)


def _decode_gate(record: Record) -> Gate:
    return _gate_decoder.decode(record.body)
