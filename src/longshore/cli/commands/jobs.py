"""`longshore jobs`: look at jobs and order them about."""

from datetime import timedelta
from functools import partial

import click
import msgspec

from longshore import bulk
from longshore.cli import listing, render, tables, waiting, wiring
from longshore.cli.bulk import Care, Deed, Selection, carefully, give, selecting
from longshore.cli.parameters import duration, filtered, job_ids, one_job_id
from longshore.cli.shared import Group, Shared
from longshore.core.job import JobId
from longshore.core.state import State, Verb
from longshore.engine import Engine, JobFilter
from longshore.slow import slowness


@click.group("jobs", cls=Group)
def command() -> None:
    """List, show, cancel, retry and wait for jobs."""


@command.command("list")
@filtered
@click.option("--state", type=click.Choice([*map(str, State)]), help="Only in this state.")
@click.option("--limit", type=click.IntRange(1), default=20, show_default=True)
@click.pass_obj
def list_jobs(shared: Shared, which: JobFilter, state: str | None, limit: int) -> None:
    """The newest jobs first."""
    which = msgspec.structs.replace(which, state=State(state) if state else None)
    listing.list_jobs(shared, which, limit=limit, layout=tables.jobs)


@command.command()
@filtered
@click.option(
    "--sample",
    type=click.IntRange(1, 10_000),
    default=1_000,
    show_default=True,
    help="Look at so many of the newest jobs that succeeded, and as many that died.",
)
@click.pass_obj
def slow(shared: Shared, which: JobFilter, sample: int) -> None:
    """Where the time goes, by type: into waiting for a worker, or into running.

    The slowest come first: p50, p95 and p99 of what half, 95 and 99 in 100 took at most.
    """

    async def look(engine: Engine) -> None:
        found = await slowness(engine, which, sample=sample)
        if shared.as_json:
            render.lines(msgspec.to_builtins(one) for one in found)
        else:
            render.table(tables.slow(found))

    wiring.ask(shared, look)


@command.command()
@one_job_id
@click.pass_obj
def show(shared: Shared, job_id: JobId) -> None:
    """One job, and every attempt so far."""
    listing.show_job(shared, job_id)


@command.command()
@selecting()
@carefully
@click.option("--reason", default="cancelled from the command line", show_default=True)
@click.pass_obj
def cancel(shared: Shared, chosen: Selection, care: Care, reason: str) -> None:
    """Cancel jobs.

    What waits is cancelled at once; the worker of what runs is asked to stop it. Ids are all
    or none. Without --state a filter means jobs that wait or run.
    """
    if chosen.job_ids and not care.is_dry:
        listing.order(shared, lambda engine: engine.cancel(chosen.job_ids, reason=reason))
        return
    tenant = chosen.which.tenant
    order = partial(bulk.cancelling, reason=reason, tenant=tenant)
    give(shared, chosen, care, Deed("cancelled", order, (Verb.CANCEL,)))


@command.command()
@selecting()
@carefully
@click.pass_obj
def retry(shared: Shared, chosen: Selection, care: Care) -> None:
    """Run scheduled jobs now, whatever they wait for.

    Ids are all or none. With --state dead or cancelled a filter means those, which run as if
    they were new.
    """
    if chosen.job_ids and not care.is_dry:
        listing.order(shared, lambda engine: engine.retry_now(chosen.job_ids))
        return
    tenant = chosen.which.tenant
    if chosen.which.state in (State.DEAD, State.CANCELLED):
        deed = Deed("retried", partial(bulk.replaying, tenant=tenant), (Verb.REPLAY,))
    else:
        deed = Deed("retried", partial(bulk.retrying, tenant=tenant), (Verb.RETRY_NOW,))
    give(shared, chosen, care, deed)


@command.command()
@job_ids()
@click.option("--timeout", type=duration, help="Give up waiting after this long.")
@click.pass_obj
def wait(shared: Shared, job_ids: list[JobId], timeout: timedelta | None) -> None:
    """Wait until jobs have finished.

    Exit code 5 if one ended dead or cancelled, 6 if the time is over.
    """
    finished = listing.order(
        shared, lambda engine: waiting.finished(engine, job_ids, within=timeout)
    )
    waiting.refuse_failed(finished)
