"""Jobs: what API, command line and SDK do with them."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import TypedDict, Unpack

import msgspec

from longshore import paging
from longshore.contract import Engine, Jobs
from longshore.core import explain as reasons
from longshore.core import ids, poison
from longshore.core.job import Job, JobId, NewJob, Submitted
from longshore.core.state import JobChange, State, Verb
from longshore.core.view import JobFilter
from longshore.errors import ConfigError, IllegalTransitionError
from longshore.operations import bulk
from longshore.operations import explain as facts
from longshore.operations.bulk import Order, Pace, Tally
from longshore.operations.fields import moment
from longshore.operations.job_documents import AttemptView, JobDocument, attempt_view, read_job
from longshore.operations.local import EngineOperations
from longshore.options import Duration, microseconds
from longshore.streaming.events import JobEvent
from longshore.streaming.following import follow

__all__ = [
    "Explanation",
    "JobOperations",
    "ReasonView",
    "Which",
    "change_by_ids",
    "explanation",
    "order_for",
    "scopes_of",
]

_PAGE = 100

_VERBS: Mapping[JobChange, Verb] = {
    "cancel": Verb.CANCEL,
    "retry": Verb.RETRY_NOW,
    "replay": Verb.REPLAY,
    "purge": Verb.REPLAY,
}
"""Says in which states jobs are meant where none is named."""


class Which(TypedDict, total=False):
    """Which jobs are meant; what is left out means any."""

    queue: str
    type: str
    state: State
    tag: str


class ReasonView(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that keeps a job from running, or says why it need not."""

    code: str
    """For programs."""
    text: str
    """For people."""
    until: datetime | None
    """When it passes by itself, as far as that can be said."""


class Explanation(msgspec.Struct, frozen=True):
    """Why a job does not run."""

    id: str
    state: State
    reasons: list[ReasonView]
    """At least one."""


class JobOperations(EngineOperations):
    """What is done with jobs on an engine."""

    async def submit_jobs(
        self, jobs: Sequence[NewJob], *, independent: bool = False
    ) -> list[Submitted]:
        """Store the jobs durably, all or none; with `independent` each for itself."""
        return await self._engine.submit(jobs, independent=independent)

    async def get(self, job_id: str) -> JobDocument:
        """The job, or JobNotFoundError."""
        job = await self._engine.get(ids.parse(job_id), tenant=self._tenant)
        history = ()
        if job.crashes:
            history = await self._engine.attempts(job.id, tenant=self._tenant)
        return read_job(job, poison.victims(history))

    async def attempts(self, job_id: str) -> list[AttemptView]:
        """The job's deliveries that ended, oldest first, or JobNotFoundError."""
        found = await self._engine.attempts(ids.parse(job_id), tenant=self._tenant)
        return [attempt_view(one) for one in found]

    async def explain(self, job_id: str) -> Explanation:
        """Why the job does not run, or JobNotFoundError."""
        return await explanation(self._engine, ids.parse(job_id), tenant=self._tenant)

    def events(self, job_id: str, timeout: Duration | None = None) -> AsyncIterator[JobEvent]:
        """How the job stands, and then all that happens to it, up to its end.

        WaitTimeoutError if it takes longer than `timeout`; the job goes on.
        """
        seconds = None if timeout is None else microseconds(timeout) / 1e6
        return follow(self._engine, ids.parse(job_id), seconds, tenant=self._tenant)

    async def jobs(self, **which: Unpack[Which]) -> AsyncIterator[JobDocument]:
        """Every job that fits, newest first."""
        wanted = JobFilter(tenant=self._tenant, **which)
        cursor: str | None = None
        while True:
            page = await paging.find(self._engine, wanted, limit=_PAGE, cursor=cursor)
            for job in page.jobs:
                yield read_job(job)
            cursor = page.cursor
            if cursor is None:
                return

    async def change_jobs(
        self, change: JobChange, job_ids: Sequence[str], *, reason: str = ""
    ) -> list[JobDocument]:
        """Change these jobs, all or none; the jobs as they are then, none when purged.

        JobNotFoundError or IllegalTransitionError leave everything as it was.
        """
        changed = await change_by_ids(
            self._engine,
            change,
            [ids.parse(one) for one in job_ids],
            tenant=self._tenant,
            reason=reason,
        )
        return [read_job(job) for job in changed]

    async def change_matching(
        self,
        change: JobChange,
        which: Which,
        *,
        reason: str = "",
        is_dry: bool = False,
        rate: float | None = None,
        watch: Callable[[Tally], None] = lambda _: None,
    ) -> Tally:
        """Change all jobs that fit, at most `rate` a second; with `is_dry` only count them.

        `watch` hears again and again how far it got. What others changed meanwhile is left
        out, and counted as missed.
        """
        scopes = scopes_of(change, which, self._tenant)
        if is_dry:
            return Tally(matched=await bulk.count(self._engine, scopes), is_complete=True)
        order = order_for(self._engine, change, which, self._tenant, reason)
        return await bulk.apply(self._engine, scopes, order, Pace(rate=rate), watch=watch)


def scopes_of(change: JobChange, which: Which, tenant: str | None) -> list[JobFilter]:
    """The filters, one for each state, that find the jobs that are meant.

    ConfigError for a state in which the change is not possible.
    """
    found = JobFilter(
        tenant=tenant,
        queue=which.get("queue"),
        type=which.get("type"),
        state=which.get("state"),
        tag=which.get("tag"),
    )
    if change in ("replay", "purge"):
        if found.state not in (None, State.DEAD):
            raise ConfigError(f"state is {found.state}; it must be dead")
        found = msgspec.structs.replace(found, state=State.DEAD)
    return bulk.scopes(found, _VERBS[_meant(change, which)])


def order_for(
    engine: Jobs, change: JobChange, which: Which, tenant: str | None, reason: str
) -> Order:
    """The order that is given to the jobs which `scopes_of` finds."""
    return partial(
        engine.change, _meant(change, which), reason=reason, tenant=tenant, independent=True
    )


async def change_by_ids(
    engine: Jobs,
    change: JobChange,
    job_ids: Sequence[JobId],
    *,
    tenant: str | None,
    reason: str = "",
) -> list[Job]:
    """Change these jobs, all or none; the jobs as they are then, none when purged.

    JobNotFoundError, or IllegalTransitionError, which it is too to purge what is not dead.
    """
    if change == "purge":
        for job_id in job_ids:
            state = (await engine.get(job_id, tenant=tenant)).state
            if state is not State.DEAD:
                raise IllegalTransitionError(state, "purge")
    changed = await engine.change(change, job_ids, reason=reason, tenant=tenant)
    return [] if change == "purge" else changed


async def explanation(
    engine: Engine, job_id: JobId, *, tenant: str | None = None
) -> Explanation:
    """Why a job does not run, or JobNotFoundError."""
    known = await facts.gather(engine, job_id, tenant=tenant)
    told = [
        ReasonView(code=one.code, text=one.text, until=moment(one.until))
        for one in reasons.explain(known)
    ]
    return Explanation(ids.text(known.job.id), known.job.state, told)


def _meant(change: JobChange, which: Which) -> JobChange:
    # What has ended is not run now but as if it were new.
    is_over = which.get("state") in (State.DEAD, State.CANCELLED)
    return "replay" if change == "retry" and is_over else change
