"""Look into the audit log: find what somebody did, and tell whether the log is whole."""

from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Protocol

import msgspec

from longshore.contract import Engine
from longshore.core import event, ids
from longshore.core.audit import Entry, Fault, Kind, Mark, Standing, Verifier
from longshore.core.event import EventBatch
from longshore.errors import EngineError
from longshore.runtime.cursor import read_cursor, write_cursor

__all__ = ["AuditLog", "Filter", "Item", "ItemPage", "entries", "find", "verify"]

_LOOK = 200
_MOST_LOOKED_AT = 5_000
"""Entries that one page goes through, if few of them match."""
_PAGE = 1_000
_LATEST = 2**62
_PLACES = 24
"""Bits for the place of an event in its entry."""
_LATE_US = 86_400_000_000
"""So much older than its neighbours an entry may be, which was chained late."""
_facts = msgspec.json.Decoder(dict[str, object])


class AuditLog(Protocol):
    """A log that can be read whole: that of an engine, or of a service in front of one."""

    async def audit_standing(self) -> Standing:
        """Where the log begins and ends."""
        ...

    async def audit_entries(self, *, after: int, limit: int) -> list[Entry]:
        """Up to `limit` entries behind a number, oldest first."""
        ...


class Filter(msgspec.Struct, frozen=True, kw_only=True):
    """Which rows of the log to list. None: any."""

    kind: Kind | None = Kind.ACTION
    tenant: str | None = None
    actor: str | None = None
    action: str | None = None
    """A name, or what names begin with and a star: `key.*`."""
    subject: str | None = None
    """A queue, a key, a job: also one of many that something was done to."""
    since: int | None = None
    until: int | None = None


class Item(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that somebody did, or that happened to a job."""

    number: int
    """The entry that tells of it."""
    index: int
    """Its place in the entry."""
    at: int
    kind: Kind
    actor: str
    """Empty where nobody is known."""
    action: str
    subject: str
    tenant: str
    facts: dict[str, object]


class ItemPage(msgspec.Struct, frozen=True):
    """Some rows, and where the next page begins; None behind the last."""

    items: list[Item]
    cursor: str | None


async def find(
    engine: Engine, which: Filter, *, limit: int, cursor: str | None = None
) -> ItemPage:
    """Up to `limit` rows, newest first. A page may be short, or empty, and not the last."""
    place = _LATEST if cursor is None else read_cursor(cursor, which)
    before, index = place >> _PLACES, place & ((1 << _PLACES) - 1)
    # The entry at which the last page ended may have more.
    before, looked = before + (index > 0), 0
    found: list[Item] = []
    while looked < _MOST_LOOKED_AT:
        page = await engine.audit_entries(before=before, limit=_LOOK, kind=which.kind)
        for entry in page:
            before = entry.number
            for item in _fitting(entry, which):
                if (item.number << _PLACES) + item.index >= place:
                    continue
                if len(found) == limit:
                    last = (found[-1].number << _PLACES) + found[-1].index
                    return ItemPage(found, write_cursor(last, which))
                found.append(item)
        looked += len(page)
        if len(page) < _LOOK or _is_past(page, which):
            return ItemPage(found, None)
    return ItemPage(found, write_cursor(before << _PLACES, which))


async def verify(
    log: AuditLog, *, known: Iterable[Mark] = (), keep: int | None = None
) -> tuple[Verifier, Fault | None]:
    """Read the whole log. What was verified, and what is wrong, if something is.

    Noted heads that are older than what is left of the log are in `not_compared`.
    """
    marks = tuple(known)
    while True:
        standing = await log.audit_standing()
        verifier = Verifier(standing, marks, keep=keep)
        fault = await _verify(log, verifier, standing)
        if fault is None or (await log.audit_standing()).anchor == standing.anchor:
            return verifier, fault
        # Retention cut off what was being read: begin where it begins now.


async def entries(log: AuditLog, standing: Standing) -> AsyncIterator[list[Entry]]:
    """All entries of a log that stands so, oldest first, a page at a time."""
    after = standing.anchor.number
    while after < standing.head.number:
        page = await log.audit_entries(after=after, limit=_PAGE)
        page = [one for one in page if one.number <= standing.head.number]
        if not page:
            return
        if page[-1].number <= after:
            raise EngineError(f"the audit log does not go on behind its entry {after}")
        yield page
        after = page[-1].number


async def _verify(log: AuditLog, verifier: Verifier, standing: Standing) -> Fault | None:
    async for page in entries(log, standing):
        if fault := verifier.read(page):
            return fault
    beyond = await log.audit_entries(after=standing.head.number, limit=1)
    now = await log.audit_standing()
    if beyond and now.head == standing.head:
        return Fault(beyond[0].number, "it is behind the log's own head")
    return verifier.end()


def _is_past(page: list[Entry], which: Filter) -> bool:
    return which.since is not None and page[-1].at < which.since - _LATE_US


def _fitting(entry: Entry, which: Filter) -> Iterator[Item]:
    """The rows of an entry that match, the last one first."""
    items = [_action(entry)] if entry.kind is Kind.ACTION else _happened(entry)
    return (item for item in reversed(items) if _fits(item, which))


def _action(entry: Entry) -> Item:
    return Item(
        number=entry.number,
        index=0,
        at=entry.at,
        kind=entry.kind,
        actor=entry.actor,
        action=entry.action,
        subject=entry.subject,
        tenant=entry.tenant,
        facts=_facts.decode(entry.body),
    )


def _happened(entry: Entry) -> list[Item]:
    batch = EventBatch(int(entry.subject), entry.at, event.decode(entry.body))
    return [
        Item(
            number=entry.number,
            index=index,
            at=one.at,
            kind=entry.kind,
            actor=str(one.details.get("by", "")),
            action=one.name,
            subject=ids.text(one.job_id),
            tenant=one.tenant,
            facts={"queue": one.queue, "type": one.type, **one.details},
        )
        for index, one in enumerate(event.expand(batch))
    ]


def _fits(item: Item, which: Filter) -> bool:
    return (
        which.tenant in (None, item.tenant)
        and which.actor in (None, item.actor)
        and (which.action is None or _is_named(item.action, which.action))
        and (which.subject is None or _is_about(item, which.subject))
        and (which.since is None or item.at >= which.since)
        and (which.until is None or item.at < which.until)
    )


def _is_named(action: str, pattern: str) -> bool:
    stem = pattern.removesuffix("*")
    return action == pattern or (stem != pattern and action.startswith(stem))


def _is_about(item: Item, subject: str) -> bool:
    jobs = item.facts.get("jobs")
    return item.subject == subject or (isinstance(jobs, list) and subject in jobs)
