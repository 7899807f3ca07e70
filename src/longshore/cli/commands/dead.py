"""`longshore dead`: jobs that failed for good, and what to do about them."""

from collections.abc import Sequence
from functools import partial

import click
import msgspec

from longshore import bulk
from longshore.cli import listing, tables
from longshore.cli.bulk import Care, Deed, Selection, carefully, give, selecting
from longshore.cli.parameters import filtered, one_job_id
from longshore.cli.shared import Group, Shared
from longshore.core.job import JobId
from longshore.core.state import State, Verb
from longshore.engine import Engine, JobFilter
from longshore.errors import IllegalTransitionError


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
    order = partial(bulk.replaying, tenant=chosen.which.tenant)
    give(shared, chosen, care, Deed("replayed", order, (Verb.REPLAY,)))


@command.command()
@selecting(state=State.DEAD)
@carefully
@click.pass_obj
def purge(shared: Shared, chosen: Selection, care: Care) -> None:
    """Delete dead jobs. A `job.purged` event keeps what they were."""
    deed = Deed("purged", lambda engine: partial(_purge, engine), (Verb.REPLAY,))
    give(shared, chosen, care, deed)


async def _purge(engine: Engine, job_ids: Sequence[JobId]) -> None:
    for job_id in job_ids:
        state = (await engine.get(job_id)).state
        if state is not State.DEAD:
            raise IllegalTransitionError(state, "purge")
    await engine.purge(job_ids)
