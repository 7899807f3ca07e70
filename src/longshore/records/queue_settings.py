"""Settings of queues."""

from collections.abc import Mapping
from functools import partial

import msgspec
from msgspec.structs import replace

from longshore.contract.records import Kind, Record, Records, Ref
from longshore.core import audit_record, flow
from longshore.core.flow import ENFORCED, Layer, QueueFlow, QueueSettings, QueueState
from longshore.core.view import BrokenRecord
from longshore.errors import ConfigError
from longshore.records import access, layers

__all__ = ["declare", "every", "forget", "get", "override", "put"]

_state = msgspec.json.Decoder(QueueState)


async def every(records: Records, broken: list[BrokenRecord] | None = None) -> list[QueueFlow]:
    """Every queue of which something is said, by name."""
    found = await access.listed(records, Kind.QUEUE)
    return access.decoded(found.records, partial(_decode, found.now), broken)


async def get(records: Records, queue: str) -> QueueFlow:
    """All that is said of a queue, which may be nothing."""
    found = await records.get_records([_ref(queue)])
    return _standing(queue, found.records[0], found.now)


async def put(records: Records, queue: str, layer: Layer, settings: QueueSettings) -> None:
    """Replace a layer of what is said of a queue; settings that say nothing remove it."""
    await layers.put(
        records,
        _ref(queue),
        layer,
        standing=partial(_standing, queue),
        wanted=lambda _: settings,
        audit=partial(audit_record.queue_set, queue, layer),
    )


async def override(records: Records, queue: str, changes: Mapping[str, object]) -> QueueFlow:
    """Override some settings of a queue; None lets what is declared hold again."""
    if refused := sorted(changes.keys() - ENFORCED):
        raise ConfigError(f"{refused[0]} is not a setting of queues")

    def wanted(seen: QueueFlow) -> QueueSettings:
        settings = replace(seen.overridden, **changes)
        said = [field for field, value in changes.items() if value is not None]
        if fault := flow.useless(replace(seen, overridden=settings).effective, said):
            raise ConfigError(f"{fault}; set both")
        return settings

    await layers.put(
        records,
        _ref(queue),
        Layer.OVERRIDDEN,
        standing=partial(_standing, queue),
        wanted=wanted,
        audit=partial(audit_record.queue_set, queue, Layer.OVERRIDDEN),
    )
    return await get(records, queue)


async def declare(records: Records, queue: str, settings: QueueSettings) -> None:
    """Let this be what code says of a queue. Writes only what differs."""
    if (await get(records, queue)).declared != settings:
        await put(records, queue, Layer.DECLARED, settings)


async def forget(records: Records, queue: str) -> None:
    """Drop what code once declared of a queue; a worker that still does declares it again."""
    await put(records, queue, Layer.DECLARED, QueueSettings())


def _ref(queue: str) -> Ref:
    return Ref(Kind.QUEUE, queue)


def _standing(queue: str, record: Record | None, now: int) -> QueueFlow:
    return access.read_or_none(record, partial(_decode, now)) or QueueFlow(queue)


def _decode(now: int, record: Record) -> QueueFlow:
    it = flow.read_queue(record.name, record.body)
    empty_at = _state.decode(record.state).empty_at
    return replace(it, token_at=flow.token_at(it.effective, empty_at, now=now))
