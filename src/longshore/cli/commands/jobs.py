"""`longshore jobs`: look at jobs and order them about."""

from datetime import timedelta

import click
import msgspec

from longshore.cli import listing, tables, waiting
from longshore.cli.parameters import duration, filtered, job_ids, one_job_id
from longshore.cli.shared import Group, Shared
from longshore.core.job import JobId
from longshore.core.state import State
from longshore.engine import JobFilter


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
@one_job_id
@click.pass_obj
def show(shared: Shared, job_id: JobId) -> None:
    """One job, and every attempt so far."""
    listing.show_job(shared, job_id)


@command.command()
@job_ids()
@click.option("--reason", default="cancelled from the command line", show_default=True)
@click.pass_obj
def cancel(shared: Shared, job_ids: list[JobId], reason: str) -> None:
    """Cancel jobs, all or none.

    What waits is cancelled at once; the worker of what runs is asked to stop it.
    """
    listing.order(shared, lambda engine: engine.cancel(job_ids, reason=reason))


@command.command()
@job_ids()
@click.pass_obj
def retry(shared: Shared, job_ids: list[JobId]) -> None:
    """Run scheduled jobs now, all or none.

    Those are retries that wait, and jobs with a delay. A dead or cancelled job is run again
    with `longshore dead replay`.
    """
    listing.order(shared, lambda engine: engine.retry_now(job_ids))


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
