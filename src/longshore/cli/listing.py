"""Jobs on the screen: lists, single jobs, and what became of an order."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

import click

from longshore.cli import documents, render, tables, waits, wiring
from longshore.cli.render import Table
from longshore.cli.shared import Shared
from longshore.core import poison
from longshore.core.job import Job, JobId
from longshore.engine import Engine, JobFilter, Page

__all__ = ["list_jobs", "order", "pages", "show_job"]

_PAGE = 500


async def pages(engine: Engine, which: JobFilter, *, limit: int) -> AsyncIterator[Page]:
    """The jobs that match, newest first, up to `limit` of them."""
    cursor: str | None = None
    while limit > 0:
        page = await engine.find(which, limit=min(limit, _PAGE), cursor=cursor)
        yield page
        limit -= len(page.jobs)
        cursor = page.cursor
        if cursor is None:
            return


def list_jobs(
    shared: Shared,
    which: JobFilter,
    *,
    limit: int,
    layout: Callable[[Sequence[Job], int], Table] = tables.jobs,
) -> None:
    """Print the jobs that match: lines of JSON as they come, or a table."""

    async def look(engine: Engine) -> None:
        found: list[Job] = []
        cursor: str | None = None
        async for page in pages(engine, which, limit=limit):
            cursor = page.cursor
            if shared.as_json:
                render.lines(map(documents.job, page.jobs))
            else:
                found.extend(page.jobs)
        if not shared.as_json:
            render.table(layout(found, await engine.now()))
        if cursor is not None:
            render.note(f"only the newest {limit}; --limit shows more")

    wiring.ask(shared, look)


def show_job(shared: Shared, job_id: JobId) -> None:
    """Print one job with its history."""

    async def look(engine: Engine) -> None:
        job, history = await engine.get(job_id), await engine.attempts(job_id)
        waits_because = await waits.why(engine, job)
        if shared.as_json:
            render.document(documents.job(job, history, waits_because))
            return
        now = await engine.now()
        victims = poison.victims(history)
        render.sheet(tables.job(job, now, waits_because, victims))
        if history:
            click.echo()
            render.table(tables.attempts(history, now))

    wiring.ask(shared, look)


def order(shared: Shared, call: Callable[[Engine], Awaitable[Sequence[Job]]]) -> Sequence[Job]:
    """Order something for some jobs, and print them as they are then."""

    async def carry_out(engine: Engine) -> Sequence[Job]:
        jobs = await call(engine)
        if shared.as_json:
            render.lines(map(documents.job, jobs))
        else:
            render.table(tables.jobs(jobs, await engine.now()))
        return jobs

    return wiring.ask(shared, carry_out)
