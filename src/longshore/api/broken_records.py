"""The route of stored records that cannot be decoded."""

from typing import Any

from longshore.api.encoding import encode
from longshore.api.listing import PageQuery, page
from longshore.api.routing import Answer, Call, Nothing, Route
from longshore.core.account import Scope
from longshore.operations.broken_records import BrokenRecordList
from longshore.records import broken

__all__ = ["ROUTES"]


async def find(call: Call[Nothing, PageQuery, Nothing]) -> Answer:
    """Stored schedules, settings, tenants and webhooks that cannot be decoded.

    Every list leaves such a record out. Storing it anew replaces it.
    """
    found, cursor = page(
        await broken.every(call.service.engine),
        call.query,
        lambda one: (one.kind, one.tenant or "", one.name),
        of=("broken_records",),
    )
    return Answer(200, encode(BrokenRecordList(found, cursor)))


ROUTES: tuple[Route[Any, Any, Any], ...] = (
    Route(
        method="GET",
        path="/v1/broken-records",
        name="listBrokenRecords",
        handler=find,
        scope=Scope.READ,
        is_fleetwide=True,
        query=PageQuery,
        answers={200: BrokenRecordList},
        problems=("cursor",),
    ),
)
