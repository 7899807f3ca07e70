"""The routes of consumers: who reads events, and what none of them could hand on."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from longshore.api.encoding import encode
from longshore.api.listing import PageQuery, page
from longshore.api.routing import Answer, Call, Nothing, Route
from longshore.core.account import Scope
from longshore.operations.outbox import (
    ConsumerList,
    OutboxOperations,
    QuarantinedList,
    consumer_view,
    quarantine_place,
    quarantined_view,
)
from longshore.records import quarantine

__all__ = ["ROUTES"]


class ConsumerPath(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Names a consumer."""

    name: Annotated[str, Meta(min_length=1, max_length=200, pattern=r"\A[^\x00]*\Z")]


async def find(call: Call[Nothing, PageQuery, Nothing]) -> Answer:
    """Who reads events, such as the relay to Kafka, and how far behind each is."""
    engine = call.service.engine
    found, cursor = page(
        await engine.consumers(), call.query, lambda one: (one.name,), of=("consumers",)
    )
    now = await engine.now()
    return Answer(200, encode(ConsumerList([consumer_view(one, now) for one in found], cursor)))


async def forget(call: Call[ConsumerPath, Nothing, Nothing]) -> Answer:
    """Forget a consumer, so that no events are kept for it."""
    await OutboxOperations(call.service.engine).forget_consumer(call.path.name)
    return Answer(204)


async def quarantined(call: Call[Nothing, PageQuery, Nothing]) -> Answer:
    """Events that a consumer could not hand on, newest first, with what is in them."""
    query = call.query
    read = query.limit + 1
    # The engine reads from the newest on, so a later page takes a longer read.
    while True:
        found = await quarantine.latest(call.service.engine, limit=read)
        shown, cursor = page(found, query, quarantine_place, of=("quarantined",))
        # Events of one commit have the same time: beside the oldest there may be others.
        is_enough = cursor is not None and shown[-1].at > found[-1].at
        if is_enough or len(found) < read:
            break
        read *= 4
    return Answer(
        200, encode(QuarantinedList([quarantined_view(one) for one in shown], cursor))
    )


ROUTES: tuple[Route[Any, Any, Any], ...] = (
    Route(
        method="GET",
        path="/v1/consumers",
        name="listConsumers",
        handler=find,
        scope=Scope.READ,
        is_fleetwide=True,
        query=PageQuery,
        answers={200: ConsumerList},
        problems=("cursor",),
    ),
    Route(
        method="DELETE",
        path="/v1/consumers/{name}",
        name="forgetConsumer",
        handler=forget,
        scope=Scope.OPERATE,
        is_fleetwide=True,
        parameters=ConsumerPath,
        answers={204: None},
        problems=("not_found",),
    ),
    Route(
        method="GET",
        path="/v1/quarantined",
        name="listQuarantinedEvents",
        handler=quarantined,
        scope=Scope.READ,
        is_fleetwide=True,
        query=PageQuery,
        answers={200: QuarantinedList},
        problems=("cursor",),
    ),
)
