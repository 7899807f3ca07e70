"""Circuit breakers of task types: their settings, and how each stands."""

from functools import partial

import msgspec
from msgspec.structs import replace

from longshore.contract.records import Found, Kind, Put, Record, Records, Ref
from longshore.core import audit_record, circuit_breaker, limit_settings
from longshore.core.circuit_breaker import Standing
from longshore.core.limit_settings import BreakerFlow, BreakerSettings
from longshore.records import access
from longshore.records.access import Change
from longshore.records.layers import Layered
from longshore.runtime.decoding import RecordName, decode_or

__all__ = ["declare", "every", "forget", "get", "override", "put", "reset"]

_state = msgspec.json.Decoder(Standing)


async def reset(records: Records, type: str) -> None:
    """Close a type's breaker, and forget what it has counted. Harmless if it is closed."""
    ref = Ref(Kind.BREAKER, type)

    def decide(found: Found) -> Change:
        (record,) = found.records
        if record is None or _is_reset(record, found.now):
            return Change([])
        put = Put(ref=ref, body=record.body, expected=record.version, resets=True)
        return Change([put], audit_record.breaker_reset(type))

    await access.change(records, [ref], decide, f"the breaker of {type!r}")


def _is_reset(record: Record, now: int) -> bool:
    standing = access.read_or_none(record, lambda it: _state.decode(it.state))
    return standing is not None and circuit_breaker.reset(standing, now) == standing


def _decode(now: int, record: Record) -> BreakerFlow:
    # What it has counted is the engine's, and may be lost; what people said of it must not be.
    read = partial(_state.decode, record.state)
    it = circuit_breaker.waking(
        decode_or(Standing(), read, RecordName("breaker", record.name)), now
    )
    flows = limit_settings.read_breaker(record.name, record.body)
    return replace(flows, phase=it.phase, since=it.since, until=it.until)


_breakers = Layered(
    Kind.BREAKER,
    decode=_decode,
    nothing=BreakerFlow,
    silent=BreakerSettings(),
    useless=circuit_breaker.useless,
    audit=audit_record.breaker_set,
)
every, get, put = _breakers.every, _breakers.get, _breakers.put
override, declare, forget = _breakers.override, _breakers.declare, _breakers.forget
