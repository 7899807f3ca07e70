"""The audit log: its documents, and what API, command line and SDK do with it."""

from datetime import datetime
from typing import Annotated, Any, TypedDict, Unpack

import msgspec
from msgspec import Meta

from longshore import audit_query
from longshore.audit_query import Filter, Item
from longshore.core.audit import Entry, Kind, Standing
from longshore.operations.fields import instant, micros
from longshore.operations.local import EngineOperations

__all__ = [
    "AuditEntries",
    "AuditHead",
    "AuditItem",
    "AuditOperations",
    "AuditPage",
    "AuditWhich",
    "audit_head",
]


class AuditItem(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that somebody did, or that happened to a job."""

    id: str
    """The number of its entry in the log, and its place in there: `57.0`."""
    at: datetime
    kind: Kind
    actor: str
    """Empty where nobody is known."""
    action: str
    subject: str
    tenant: str
    """Whose thing it is, as far as is said; empty for any."""
    facts: Annotated[dict[str, Any], Meta(description="What else there is to say.")]


class AuditPage(msgspec.Struct, frozen=True):
    """Rows of the log, newest first."""

    items: list[AuditItem]
    """There may be few, or none, on a page that is not the last."""
    cursor: str | None
    """For the next page; null on the last one."""
    head: str
    """How far the log goes, and its hash. Note it down: `longshore audit verify --head`."""


class AuditHead(msgspec.Struct, frozen=True):
    """Where the log begins and ends: numbers of entries, each with its hash."""

    head: str
    """The last entry: `57:` and 64 hexadecimal digits."""
    anchor: str
    """The last entry that retention cut off; `0:` and zeros where none was."""


class AuditEntries(msgspec.Struct, frozen=True):
    """Entries of the log as they are stored, oldest first."""

    entries: list[Entry]
    """`hash` is the SHA-256 of the hash before it and the MessagePack array of the entry's
    other fields, in their order. Times are microseconds since 1970, bytes are base64."""
    cursor: str | None
    """Where the next page begins; null at the end."""


class AuditWhich(TypedDict, total=False):
    """Which rows of the log are meant; what is left out means any."""

    kind: Kind
    actor: str
    action: str
    """A name, or what names begin with and a star: `key.*`."""
    subject: str
    tenant: str
    since: datetime
    until: datetime


class AuditOperations(EngineOperations):
    """What is done with the audit log on an engine."""

    async def audit(
        self, *, limit: int, cursor: str | None = None, **which: Unpack[AuditWhich]
    ) -> AuditPage:
        """Who did what, newest first. A page may be short, or empty, and not the last."""
        since, until = which.get("since"), which.get("until")
        wanted = Filter(
            kind=which.get("kind"),
            tenant=self._tenant or which.get("tenant"),
            actor=which.get("actor"),
            action=which.get("action"),
            subject=which.get("subject"),
            since=None if since is None else micros(since),
            until=None if until is None else micros(until),
        )
        page = await audit_query.find(self._engine, wanted, limit=limit, cursor=cursor)
        head = (await self._engine.audit_standing()).head
        return AuditPage([_view(one) for one in page.items], page.cursor, head.text)

    async def audit_standing(self) -> Standing:
        """Where the log begins and ends."""
        return await self._engine.audit_standing()

    async def audit_entries(self, *, after: int, limit: int) -> list[Entry]:
        """Entries behind a number as they are stored, oldest first, at most so many."""
        return await self._engine.audit_entries(after=after, limit=limit)


def audit_head(it: Standing) -> AuditHead:
    """The document of where the log begins and ends."""
    return AuditHead(head=it.head.text, anchor=it.anchor.text)


def _view(it: Item) -> AuditItem:
    return AuditItem(
        id=f"{it.number}.{it.index}",
        at=instant(it.at),
        kind=it.kind,
        actor=it.actor,
        action=it.action,
        subject=it.subject,
        tenant=it.tenant,
        facts=it.facts,
    )
