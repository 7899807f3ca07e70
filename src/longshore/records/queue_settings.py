"""Settings of queues."""

from collections.abc import Mapping

import msgspec
from msgspec.structs import replace

from longshore.contract.records import Kind, Record
from longshore.core import audit_record, limit_settings
from longshore.core.limit_settings import QueueFlow, QueueSettings, QueueState
from longshore.records.layers import Layered

__all__ = ["declare", "every", "forget", "get", "override", "put"]

_state = msgspec.json.Decoder(QueueState)


def _decode(now: int, record: Record) -> QueueFlow:
    it = limit_settings.read_queue(record.name, record.body)
    empty_at = _state.decode(record.state).empty_at
    return replace(it, token_at=limit_settings.token_at(it.effective, empty_at, now=now))


def _useless(settings: QueueSettings, changes: Mapping[str, object]) -> str | None:
    said = [field for field, value in changes.items() if value is not None]
    fault = limit_settings.useless(settings, said)
    return fault and f"{fault}; set both"


_queues = Layered(
    Kind.QUEUE,
    decode=_decode,
    nothing=QueueFlow,
    silent=QueueSettings(),
    useless=_useless,
    audit=audit_record.queue_set,
)
every, get, put = _queues.every, _queues.get, _queues.put
override, declare, forget = _queues.override, _queues.declare, _queues.forget
