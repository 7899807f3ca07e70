"""The audit log over HTTP: who did what, for those who may change tenants and keys."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from longshore.api.encoding import encode
from longshore.api.listing import PageQuery, after, cursor_behind
from longshore.api.problems import ProblemError, problem
from longshore.api.routing import Answer, Call, Nothing, Route
from longshore.contract import Engine
from longshore.core.account import Scope
from longshore.core.audit import Entry, Kind
from longshore.errors import ConfigError
from longshore.operations.audit import (
    AuditEntries,
    AuditHead,
    AuditOperations,
    AuditPage,
    AuditWhich,
    audit_head,
)
from longshore.operations.fields import Limit, Name, Text, Timestamp

__all__ = ["ROUTES"]

_ENTRIES = ("audit_entries",)
_LARGEST = 1 << 62
_AT_ONCE = 50
_MOST_BYTES = 4 << 20
"""Of the bodies on one page, unless those of the first read alone have more."""


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


class EntriesQuery(PageQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which entries to read."""

    after: Annotated[int, Meta(ge=0, le=_LARGEST)] = 0
    """Only entries with a larger number; a cursor counts before it."""


async def find(call: Call[Nothing, AuditQuery, Nothing]) -> Answer:
    """Who did what, newest first.

    A caller that speaks for one tenant sees what concerns that tenant.
    """
    query = call.query
    audit = AuditOperations(call.service.engine, tenant=call.caller.tenant)
    asked = {name: getattr(query, name) for name in AuditWhich.__annotations__}
    which: Any = {name: value for name, value in asked.items() if value is not None}
    try:
        page = await audit.audit(limit=query.limit, cursor=query.cursor, **which)
    except ConfigError:
        raise ProblemError(problem("cursor")) from None
    return Answer(200, encode(page))


async def head(call: Call[Nothing, Nothing, Nothing]) -> Answer:
    """How far the log goes and its hash, to be noted where nobody can change it."""
    return Answer(200, encode(audit_head(await call.service.engine.audit_standing())))


async def entries(call: Call[Nothing, EntriesQuery, Nothing]) -> Answer:
    """The log as it is stored, oldest first: all that is needed to verify it.

    A page may be shorter than `limit` and not the last, where entries are large.
    """
    query, engine = call.query, call.service.engine
    start = query.after if query.cursor is None else _number(query.cursor)
    found, is_all = await _read(engine, start, query.limit)
    cursor = None if is_all else cursor_behind((found[-1].number,), of=_ENTRIES)
    return Answer(200, encode(AuditEntries(found, cursor)))


def _number(cursor: str) -> int:
    """The number of the entry that the last page ended with, or 400 `cursor`."""
    match after(cursor, _ENTRIES):
        case (int(number),) if 0 <= number <= _LARGEST:
            return number
        case _:
            raise ProblemError(problem("cursor"))


async def _read(engine: Engine, start: int, limit: int) -> tuple[list[Entry], bool]:
    """Entries behind a number, and whether they are all that there are."""
    found: list[Entry] = []
    size = 0
    while len(found) < limit and size < _MOST_BYTES:
        # One more than is shown tells whether there are more.
        want = min(_AT_ONCE, limit - len(found))
        page = await engine.audit_entries(after=start, limit=want + 1)
        found += page[:want]
        if len(page) <= want:
            return found, True
        start = found[-1].number
        size += sum(len(one.body) for one in page[:want])
    return found, False


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
    Route(
        method="GET",
        path="/v1/audit/head",
        name="getAuditHead",
        handler=head,
        scope=Scope.ADMIN,
        is_fleetwide=True,
        answers={200: AuditHead},
    ),
    Route(
        method="GET",
        path="/v1/audit/entries",
        name="listAuditEntries",
        handler=entries,
        scope=Scope.ADMIN,
        is_fleetwide=True,
        query=EntriesQuery,
        answers={200: AuditEntries},
        problems=("cursor",),
    ),
)
