"""`longshore jobs`: look at jobs and order them about."""

from datetime import timedelta

import click
import msgspec

from longshore.cli import listing, render, tables, wait_for_job, wiring
from longshore.cli.bulk import Care, Selection, carefully, give, selecting
from longshore.cli.global_options import Group, Shared
from longshore.cli.parameters import duration, filtered, job_ids, one_job_id
from longshore.contract import JobFilter
from longshore.core import ids
from longshore.core.job import JobId
from longshore.core.latency import Slowness
from longshore.core.state import State
from longshore.operations.backend import Backend
from longshore.operations.jobs import JobChange


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

    async def look(backend: Backend) -> list[Slowness]:
        return await backend.slow_types(
            queue=which.queue, type=which.type, tag=which.tag, sample=sample
        )

    found = wiring.run(shared, look, tenant=which.tenant)
    if shared.as_json:
        render.lines(found)
    else:
        render.table(tables.slow(found))


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
    _change(shared, chosen, care, "cancel", "cancelled", reason)


@command.command()
@selecting()
@carefully
@click.pass_obj
def retry(shared: Shared, chosen: Selection, care: Care) -> None:
    """Run scheduled jobs now, whatever they wait for.

    Ids are all or none. With --state dead or cancelled a filter means those, which run as if
    they were new.
    """
    _change(shared, chosen, care, "retry", "retried")


@command.command()
@job_ids()
@click.option("--timeout", type=duration, help="Give up waiting after this long.")
@click.pass_obj
def wait(shared: Shared, job_ids: list[JobId], timeout: timedelta | None) -> None:
    """Wait until jobs have finished.

    Exit code 5 if one ended dead or cancelled, 6 if the time is over.
    """
    named = [ids.text(one) for one in job_ids]
    finished = listing.change(
        shared, lambda backend: wait_for_job.finished(backend, named, within=timeout)
    )
    wait_for_job.refuse_failed(finished)


def _change(
    shared: Shared,
    chosen: Selection,
    care: Care,
    change: JobChange,
    done: str,
    reason: str = "",
) -> None:
    if not chosen.job_ids or care.is_dry:
        give(shared, chosen, care, change, done, reason=reason)
        return
    named = [ids.text(one) for one in chosen.job_ids]
    listing.change(shared, lambda backend: backend.change_jobs(change, named, reason=reason))
