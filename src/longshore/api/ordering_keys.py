"""The routes of lines: the jobs of one ordering key, where dead ones block the others."""

from typing import Any

import msgspec

from longshore.api.encoding import encode
from longshore.api.listing import Kind, PageQuery, Place, after, page
from longshore.api.problems import ProblemError, problem
from longshore.api.queues import QueuePath
from longshore.api.routing import Answer, Call, Nothing, Route
from longshore.core.account import Scope
from longshore.core.ordering_key import Line
from longshore.operations.fields import Key, Name
from longshore.operations.lines import (
    LineList,
    LineOperations,
    LineView,
    ReleasedLine,
    line_view,
)

__all__ = ["ROUTES"]


class ReleaseLineBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which line to release."""

    queue: Name
    key: Key
    """The ordering key."""
    tenant: Name | None = None
    """Whose; unless given the key's own, or `default`."""


class LineQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which line of a queue."""

    key: Key
    """The ordering key."""


async def find(call: Call[Nothing, PageQuery, Nothing]) -> Answer:
    """Lines that dead jobs block, of queues with `on_dead` set to `block`."""
    query, tenant = call.query, call.caller.tenant
    of = ("lines", tenant)
    start = None if query.cursor is None else _start(query.cursor, of)
    read = query.limit + 1
    # The engine reads from the first line on, so a later page takes a longer read.
    while True:
        found = await call.service.engine.blocked_lines(limit=read, tenant=tenant)
        ahead = sum(start is None or _place(one) > start for one in found)
        if ahead > query.limit or len(found) < read:
            break
        read *= 4
    shown, cursor = page(found, query, _place, of=of)
    return Answer(200, encode(LineList([line_view(one) for one in shown], cursor)))


async def get(call: Call[QueuePath, LineQuery, Nothing]) -> Answer:
    """The jobs of one ordering key, whether it is blocked or not; one without jobs is empty.

    The key is no part of the path: it may hold slashes and dots, which proxies rewrite there.
    """
    lines = LineOperations(call.service.engine, tenant=call.caller.tenant)
    return Answer(200, encode(await lines.line(call.path.queue, call.query.key)))


async def release(call: Call[Nothing, Nothing, ReleaseLineBody]) -> Answer:
    """Let a blocked line go on without its dead jobs."""
    name = call.body
    lines = LineOperations(call.service.engine, tenant=call.caller.tenant or name.tenant)
    return Answer(200, encode(await lines.release_line(name.queue, name.key)))


def _start(cursor: str, of: Kind) -> Place:
    """The place that a cursor holds, or 400 `cursor` for one that somebody made up."""
    place = after(cursor, of)
    if len(place) != 3 or not all(isinstance(one, str) for one in place):
        raise ProblemError(problem("cursor"))
    return place


def _place(it: Line) -> Place:
    return (it.queue, it.tenant, it.key)


ROUTES: tuple[Route[Any, Any, Any], ...] = (
    Route(
        method="GET",
        path="/v1/lines",
        name="listBlockedLines",
        handler=find,
        scope=Scope.READ,
        query=PageQuery,
        answers={200: LineList},
        problems=("cursor",),
    ),
    Route(
        method="GET",
        path="/v1/queues/{queue}/line",
        name="getLine",
        handler=get,
        scope=Scope.READ,
        parameters=QueuePath,
        query=LineQuery,
        answers={200: LineView},
    ),
    Route(
        method="POST",
        path="/v1/lines:release",
        name="releaseLine",
        handler=release,
        scope=Scope.OPERATE,
        body=ReleaseLineBody,
        answers={200: ReleasedLine},
    ),
)
