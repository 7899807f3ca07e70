"""The routes of dead jobs."""

from typing import Any

from msgspec import UNSET, UnsetType

from longshore.api import bulk, jobs
from longshore.api.bulk import Asked, Chosen, Outcome
from longshore.api.encoding import encode
from longshore.api.jobs import JobPath, Listed
from longshore.api.routing import Answer, Call, Nothing, Route
from longshore.core import ids
from longshore.core.account import Scope
from longshore.core.job import Job
from longshore.core.state import State
from longshore.errors import IllegalTransitionError
from longshore.operations.job_documents import JobDocument, JobList, job_document

__all__ = ["ROUTES", "DeadQuery", "ReplayJobsBody", "ReplayResult"]


class DeadQuery(Listed, frozen=True, kw_only=True):
    """Which dead jobs to list; what is left out means any."""


class DeadFilter(Chosen, frozen=True, kw_only=True):
    """Which dead jobs are meant; what is left out means any."""


class ReplayJobsBody(Asked, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which dead jobs to replay, and how."""

    filter: DeadFilter | UnsetType = UNSET
    """An empty one means all of them. By their ids cancelled jobs are replayed too."""


class ReplayResult(Outcome, frozen=True, kw_only=True):
    """How far a replay got."""

    replayed: int


class PurgeJobsBody(Asked, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which dead jobs to delete, and how."""

    filter: DeadFilter | UnsetType = UNSET
    """An empty one means all of them."""


class PurgeResult(Outcome, frozen=True, kw_only=True):
    """How far it got."""

    purged: int


async def find(call: Call[Nothing, DeadQuery, Nothing]) -> Answer:
    """Dead jobs that match, newest first, a page at a time.

    A page of large jobs ends before `limit`, at about 4 MiB; `cursor` tells where to go on.
    """
    return await jobs.list_jobs(call, call.query, State.DEAD)


async def get(call: Call[JobPath, Nothing, Nothing]) -> Answer:
    """One dead job, with its last error; 409 if the job is not dead."""
    return await jobs.tell(call.service, await _dead(call, "show as dead"))


async def replay(call: Call[JobPath, Nothing, Nothing]) -> Answer:
    """Make a dead job ready again, as if it had never failed."""
    job = await _dead(call, "replay")
    (replayed,) = await call.service.engine.change(
        "replay", [job.id], tenant=call.caller.tenant
    )
    return Answer(200, encode(job_document(replayed)))


async def purge(call: Call[JobPath, Nothing, Nothing]) -> Answer:
    """Delete a dead job. A `job.purged` event keeps what it was."""
    job = await _dead(call, "purge")
    await call.service.engine.change("purge", [job.id], tenant=call.caller.tenant)
    return Answer(204)


async def replay_many(call: Call[Nothing, Nothing, ReplayJobsBody]) -> Answer:
    """Replay the dead jobs that match, or with `dry_run` only count them.

    With a `rate` they come back slowly: the answer is sent after at most 20 seconds, sooner
    when the service is about to stop, and tells by `is_complete` whether to ask again.
    """
    done, told = await bulk.carry_out(call, "replay", call.body, call.body.filter)
    return Answer(200, encode(ReplayResult(replayed=done, **told)))


async def purge_many(call: Call[Nothing, Nothing, PurgeJobsBody]) -> Answer:
    """Delete the dead jobs that match, or with `dry_run` only count them.

    A `job.purged` event keeps what each was. The answer is sent after at most 20 seconds, and
    tells by `is_complete` whether to ask again.
    """
    done, told = await bulk.carry_out(call, "purge", call.body, call.body.filter)
    return Answer(200, encode(PurgeResult(purged=done, **told)))


async def _dead(call: Call[JobPath, Any, Any], verb: str) -> Job:
    engine = call.service.engine
    job = await engine.get(ids.parse(call.path.id), tenant=call.caller.tenant)
    if job.state is not State.DEAD:
        raise IllegalTransitionError(job.state, verb)
    return job


ROUTES: tuple[Route[Any, Any, Any], ...] = (
    Route(
        method="GET",
        path="/v1/dead",
        aliases=("/dlq",),
        name="listDeadJobs",
        handler=find,
        scope=Scope.READ,
        query=DeadQuery,
        answers={200: JobList},
        problems=("cursor",),
    ),
    Route(
        method="POST",
        path="/v1/dead:replay",
        aliases=("/dlq/retry",),
        name="replayDeadJobs",
        handler=replay_many,
        scope=Scope.OPERATE,
        body=ReplayJobsBody,
        answers={200: ReplayResult},
        problems=("job_not_found", "illegal_transition"),
    ),
    Route(
        method="POST",
        path="/v1/dead:purge",
        aliases=("/dlq/purge",),
        name="purgeDeadJobs",
        handler=purge_many,
        scope=Scope.OPERATE,
        body=PurgeJobsBody,
        answers={200: PurgeResult},
        problems=("job_not_found", "illegal_transition"),
    ),
    Route(
        method="GET",
        path="/v1/dead/{id}",
        aliases=("/dlq/{id}",),
        name="getDeadJob",
        handler=get,
        scope=Scope.READ,
        parameters=JobPath,
        answers={200: JobDocument},
        problems=("job_not_found", "illegal_transition"),
    ),
    Route(
        method="POST",
        path="/v1/dead/{id}:replay",
        aliases=("/dlq/{id}/requeue",),
        name="replayDeadJob",
        handler=replay,
        scope=Scope.OPERATE,
        parameters=JobPath,
        answers={200: JobDocument},
        problems=("job_not_found", "illegal_transition"),
    ),
    Route(
        method="DELETE",
        path="/v1/dead/{id}",
        aliases=("/dlq/{id}",),
        name="purgeDeadJob",
        handler=purge,
        scope=Scope.OPERATE,
        parameters=JobPath,
        answers={204: None},
        problems=("job_not_found", "illegal_transition"),
    ),
)
