"""Changes of many jobs, named by ids or found by a filter: the documents and the routes."""

import asyncio
from collections.abc import Sequence
from typing import Annotated, Any, cast

import msgspec
from msgspec import UNSET, Meta, UnsetType

from longshore.api.context import Service
from longshore.api.encoding import encode
from longshore.api.problems import invalid
from longshore.api.routing import Answer, Call, Nothing, Route
from longshore.contract import JobFilter
from longshore.core import ids
from longshore.core.account import Scope
from longshore.core.state import JobChange, State
from longshore.errors import ConfigError
from longshore.operations import bulk
from longshore.operations.bulk import Order, Pace, Tally
from longshore.operations.fields import JobIdText, Name, Tag, Text
from longshore.operations.job_documents import JobDocument, job_document
from longshore.operations.jobs import Which, change_by_ids, order_for, scopes_of

__all__ = ["ROUTES", "Asked", "Chosen", "Outcome", "carry_out"]

_LONGEST_S = 20.0
"""A request that goes through many jobs is answered after so long, done or not."""
_MOST = 10_000
_MOST_IDS = 1_000


JobIds = Annotated[list[JobIdText], Meta(min_length=1, max_length=_MOST_IDS)]


class Asked(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How jobs are to be changed."""

    ids: JobIds | UnsetType = UNSET
    """Instead of a filter: these jobs, all or none."""
    dry_run: bool = False
    """Only count them."""
    rate: Annotated[float, Meta(gt=0, le=100_000)] | None = None
    """With a filter: at most so many a second."""
    limit: Annotated[int, Meta(ge=1, le=_MOST)] | None = None
    """With a filter: at most so many; 10,000 unless given. A dry run counts all unless it is
    given."""


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """How far a change of many jobs got."""

    matched: int
    """Jobs that were found."""
    missed: int
    """Were gone or in another state when their turn came."""
    is_complete: bool
    """False when the limit or the time ran out first: ask again for the rest."""
    dry_run: bool
    jobs: list[JobDocument] | None
    """As they are now, if they were named by their ids; null for a filter."""


class Chosen(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which jobs are meant, of any state; what is left out means any."""

    queue: Name | None = None
    type: Name | None = None
    tag: Tag | None = None


class LiveFilter(Chosen, frozen=True, kw_only=True):
    """Which jobs are meant; what is left out means any."""

    state: State | None = None


class CancelJobsBody(Asked, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which jobs to cancel, and how."""

    filter: LiveFilter | UnsetType = UNSET
    """An empty one means all that wait or run."""
    reason: Text = "cancelled over HTTP"


class RetryJobsBody(Asked, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which jobs to run now, and how."""

    filter: LiveFilter | UnsetType = UNSET
    """An empty one means all that are scheduled."""


class CancelResult(Outcome, frozen=True, kw_only=True):
    """How far it got."""

    cancelled: int
    """Those that run were asked to stop."""


class RetryResult(Outcome, frozen=True, kw_only=True):
    """How far it got."""

    retried: int


async def cancel_many(call: Call[Nothing, Nothing, CancelJobsBody]) -> Answer:
    """Cancel the jobs that match, or with `dry_run` only count them.

    Those that wait at once; the workers of those that run are asked to stop them. The answer
    is sent after at most 20 seconds, and tells by `is_complete` whether to ask again.
    """
    body = call.body
    done, told = await carry_out(call, "cancel", body, body.filter, body.reason)
    return Answer(200, encode(CancelResult(cancelled=done, **told)))


async def retry_many(call: Call[Nothing, Nothing, RetryJobsBody]) -> Answer:
    """Run the scheduled jobs that match now, or with `dry_run` only count them.

    With the state `dead` or `cancelled` those that match run as if they were new. The answer
    is sent after at most 20 seconds, and tells by `is_complete` whether to ask again.
    """
    done, told = await carry_out(call, "retry", call.body, call.body.filter)
    return Answer(200, encode(RetryResult(retried=done, **told)))


async def carry_out(
    call: Call[Any, Any, Any],
    change: JobChange,
    asked: Asked,
    chosen: msgspec.Struct | UnsetType,
    reason: str = "",
) -> tuple[int, dict[str, Any]]:
    """Change what is asked for, for as long as a request may take: how many, and the rest."""
    engine, tenant = call.service.engine, call.caller.tenant
    if isinstance(asked.ids, list):
        if not isinstance(chosen, UnsetType):
            raise invalid("/filter", "cannot stand beside `ids`")
        if asked.dry_run or asked.rate is not None or asked.limit is not None:
            raise invalid("/ids", "cannot stand beside dry_run, rate or limit")
        job_ids = [ids.parse(one) for one in dict.fromkeys(asked.ids)]
        found = await change_by_ids(engine, change, job_ids, tenant=tenant, reason=reason)
        tally = Tally(matched=len(job_ids), done=len(job_ids), is_complete=True)
        return len(job_ids), _told(tally, asked, [job_document(job) for job in found])
    if isinstance(chosen, UnsetType):
        raise invalid("/filter", "is missing; `ids` can stand in its place")
    given = msgspec.structs.asdict(chosen)
    which = cast("Which", {name: one for name, one in given.items() if one is not None})
    try:
        scopes = scopes_of(change, which, tenant)
    except ConfigError as error:
        raise invalid("/filter/state", str(error).partition("; ")[2]) from None
    if asked.dry_run and asked.limit is None and not which.keys() & {"type", "tag"}:
        # Counts are kept, so nothing has to be walked.
        tally = Tally(matched=await bulk.count(engine, scopes), is_complete=True)
        return 0, _told(tally, asked)
    order = order_for(engine, change, which, tenant, reason)
    tally = await _apply(call.service, scopes, asked, order)
    return tally.done, _told(tally, asked)


async def _apply(
    service: Service, which: Sequence[JobFilter], asked: Asked, order: Order
) -> Tally:
    loop, desk = asyncio.get_running_loop(), service.desk
    deadline = loop.time() + _LONGEST_S

    async def rest(seconds: float) -> bool:
        if loop.time() + seconds > deadline:
            return False
        await desk.rest(asyncio.create_task(asyncio.sleep(seconds)))
        return not desk.is_leaving

    limit = asked.limit if asked.dry_run else asked.limit or _MOST
    pace = Pace(rate=asked.rate, limit=limit, rest=rest)
    return await bulk.apply(service.engine, which, None if asked.dry_run else order, pace)


def _told(tally: Tally, asked: Asked, jobs: list[JobDocument] | None = None) -> dict[str, Any]:
    """The fields of an Outcome."""
    return {
        "matched": tally.matched,
        "missed": tally.missed,
        "is_complete": tally.is_complete,
        "dry_run": asked.dry_run,
        "jobs": jobs,
    }


ROUTES: tuple[Route[Any, Any, Any], ...] = (
    Route(
        method="POST",
        path="/v1/jobs:cancel",
        name="cancelJobs",
        handler=cancel_many,
        scope=Scope.OPERATE,
        body=CancelJobsBody,
        answers={200: CancelResult},
        problems=("job_not_found", "illegal_transition"),
    ),
    Route(
        method="POST",
        path="/v1/jobs:retry",
        name="retryJobs",
        handler=retry_many,
        scope=Scope.OPERATE,
        body=RetryJobsBody,
        answers={200: RetryResult},
        problems=("job_not_found", "illegal_transition"),
    ),
)
