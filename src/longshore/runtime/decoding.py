"""Decode what a store holds item by item.

An item that cannot be decoded is set aside, so that it does not keep the others from being
read, and a warning names it: once per process and item.
"""

import logging
from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeVar

import msgspec

from longshore.core import event, ids
from longshore.core.event import Group
from longshore.core.job import Failure, JobId
from longshore.core.view import BrokenRecord
from longshore.errors import BrokenRecordError

__all__ = [
    "RecordName",
    "decode_each",
    "decode_one",
    "decode_or",
    "decoded_failure",
    "decoded_groups",
    "decoded_tags",
]

Row = TypeVar("Row")
T = TypeVar("T")

log = logging.getLogger("longshore.store")

_UNDECODABLE = (msgspec.MsgspecError, ValueError, TypeError)
_LONGEST = 300
_MOST_WARNED = 10_000
_warned: set[BrokenRecord] = set()
_NO_GROUPS: list[Group] = []
_failure = msgspec.json.Decoder(Failure)
_tags = msgspec.json.Decoder(tuple[str, ...])
UNDECODABLE = "undecodable"
"""The kind of a failure that tells what cannot be decoded of a job."""


class RecordName(NamedTuple):
    """What an item of the store is, and how it is called."""

    kind: str
    """schedule, queue, breaker, tenant, webhook, job, …"""
    name: str
    tenant: str | None = None


def decode_each(
    rows: Iterable[Row],
    read: Callable[[Row], T],
    name: Callable[[Row], RecordName],
    broken: list[BrokenRecord] | None = None,
) -> list[T]:
    """The rows as `read` decodes them, without those that it cannot decode.

    Those are added to `broken`, if given.
    """
    found: list[T] = []
    for row in rows:
        try:
            found.append(read(row))
        except _UNDECODABLE as error:
            record = _set_aside(name(row), error)
            if broken is not None:
                broken.append(record)
    return found


def decode_or(default: T, read: Callable[[], T], name: RecordName) -> T:
    """What `read` decodes, or `default` where it cannot."""
    try:
        return read()
    except _UNDECODABLE as error:
        _set_aside(name, error)
        return default


def decode_one(read: Callable[[], T], name: RecordName) -> T:
    """What `read` decodes, or BrokenRecordError."""
    try:
        return read()
    except _UNDECODABLE as error:
        record = _set_aside(name, error)
        raise BrokenRecordError(record.kind, record.name, record.problem) from error


def decoded_failure(text: str | None, job_id: JobId | None = None) -> Failure | None:
    """The failure of an attempt; one that says so where it cannot be decoded."""
    if text is None:
        return None
    try:
        return _failure.decode(text)
    except _UNDECODABLE as error:
        return _flaw("failure", job_id, error)


def decoded_tags(
    text: str | None, job_id: JobId | None = None
) -> tuple[tuple[str, ...], Failure | None]:
    """The tags of a job; where they cannot be decoded none, and a failure that says so."""
    if not text:
        return (), None
    try:
        return _tags.decode(text), None
    except _UNDECODABLE as error:
        return (), _flaw("tags", job_id, error)


def decoded_groups(position: int, body: bytes) -> list[Group]:
    """The events of one row of the outbox; none where it cannot be decoded.

    Consumers read on behind it: nobody could ever tell what it held.
    """
    name = RecordName("batch of events", str(position))
    return decode_or(_NO_GROUPS, lambda: event.decode(body), name)


def _flaw(what: str, job_id: JobId | None, error: Exception) -> Failure:
    if job_id is not None:
        _set_aside(RecordName("job", ids.text(job_id)), error)
    return Failure(UNDECODABLE, f"its {what} cannot be decoded: {error}"[:_LONGEST])


def _set_aside(name: RecordName, error: Exception) -> BrokenRecord:
    problem = f"{type(error).__name__}: {error}"[:_LONGEST]
    record = BrokenRecord(name.kind, name.name, name.tenant, problem)
    if record not in _warned:
        if len(_warned) >= _MOST_WARNED:
            _warned.clear()
        _warned.add(record)
        facts = {"kind": name.kind, "record": name.name, "tenant": name.tenant}
        log.warning("record cannot be decoded", extra={**facts, "error": problem})
    return record
