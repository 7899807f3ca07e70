"""Orders to all the jobs that a filter finds: what is asked, how far it got, and the routes."""

import asyncio
from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from longshore import bulk
from longshore.api.fields import Name, Tag, Text
from longshore.api.problems import invalid
from longshore.api.routing import Answer, Call, Nothing, Route
from longshore.api.service import Service
from longshore.api.views import encode
from longshore.bulk import Order, Pace, Tally
from longshore.core.account import Scope
from longshore.core.state import State, Verb
from longshore.engine import JobFilter
from longshore.errors import ConfigError

__all__ = ["ROUTES", "Asked", "Outcome", "carry_out", "outcome"]

_LONGEST_S = 20.0
"""A request that goes through many jobs is answered after so long, done or not."""
_MOST = 10_000


class Asked(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How an order is to be given."""

    dry_run: bool = False
    """Only count them."""
    rate: Annotated[float, Meta(gt=0, le=100_000)] | None = None
    """At most so many a second."""
    limit: Annotated[int, Meta(ge=1, le=_MOST)] = _MOST
    """At most so many."""


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """How far an order got."""

    matched: int
    """Jobs that were found."""
    missed: int
    """Were gone or in another state when their turn came."""
    is_complete: bool
    """False when the limit or the time ran out first: ask again for the rest."""
    dry_run: bool


class LiveFilter(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which jobs are meant; what is left out means any."""

    queue: Name | None = None
    type: Name | None = None
    state: State | None = None
    tag: Tag | None = None


class CancelMany(Asked, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which jobs to cancel, and how."""

    filter: LiveFilter
    """An empty one means all that wait or run."""
    reason: Text = "cancelled over HTTP"


class RetryMany(Asked, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which jobs to run now, and how."""

    filter: LiveFilter
    """An empty one means all that are scheduled."""


class CancelResult(Outcome, frozen=True, kw_only=True):
    """How far it got."""

    cancelled: int
    """Those that run were asked to stop."""


class RetryResult(Outcome, frozen=True, kw_only=True):
    """How far it got."""

    retried: int


async def cancel_many(call: Call[Nothing, Nothing, CancelMany]) -> Answer:
    """Cancel the jobs that match, or with `dry_run` only count them.

    Those that wait at once; the workers of those that run are asked to stop them. The answer
    is sent after at most 20 seconds, and tells by `is_complete` whether to ask again.
    """
    body, engine, tenant = call.body, call.service.engine, call.caller.tenant
    which = _scopes(body.filter, tenant, Verb.CANCEL)
    order = bulk.cancelling(engine, reason=body.reason, tenant=tenant)
    tally = await carry_out(call.service, which, body, order)
    told = CancelResult(cancelled=tally.done, **outcome(tally, body))
    return Answer(200, encode(told))


async def retry_many(call: Call[Nothing, Nothing, RetryMany]) -> Answer:
    """Run the scheduled jobs that match now, or with `dry_run` only count them.

    With the state `dead` or `cancelled` those that match run as if they were new. The answer
    is sent after at most 20 seconds, and tells by `is_complete` whether to ask again.
    """
    body, engine, tenant = call.body, call.service.engine, call.caller.tenant
    if body.filter.state in (State.DEAD, State.CANCELLED):
        which = _scopes(body.filter, tenant, Verb.REPLAY)
        order = bulk.replaying(engine, tenant=tenant)
    else:
        which = _scopes(body.filter, tenant, Verb.RETRY_NOW)
        order = bulk.retrying(engine, tenant=tenant)
    tally = await carry_out(call.service, which, body, order)
    return Answer(200, encode(RetryResult(retried=tally.done, **outcome(tally, body))))


async def carry_out(
    service: Service, which: Sequence[JobFilter], asked: Asked, order: Order
) -> Tally:
    """Give the order as it was asked for, for as long as a request may take."""
    loop, desk = asyncio.get_running_loop(), service.desk
    deadline = loop.time() + _LONGEST_S

    async def rest(seconds: float) -> bool:
        if loop.time() + seconds > deadline:
            return False
        await desk.rest(asyncio.create_task(asyncio.sleep(seconds)))
        return not desk.is_leaving

    pace = Pace(rate=asked.rate, limit=asked.limit, rest=rest)
    return await bulk.apply(service.engine, which, None if asked.dry_run else order, pace)


def outcome(tally: Tally, asked: Asked) -> dict[str, Any]:
    """The fields of an Outcome."""
    return {
        "matched": tally.matched,
        "missed": tally.missed,
        "is_complete": tally.is_complete,
        "dry_run": asked.dry_run,
    }


def _scopes(asked: LiveFilter, tenant: str | None, *verbs: Verb) -> list[JobFilter]:
    which = JobFilter(
        tenant=tenant, queue=asked.queue, type=asked.type, state=asked.state, tag=asked.tag
    )
    try:
        return bulk.scopes(which, *verbs)
    except ConfigError as error:
        raise invalid("/filter/state", str(error).partition("; ")[2]) from None


ROUTES: tuple[Route[Any, Any, Any], ...] = (
    Route(
        method="POST",
        path="/v1/jobs:cancel",
        name="cancelJobs",
        handler=cancel_many,
        scope=Scope.OPERATE,
        body=CancelMany,
        answers={200: CancelResult},
    ),
    Route(
        method="POST",
        path="/v1/jobs:retry",
        name="retryJobs",
        handler=retry_many,
        scope=Scope.OPERATE,
        body=RetryMany,
        answers={200: RetryResult},
    ),
)
