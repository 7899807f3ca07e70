"""`longshore dead`: jobs that failed for good, and what to do about them."""

import getpass
import socket
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import click
import msgspec

from longshore.cli import bulk, listing, render, tables, wiring
from longshore.cli.bulk import Selection, Tally, selecting
from longshore.cli.parameters import filtered, one_job_id
from longshore.cli.shared import Group, Shared
from longshore.core.job import JobId
from longshore.core.state import State
from longshore.engine import Engine, JobFilter
from longshore.errors import IllegalTransitionError

dry_run = click.option("--dry-run", is_flag=True, help="Only count them.")


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
@selecting
@dry_run
@click.option(
    "--rate", type=click.FloatRange(0, min_open=True), help="At most so many a second."
)
@click.pass_obj
def replay(shared: Shared, chosen: Selection, dry_run: bool, rate: float | None) -> None:
    """Make dead jobs ready again, as if they had never failed.

    By id also cancelled jobs; ids are all or none.
    """
    order = None if dry_run else _replay
    _give(shared, chosen, "replayed", order, rate=rate)


@command.command()
@selecting
@dry_run
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.pass_obj
def purge(shared: Shared, chosen: Selection, dry_run: bool, yes: bool) -> None:
    """Delete dead jobs. A `job.purged` event keeps what they were."""
    if not (yes or dry_run or chosen.job_ids):
        click.confirm("delete every dead job that matches?", abort=True, err=True)
    _give(shared, chosen, "purged", None if dry_run else _purge)


def _give(
    shared: Shared,
    chosen: Selection,
    done: str,
    order: Callable[[Engine, Sequence[JobId]], Awaitable[object]] | None,
    *,
    rate: float | None = None,
) -> None:
    """Give the order, or without one only count, and say how many jobs there were."""

    async def give(engine: Engine) -> Tally:
        if order is None:
            return Tally(done=await bulk.count(engine, chosen))
        with render.progress() as say:
            return await bulk.apply(
                engine,
                chosen,
                partial(order, engine),
                rate=rate,
                watch=lambda tally: say(f"{done} {tally.done}"),
            )

    tally = wiring.ask(shared, give)
    if shared.as_json:
        is_dry = order is None
        render.document({done: tally.done, "missed": tally.missed, "dry_run": is_dry})
        return
    would = "would be " if order is None else ""
    click.echo(f"{tally.done} {'job' if tally.done == 1 else 'jobs'} {would}{done}")
    if tally.missed:
        render.note(f"{tally.missed} were no longer dead when their turn came")


async def _replay(engine: Engine, job_ids: Sequence[JobId]) -> None:
    await engine.replay(job_ids)


async def _purge(engine: Engine, job_ids: Sequence[JobId]) -> None:
    for job_id in job_ids:
        state = (await engine.get(job_id)).state
        if state is not State.DEAD:
            raise IllegalTransitionError(state, "purge")
    await engine.purge(job_ids, who=_who())


def _who() -> str:
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        # A container may run under a number that has no name.
        user = "unknown"
    return f"{user}@{socket.gethostname()}"
