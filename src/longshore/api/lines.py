"""Lines over HTTP: the jobs of one ordering key, where dead ones block the others."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from longshore.api.fields import Key, Name
from longshore.api.listing import PageQuery, Place, after, page
from longshore.api.routing import Answer, Call, Nothing, Route
from longshore.api.views import encode
from longshore.core import ids
from longshore.core.account import DEFAULT_TENANT, Scope
from longshore.core.line import Line

__all__ = ["ROUTES"]


class LineName(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which line."""

    queue: Name
    key: Key
    """The ordering key."""
    tenant: Name | None = None
    """Whose; unless given the key's own, or `default`."""


class LineView(msgspec.Struct, frozen=True, kw_only=True):
    """The jobs of a tenant that share a queue and an ordering key."""

    queue: str
    key: str
    """The ordering key."""
    tenant: str
    inside: int
    """Those that are ready, run, or wait to be tried again."""
    parked: int
    """Those that wait behind them."""
    last: str | None
    """The job that was let in last."""
    dead: Annotated[list[str], Meta(description="The dead jobs that block it.")]


class LineList(msgspec.Struct, frozen=True):
    """Lines that dead jobs block, by queue, tenant and key."""

    lines: list[LineView]
    cursor: str | None
    """Where the next page begins; null at the end."""


class Released(msgspec.Struct, frozen=True):
    """What came of it."""

    is_released: bool
    """False: no dead job blocked it."""


async def find(call: Call[Nothing, PageQuery, Nothing]) -> Answer:
    """Lines that dead jobs block, of queues with `on_dead` set to `block`."""
    query, tenant = call.query, call.caller.tenant
    of = ("lines", tenant)
    start = None if query.cursor is None else after(query.cursor, of)
    read = query.limit + 1
    # The engine reads from the first line on, so a later page takes a longer read.
    while True:
        found = await call.service.engine.blocked_lines(limit=read, tenant=tenant)
        ahead = sum(start is None or _place(one) > start for one in found)
        if ahead > query.limit or len(found) < read:
            break
        read *= 4
    shown, cursor = page(found, query, _place, of=of)
    return Answer(200, encode(LineList([_view(one) for one in shown], cursor)))


async def release(call: Call[Nothing, Nothing, LineName]) -> Answer:
    """Let a blocked line go on without its dead jobs."""
    name = call.body
    tenant = call.caller.tenant or name.tenant or DEFAULT_TENANT
    done = await call.service.engine.release_line(name.queue, name.key, tenant=tenant)
    return Answer(200, encode(Released(done)))


def _place(it: Line) -> Place:
    return (it.queue, it.tenant, it.key)


def _view(it: Line) -> LineView:
    return LineView(
        queue=it.queue,
        key=it.key,
        tenant=it.tenant,
        inside=it.inside,
        parked=it.parked,
        last=None if it.last is None else ids.text(it.last),
        dead=[ids.text(one) for one in it.dead],
    )


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
        method="POST",
        path="/v1/lines:release",
        name="releaseLine",
        handler=release,
        scope=Scope.OPERATE,
        body=LineName,
        answers={200: Released},
    ),
)
