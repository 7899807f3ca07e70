"""Circuit breakers of task types: their settings, and how each stands."""

from collections.abc import Mapping
from functools import partial

import msgspec
from msgspec.structs import replace

from longshore.contract.records import Found, Kind, Put, Record, Records, Ref
from longshore.core import audit_record, breaker, flow
from longshore.core.breaker import Standing
from longshore.core.flow import BreakerFlow, BreakerSettings, Layer
from longshore.core.view import BrokenRecord
from longshore.errors import ConfigError
from longshore.records import access, layers
from longshore.records.access import Change

__all__ = ["declare", "every", "forget", "get", "override", "put", "reset"]

_state = msgspec.json.Decoder(Standing)


async def every(
    records: Records, broken: list[BrokenRecord] | None = None
) -> list[BreakerFlow]:
    """Every type of whose breaker something is said, by name, and how it stands."""
    found = await access.listed(records, Kind.BREAKER)
    return access.decoded(found.records, partial(_decode, found.now), broken)


async def get(records: Records, type: str) -> BreakerFlow:
    """All that is said of a type's breaker, which may be nothing, and how it stands."""
    found = await records.get_records([_ref(type)])
    return _standing(type, found.records[0], found.now)


async def put(records: Records, type: str, layer: Layer, settings: BreakerSettings) -> None:
    """Replace a layer of a breaker's settings; settings that say nothing remove it."""
    await layers.put(
        records,
        _ref(type),
        layer,
        standing=partial(_standing, type),
        wanted=lambda _: settings,
        audit=partial(audit_record.breaker_set, type, layer),
    )


async def override(records: Records, type: str, changes: Mapping[str, object]) -> BreakerFlow:
    """Override some settings of a breaker; None lets what is declared hold again."""

    def wanted(seen: BreakerFlow) -> BreakerSettings:
        settings = replace(seen.overridden, **changes)
        effective = replace(seen, overridden=settings).effective
        if fault := breaker.useless(effective, changes):
            raise ConfigError(fault)
        return settings

    await layers.put(
        records,
        _ref(type),
        Layer.OVERRIDDEN,
        standing=partial(_standing, type),
        wanted=wanted,
        audit=partial(audit_record.breaker_set, type, Layer.OVERRIDDEN),
    )
    return await get(records, type)


async def declare(records: Records, type: str, settings: BreakerSettings) -> None:
    """Let this be what code says of a type's breaker. Writes only what differs."""
    if (await get(records, type)).declared != settings:
        await put(records, type, Layer.DECLARED, settings)


async def forget(records: Records, type: str) -> None:
    """Drop what code once declared; a worker that still does declares it again."""
    await put(records, type, Layer.DECLARED, BreakerSettings())


async def reset(records: Records, type: str) -> None:
    """Close a type's breaker, and forget what it has counted. Harmless if it is closed."""

    def decide(found: Found) -> Change:
        (record,) = found.records
        if record is None or _is_reset(record, found.now):
            return Change([])
        put = Put(ref=_ref(type), body=record.body, expected=record.version, resets=True)
        return Change([put], audit_record.breaker_reset(type))

    await access.change(records, [_ref(type)], decide, f"the breaker of {type!r}")


def _is_reset(record: Record, now: int) -> bool:
    standing = access.read_or_none(record, lambda it: _state.decode(it.state))
    return standing is not None and breaker.reset(standing, now) == standing


def _ref(type: str) -> Ref:
    return Ref(Kind.BREAKER, type)


def _standing(type: str, record: Record | None, now: int) -> BreakerFlow:
    return access.read_or_none(record, partial(_decode, now)) or BreakerFlow(type)


def _decode(now: int, record: Record) -> BreakerFlow:
    it = breaker.waking(_state.decode(record.state), now)
    flows = flow.read_breaker(record.name, record.body)
    return replace(flows, phase=it.phase, since=it.since, until=it.until)
