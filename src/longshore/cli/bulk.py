"""Orders to many jobs from the shell: named by id, or found by a filter."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any

import click
import msgspec

from longshore import bulk
from longshore.bulk import Order, Pace, Tally
from longshore.cli import render, wiring
from longshore.cli.parameters import filtered, job_ids, rate
from longshore.cli.shared import Shared
from longshore.core.job import JobId
from longshore.core.state import State, Verb
from longshore.engine import Engine, JobFilter
from longshore.errors import ConfigError

__all__ = ["Care", "Deed", "Selection", "carefully", "give", "selecting"]


@dataclass(frozen=True, slots=True)
class Selection:
    """Which jobs are meant: those with the ids or, without ids, all that match."""

    job_ids: Sequence[JobId]
    which: JobFilter


@dataclass(frozen=True, slots=True, kw_only=True)
class Care:
    """How carefully an order to many jobs is given."""

    is_dry: bool
    rate: float | None
    is_agreed: bool


@dataclass(frozen=True, slots=True)
class Deed:
    """What is done to jobs."""

    done: str
    """The word for it: cancelled, replayed."""
    order: Callable[[Engine], Order]
    verbs: tuple[Verb, ...]
    """Says in which states they are meant where none is named."""


def selecting(*, state: State | None = None) -> Callable[[Callable[..., None]], Any]:
    """Ids, a filter or `--all`, passed as one Selection named `chosen`.

    Without a `state` that is meant anyway, `--state` is part of the filter.
    """

    def decorate(function: Callable[..., None]) -> Any:
        @job_ids(required=False)
        @filtered
        @click.option("--all", "is_all", is_flag=True, help="All of them.")
        @wraps(function)
        def gathered(*args: Any, **options: Any) -> None:
            named: list[JobId] = options.pop("job_ids")
            which: JobFilter = options.pop("which")
            said: str | None = options.pop("state", None)
            if said is not None:
                which = msgspec.structs.replace(which, state=State(said))
            if [bool(named), which != JobFilter(), options.pop("is_all")].count(True) != 1:
                words = "name the jobs by id, or by a filter, or take --all of them"
                raise click.UsageError(words)
            if state is not None:
                which = msgspec.structs.replace(which, state=state)
            function(*args, chosen=Selection(named, which), **options)

        if state is not None:
            return gathered
        choice = click.Choice([*map(str, State)])
        return click.option("--state", type=choice, help="Only in this state.")(gathered)

    return decorate


def carefully(function: Callable[..., None]) -> Callable[..., None]:
    """How an order to those that match is given, passed as one Care named `care`."""

    @click.option("--dry-run", "is_dry", is_flag=True, help="Only count them.")
    @click.option("--rate", type=rate, help="At most so many, such as 500/s; with a filter.")
    @click.option("--yes", "is_agreed", is_flag=True, help="Do not ask.")
    @wraps(function)
    def gathered(*args: Any, **options: Any) -> None:
        care = Care(**{name: options.pop(name) for name in ("is_dry", "rate", "is_agreed")})
        function(*args, care=care, **options)

    return gathered


def give(shared: Shared, chosen: Selection, care: Care, deed: Deed) -> None:
    """Give the order to all that match, or in a dry run only count, and say how many.

    Ids are all or none; of what was found, those that someone else changed meanwhile are left
    out.
    """
    try:
        which = bulk.scopes(chosen.which, *deed.verbs)
    except ConfigError as error:
        raise click.UsageError(str(error)) from None
    if chosen.job_ids and care.rate is not None:
        raise click.UsageError("--rate is for jobs that a filter finds")

    async def carry_out(engine: Engine) -> Tally:
        if care.is_dry:
            return Tally(done=await _count(engine, chosen, which))
        if chosen.job_ids:
            await deed.order(engine)(chosen.job_ids)
            return Tally(done=len(chosen.job_ids))
        if not care.is_agreed:
            many = _jobs(await bulk.count(engine, which))
            click.confirm(f"{many} will be {deed.done}; go on?", abort=True, err=True)
        return await _apply(engine, which, care, deed)

    _tell(shared, wiring.ask(shared, carry_out), care, deed)


def _tell(shared: Shared, tally: Tally, care: Care, deed: Deed) -> None:
    if shared.as_json:
        render.document({deed.done: tally.done, "missed": tally.missed, "dry_run": care.is_dry})
        return
    click.echo(f"{_jobs(tally.done)} {'would be ' if care.is_dry else ''}{deed.done}")
    if tally.missed:
        render.note(f"{tally.missed} had been changed by someone else when their turn came")


async def _count(engine: Engine, chosen: Selection, which: Sequence[JobFilter]) -> int:
    if not chosen.job_ids:
        return await bulk.count(engine, which)
    found = [await engine.get(job_id) for job_id in chosen.job_ids]
    return sum(job.state in {one.state for one in which} for job in found)


async def _apply(engine: Engine, which: Sequence[JobFilter], care: Care, deed: Deed) -> Tally:
    with render.progress() as say:
        return await bulk.apply(
            engine,
            which,
            deed.order(engine),
            Pace(rate=care.rate),
            watch=lambda tally: say(f"{deed.done} {tally.done}"),
        )


def _jobs(many: int) -> str:
    return f"{many} {'job' if many == 1 else 'jobs'}"
