"""`longshore dead`: jobs that failed for good, and what to do about them."""

import click
import msgspec

from longshore.cli import listing, tables
from longshore.cli.bulk import Care, Selection, carefully, give, selecting
from longshore.cli.global_options import Group, Shared
from longshore.cli.parameters import filtered, one_job_id
from longshore.contract import JobFilter
from longshore.core.job import JobId
from longshore.core.state import State


@click.group("dead", cls=Group)
def command() -> None:
    """List, show, replay and purge dead jobs."""


@command.command("list")
@filtered
@click.option("--limit", type=click.IntRange(1), default=20, show_default=True)
@click.pass_obj
def list_dead(shared: Shared, which: JobFilter, limit: int) -> None:
    """The newest jobs first."""
    which = msgspec.structs.replace(which, state=State.DEAD)
    listing.list_jobs(shared, which, limit=limit, layout=tables.dead)


@command.command()
@one_job_id
@click.pass_obj
def show(shared: Shared, job_id: JobId) -> None:
    """One job, its last error, and every attempt."""
    listing.show_job(shared, job_id)


@command.command()
@selecting(state=State.DEAD)
@carefully
@click.pass_obj
def replay(shared: Shared, chosen: Selection, care: Care) -> None:
    """Make dead jobs ready again, as if they had never failed.

    By id also cancelled jobs; ids are all or none.
    """
    give(shared, chosen, care, "replay", "replayed")


@command.command()
@selecting(state=State.DEAD)
@carefully
@click.pass_obj
def purge(shared: Shared, chosen: Selection, care: Care) -> None:
    """Delete dead jobs. A `job.purged` event keeps what they were."""
    give(shared, chosen, care, "purge", "purged")
