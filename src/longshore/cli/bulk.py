"""Changes of many jobs from the shell: named by id, or found by a filter."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any

import click
import msgspec

from longshore.cli import listing, render, wiring
from longshore.cli.global_options import Shared
from longshore.cli.parameters import filtered, job_ids, rate
from longshore.contract import JobFilter
from longshore.core import ids
from longshore.core.job import JobId
from longshore.core.state import State
from longshore.errors import ConfigError
from longshore.operations.backend import Backend
from longshore.operations.bulk import Tally
from longshore.operations.jobs import JobChange, scopes_of

__all__ = ["Care", "Selection", "carefully", "give", "selecting"]


@dataclass(frozen=True, slots=True)
class Selection:
    """Which jobs are meant: those with the ids or, without ids, all that match."""

    job_ids: Sequence[JobId]
    which: JobFilter


@dataclass(frozen=True, slots=True, kw_only=True)
class Care:
    """How carefully many jobs are changed."""

    is_dry: bool
    rate: float | None
    is_agreed: bool


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
    """How those that match are changed, passed as one Care named `care`."""

    @click.option("--dry-run", "is_dry", is_flag=True, help="Only count them.")
    @click.option("--rate", type=rate, help="At most so many, such as 500/s; with a filter.")
    @click.option("--yes", "is_agreed", is_flag=True, help="Do not ask.")
    @wraps(function)
    def gathered(*args: Any, **options: Any) -> None:
        care = Care(**{name: options.pop(name) for name in ("is_dry", "rate", "is_agreed")})
        function(*args, care=care, **options)

    return gathered


def give(
    shared: Shared,
    chosen: Selection,
    care: Care,
    change: JobChange,
    done: str,
    *,
    reason: str = "",
) -> None:
    """Change all that match, or in a dry run only count, and say how many were `done`.

    Ids are all or none; of what was found, those that someone else changed meanwhile are left
    out.
    """
    which = listing.which_of(chosen.which)
    try:
        scopes = scopes_of(change, which, None)
    except ConfigError as error:
        raise click.UsageError(str(error)) from None
    if chosen.job_ids and care.rate is not None:
        raise click.UsageError("--rate is for jobs that a filter finds")
    job_ids = [ids.text(one) for one in chosen.job_ids]

    async def carry_out(backend: Backend) -> Tally:
        if care.is_dry and job_ids:
            found = [await backend.get(one) for one in job_ids]
            states = {one.state for one in scopes}
            return Tally(matched=sum(job.state in states for job in found), is_complete=True)
        if care.is_dry:
            return await backend.change_matching(change, which, is_dry=True)
        if job_ids:
            await backend.change_jobs(change, job_ids, reason=reason)
            return Tally(done=len(job_ids), is_complete=True)
        if not care.is_agreed:
            counted = await backend.change_matching(change, which, is_dry=True)
            many = _jobs(counted.matched)
            click.confirm(f"{many} will be {done}; go on?", abort=True, err=True)
        with render.progress() as say:
            return await backend.change_matching(
                change,
                which,
                reason=reason,
                rate=care.rate,
                watch=lambda tally: say(f"{done} {tally.done}"),
            )

    _tell(shared, wiring.run(shared, carry_out, tenant=chosen.which.tenant), care, done)


def _tell(shared: Shared, tally: Tally, care: Care, done: str) -> None:
    many = tally.matched if care.is_dry else tally.done
    if shared.as_json:
        render.document({done: many, "missed": tally.missed, "dry_run": care.is_dry})
        return
    at_least = "" if tally.is_complete else "at least "
    click.echo(f"{at_least}{_jobs(many)} {'would be ' if care.is_dry else ''}{done}")
    if tally.missed:
        render.note(f"{tally.missed} had been changed by someone else when their turn came")


def _jobs(many: int) -> str:
    return f"{many} {'job' if many == 1 else 'jobs'}"
