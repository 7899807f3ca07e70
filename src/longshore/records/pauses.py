"""Pauses: queues and types whose jobs are not handed out."""

from longshore.contract.records import ANY, Delete, Kind, Put, Record, Records, Ref
from longshore.core import audit_record
from longshore.core.view import BrokenRecord, Pause
from longshore.errors import ConfigError
from longshore.records import access

__all__ = ["every", "pause", "resume"]


async def pause(records: Records, *, queue: str | None = None, type: str | None = None) -> None:
    """Stop handing out jobs of a queue, of a type, or of a type in one queue."""
    put = Put(ref=_ref(queue, type), body=b"{}", expected=ANY)
    await access.write(records, put, audit=audit_record.paused(queue, type))


async def resume(
    records: Records, *, queue: str | None = None, type: str | None = None
) -> None:
    """Undo exactly the pause with the same arguments. Harmless when there is none."""
    delete = Delete(ref=_ref(queue, type))
    await access.write(records, delete, audit=audit_record.resumed(queue, type))


async def every(records: Records, broken: list[BrokenRecord] | None = None) -> list[Pause]:
    """Every pause that stands, by queue and type; those of any come first."""
    found = await access.every(records, Kind.PAUSE, _decode, broken=broken)
    return sorted(found, key=lambda one: (one.queue or "", one.type or ""))


def _ref(queue: str | None, type: str | None) -> Ref:
    if "" in (queue, type) or (queue is None and type is None):
        raise ConfigError("name the queue, the type, or both")
    return Ref(Kind.PAUSE, Pause(queue, type).name)


def _decode(record: Record) -> Pause:
    return Pause.named(record.name)
