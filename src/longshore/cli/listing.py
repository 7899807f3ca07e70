"""Jobs on the screen: lists, single jobs, and what became of a change."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime

import click
import msgspec

from longshore.cli import render, tables, wiring
from longshore.cli.global_options import Shared
from longshore.cli.render import Table
from longshore.contract import JobFilter
from longshore.core import ids
from longshore.core.job import JobId
from longshore.core.state import State
from longshore.operations.backend import Backend
from longshore.operations.job_documents import JobDocument
from longshore.operations.jobs import Which

__all__ = ["change", "list_jobs", "show_job", "which_of"]

_WAITING = (State.READY, State.SCHEDULED)


def which_of(which: JobFilter) -> Which:
    """The filter without its tenant, of whom the backend knows."""
    found: Which = {}
    if which.queue is not None:
        found["queue"] = which.queue
    if which.type is not None:
        found["type"] = which.type
    if which.state is not None:
        found["state"] = which.state
    if which.tag is not None:
        found["tag"] = which.tag
    return found


def list_jobs(
    shared: Shared,
    which: JobFilter,
    *,
    limit: int,
    layout: Callable[[Sequence[JobDocument], datetime], Table] = tables.jobs,
) -> None:
    """Print the jobs that match: lines of JSON as they come, or a table."""

    async def look(backend: Backend) -> None:
        found: list[JobDocument] = []
        seen = 0
        async for job in backend.jobs(**which_of(which)):
            seen += 1
            if seen > limit:
                break
            if shared.as_json:
                render.document(job)
            else:
                found.append(job)
        if not shared.as_json:
            render.table(layout(found, await backend.now()))
        if seen > limit:
            render.note(f"only the newest {limit}; --limit shows more")

    wiring.run(shared, look, tenant=which.tenant)


def show_job(shared: Shared, job_id: JobId) -> None:
    """Print one job with its history, and why it waits."""

    async def look(backend: Backend) -> None:
        job = await backend.get(ids.text(job_id))
        history = await backend.attempts(job.id)
        reasons = (await backend.explain(job.id)).reasons if job.state in _WAITING else []
        why = [one.text for one in reasons]
        if shared.as_json:
            whole = msgspec.to_builtins(job)
            render.document(
                {**whole, "attempts": history, "waits_because": why[0] if why else None}
            )
            return
        now = await backend.now()
        render.sheet(tables.job(job, now, why))
        if history:
            click.echo()
            render.table(tables.attempts(history, now))

    wiring.run(shared, look)


def change(
    shared: Shared, call: Callable[[Backend], Awaitable[Sequence[JobDocument]]]
) -> Sequence[JobDocument]:
    """Change some jobs, or wait for them, and print them as they are then."""

    async def carry_out(backend: Backend) -> Sequence[JobDocument]:
        jobs = await call(backend)
        if shared.as_json:
            render.lines(jobs)
        else:
            render.table(tables.jobs(jobs, await backend.now()))
        return jobs

    return wiring.run(shared, carry_out)
