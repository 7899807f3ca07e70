"""Reads and compare-and-set writes that all kinds of records share."""

import asyncio
import random
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

from longshore.contract.records import (
    AuditRecord,
    Delete,
    Found,
    Kind,
    Order,
    Put,
    Record,
    RecordFilter,
    Records,
    Ref,
)
from longshore.core.view import BrokenRecord
from longshore.errors import EngineBusyError
from longshore.runtime.actor import signed
from longshore.runtime.decoding import RecordName, decode_each, decode_one, decode_or

__all__ = [
    "Change",
    "Listing",
    "change",
    "decoded",
    "every",
    "listed",
    "read",
    "read_or_none",
    "write",
]

T = TypeVar("T")

_PAGE = 1_000
_TRIES = 20
"""Of a change that others keep getting in between."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.001, 0.1
"""Seconds between them, at most: who comes in between once is not in the way for ever."""


class Change(NamedTuple):
    """What is to be written in view of what was read."""

    changes: Sequence[Put | Delete]
    """Nothing, if what was read is as it should be."""
    audit: AuditRecord | None = None


class Listing(NamedTuple):
    """All records of a kind."""

    now: int
    """The engine's clock when the last page was read."""
    records: list[Record]


async def listed(
    records: Records, kind: Kind, *, tenant: str | None = None, order: Order = Order.NAME
) -> Listing:
    """Every record of a kind, page by page. `tenant=None` means any."""
    which = RecordFilter(kind=kind, tenant=tenant, order=order)
    found, cursor = list[Record](), None
    while True:
        page = await records.list_records(which, limit=_PAGE, cursor=cursor)
        found += page.records
        cursor = page.cursor
        if cursor is None:
            return Listing(page.now, found)


async def every(
    records: Records,
    kind: Kind,
    decode: Callable[[Record], T],
    *,
    tenant: str | None = None,
    order: Order = Order.NAME,
    broken: list[BrokenRecord] | None = None,
) -> list[T]:
    """Every record of a kind, decoded. What cannot be is left out, and added to `broken`."""
    found = await listed(records, kind, tenant=tenant, order=order)
    return decoded(found.records, decode, broken)


def decoded(
    found: Sequence[Record],
    decode: Callable[[Record], T],
    broken: list[BrokenRecord] | None = None,
) -> list[T]:
    """The records, decoded. What cannot be is left out, and added to `broken`."""
    return decode_each(found, decode, _name, broken)


def read(record: Record, decode: Callable[[Record], T]) -> T:
    """The record, decoded, or BrokenRecordError."""
    return decode_one(partial(decode, record), _name(record))


def read_or_none(record: Record | None, decode: Callable[[Record], T]) -> T | None:
    """The record, decoded; None where there is none or it cannot be."""
    return None if record is None else decode_or(None, partial(decode, record), _name(record))


async def change(
    records: Records, refs: Sequence[Ref], decide: Callable[[Found], Change], what: str
) -> Found:
    """Read the records, write what is decided in view of them, and return what was read.

    It is read and decided again as long as somebody else changed one in between;
    EngineBusyError names `what` when that does not end. Of two who decide on the same body at
    once the second is taken for the first, sent again: a body that counts something has to say
    whose it is.
    """
    for tries in range(_TRIES):
        found = await records.get_records(refs)
        decided = decide(found)
        if not decided.changes:
            return found
        written = await records.write_records(decided.changes, audit=_signed(decided.audit))
        if written.conflict is None:
            return found
        if tries:
            pause = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2**tries)
            await asyncio.sleep(random.uniform(0, pause))
    raise EngineBusyError(f"others keep changing {what}; try again")


async def write(
    records: Records, *changes: Put | Delete, audit: AuditRecord | None = None
) -> bool:
    """Whether the changes were written: no record had another version than they expect."""
    return (await records.write_records(changes, audit=_signed(audit))).conflict is None


def _name(record: Record) -> RecordName:
    tenant = record.name if record.kind is Kind.TENANT else record.tenant
    return RecordName(record.kind.value, record.name, tenant or None)


def _signed(audit: AuditRecord | None) -> AuditRecord | None:
    return None if audit is None else signed(audit)
