"""The audit log over HTTP: who did what, for those who may change tenants and keys."""

from datetime import datetime
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from longshore import auditing
from longshore.api.fields import Limit, Name, Text, Timestamp, instant, micros
from longshore.api.problems import ProblemError, problem
from longshore.api.routing import Answer, Call, Nothing, Route
from longshore.api.views import encode
from longshore.auditing import Filter, Item
from longshore.core.account import Scope
from longshore.core.audit import Kind
from longshore.errors import ConfigError

__all__ = ["ROUTES"]


class AuditQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which rows to list."""

    kind: Kind | None = None
    """`action`: what somebody ordered; `transitions`: what happened to jobs, where the log has
    it. Both unless given."""
    actor: Text | None = None
    """`key 4fK2…`, `cli anna@host`, or who else it says."""
    action: Text | None = None
    """`queue.pause`, or what names begin with and a star: `key.*`."""
    subject: Text | None = None
    """The queue, the key, the job that something was done to."""
    tenant: Name | None = None
    since: Timestamp | None = None
    until: Timestamp | None = None
    limit: Limit = 100
    cursor: Annotated[str, Meta(max_length=8_000)] | None = None


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


async def find(call: Call[Nothing, AuditQuery, Nothing]) -> Answer:
    """Who did what, newest first.

    A caller that speaks for one tenant sees what concerns that tenant.
    """
    query, engine = call.query, call.service.engine
    which = Filter(
        kind=query.kind,
        tenant=call.caller.tenant or query.tenant,
        actor=query.actor,
        action=query.action,
        subject=query.subject,
        since=None if query.since is None else micros(query.since),
        until=None if query.until is None else micros(query.until),
    )
    try:
        page = await auditing.find(engine, which, limit=query.limit, cursor=query.cursor)
    except ConfigError:
        raise ProblemError(problem("cursor")) from None
    head = (await engine.audit_standing()).head
    items = [_view(one) for one in page.items]
    return Answer(200, encode(AuditPage(items, page.cursor, head.text)))


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


ROUTES: tuple[Route[Any, Any, Any], ...] = (
    Route(
        method="GET",
        path="/v1/audit",
        name="listAudit",
        handler=find,
        scope=Scope.ADMIN,
        query=AuditQuery,
        answers={200: AuditPage},
        problems=("cursor",),
    ),
)
