"""Lines, the jobs of one ordering key: their documents, and what is done with them."""

from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from longshore.core import ids
from longshore.core.ordering_key import Line
from longshore.operations.fields import moment
from longshore.operations.local import EngineOperations

__all__ = ["LineList", "LineOperations", "LineView", "ReleasedLine", "line_view"]


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
    opens_at: datetime | None
    """When the queue's `rate_per_key` lets the next one in; null: something else does."""


class LineList(msgspec.Struct, frozen=True):
    """Lines that dead jobs block, by queue, tenant and key."""

    lines: list[LineView]
    cursor: str | None
    """Where the next page begins; null at the end."""


class ReleasedLine(msgspec.Struct, frozen=True, kw_only=True):
    """Which line was to be released, and what came of it."""

    queue: str
    key: str
    """The ordering key."""
    tenant: str
    is_released: bool
    """False: no dead job blocked it."""


class LineOperations(EngineOperations):
    """What is done with lines on an engine."""

    async def blocked_lines(self, *, limit: int = 100) -> list[LineView]:
        """The first `limit` lines that dead jobs block, by queue, tenant and key."""
        found = await self._engine.blocked_lines(limit=limit, tenant=self._tenant)
        return [line_view(one) for one in found]

    async def line(self, queue: str, key: str) -> LineView:
        """The jobs of an ordering key; an empty line where there are none."""
        found = await self._engine.line(queue, key, tenant=self._home)
        empty = Line(queue=queue, key=key, tenant=self._home, inside=0, parked=0)
        return line_view(found or empty)

    async def release_line(self, queue: str, key: str) -> ReleasedLine:
        """Let a blocked line go on without its dead jobs, which stay dead."""
        done = await self._engine.release_line(queue, key, tenant=self._home)
        return ReleasedLine(queue=queue, key=key, tenant=self._home, is_released=done)


def line_view(it: Line) -> LineView:
    """A line's document."""
    return LineView(
        queue=it.queue,
        key=it.key,
        tenant=it.tenant,
        inside=it.inside,
        parked=it.parked,
        last=None if it.last is None else ids.text(it.last),
        dead=[ids.text(one) for one in it.dead],
        opens_at=moment(it.opens_at),
    )
