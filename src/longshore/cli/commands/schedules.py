"""`longshore schedules`: jobs that come again and again."""

from datetime import datetime
from typing import Any

import click
from msgspec.structs import replace

from longshore import schedule_options
from longshore.cli import coming, payload, render, tables, waits, wiring
from longshore.cli.broken import warn_of_broken
from longshore.cli.global_options import Group, Shared
from longshore.cli.parameters import duration, time
from longshore.cli.recurrence import patch_of, recurrence_options, split
from longshore.core.schedule import Schedule, validate
from longshore.errors import ConfigError
from longshore.operations.backend import Backend
from longshore.operations.fields import instant, micros
from longshore.operations.schedule_documents import (
    Preview,
    ScheduleView,
    due_times,
)
from longshore.options import microseconds

tenant_option = click.option(
    "--tenant", help="Whose it is.  [default: default, or that of the API key]"
)


@click.group("schedules", cls=Group)
def command() -> None:
    """List, show, add, change, preview, pause, resume, run and remove schedules."""


@command.command("list")
@click.option("--tenant", help="Only of this tenant.")
@click.pass_obj
def list_schedules(shared: Shared, tenant: str | None) -> None:
    """Every schedule, and when it is next due."""

    async def look(backend: Backend) -> None:
        found = await backend.schedules()
        if shared.as_json:
            render.lines(found)
        else:
            render.table(tables.schedules(found, await backend.now()))
        await warn_of_broken(backend, "schedule", tenant)

    wiring.run(shared, look, tenant=tenant)


@command.command()
@click.argument("name")
@tenant_option
@click.pass_obj
def show(shared: Shared, name: str, tenant: str | None) -> None:
    """One schedule: its definition, its last job and its next due times."""

    async def look(backend: Backend) -> None:
        it = await backend.schedule(name)
        if shared.as_json:
            render.document(it)
            return
        now = await backend.now()
        render.sheet(tables.schedule(it, now))
        if it.coming:
            click.echo()
            render.table(coming.table(it.timezone, it.coming, after=now, now=now))

    wiring.run(shared, look, tenant=tenant)


@command.command()
@click.argument("name")
@click.argument("type_name", metavar="TYPE")
@payload.payload_argument
@recurrence_options
@click.option("--paused", "is_paused", is_flag=True, help="Fires only once it is resumed.")
@tenant_option
@click.pass_obj
def add(
    shared: Shared,
    name: str,
    type_name: str,
    words: tuple[str, ...],
    is_paused: bool,
    **options: Any,
) -> None:
    """Create a schedule, or replace the one of this name.

    Its jobs are of TYPE, with the payload that follows. What is not said here is as the
    application declares the task.
    """
    times, job_options = split(options)
    with wiring.app(shared) as app:
        spec = app.spec(type_name, payload.read(words), **job_options)
    wanted = replace(schedule_options.recurring(name, spec, times), is_paused=is_paused)

    async def store(backend: Backend) -> None:
        has_app = wiring.settings(shared).app is not None
        if has_app and await _is_served(backend, wanted.type, wanted.queue) is not True:
            waits.refuse_unknown(wanted.type, app.tasks)
        stored, is_new = await backend.put_schedule(wanted)
        await _say(shared, backend, stored, "added" if is_new else "changed")

    wiring.run(shared, store, tenant=options["tenant"], creates=True)


@command.command()
@click.argument("name")
@payload.payload_argument
@recurrence_options
@tenant_option
@click.pass_obj
def change(
    shared: Shared, name: str, words: tuple[str, ...], tenant: str | None, **options: Any
) -> None:
    """Change what is said here of a schedule, and leave the rest as it is.

    With the same times it keeps its place; new times count from now. A payload takes the place
    of the old one as a whole.
    """
    times, job_options = split(options)
    content = payload.read(words) if words else None
    if not times and not job_options and content is None:
        raise click.UsageError("say what to change: times, options or a payload")
    patch = patch_of(times, job_options, content)

    async def store(backend: Backend) -> None:
        if content is not None:
            known = await backend.schedule(name)
            with wiring.app(shared) as app:
                app.spec(known.type, content)
        stored = await backend.change_schedule(name, patch)
        await _say(shared, backend, stored, "changed")

    wiring.run(shared, store, tenant=tenant)


@command.command()
@click.argument("name")
@tenant_option
@click.pass_obj
def remove(shared: Shared, name: str, tenant: str | None) -> None:
    """Delete a schedule. Jobs that it fired stay."""
    wiring.run(shared, lambda backend: backend.delete_schedule(name), tenant=tenant)
    if shared.as_json:
        render.document({"name": name, "removed": True})
    else:
        click.echo(f"removed {name}")


@command.command()
@click.argument("name")
@tenant_option
@click.pass_obj
def pause(shared: Shared, name: str, tenant: str | None) -> None:
    """Stop firing. Due times that pass meanwhile are skipped."""

    async def order(backend: Backend) -> None:
        await _say(shared, backend, await backend.pause_schedule(name), "paused")

    wiring.run(shared, order, tenant=tenant)


@command.command()
@click.argument("name")
@tenant_option
@click.pass_obj
def resume(shared: Shared, name: str, tenant: str | None) -> None:
    """Fire again, from the next due time on."""

    async def order(backend: Backend) -> None:
        await _say(shared, backend, await backend.resume_schedule(name), "resumed")

    wiring.run(shared, order, tenant=tenant)


@command.command()
@click.argument("name")
@tenant_option
@click.pass_obj
def run(shared: Shared, name: str, tenant: str | None) -> None:
    """Submit one of its jobs now and print its id, paused or not.

    Besides its due times, which stay as they are.
    """

    async def submit(backend: Backend) -> None:
        job = await backend.run_schedule(name)
        if await _is_served(backend, job.type, job.queue) is False:
            render.warning(
                f"no live worker serves {job.type!r} on queue {job.queue!r}: "
                "the job stays ready until one does"
            )
        if shared.as_json:
            render.document(job)
        else:
            click.echo(job.id)

    wiring.run(shared, submit, tenant=tenant)


@command.command("preview")
@click.argument("name", required=False)
@click.option("--cron", help="Preview this expression instead of a stored schedule.")
@click.option("--every", type=duration, help="Preview this interval.")
@click.option("--timezone", default="UTC", show_default=True, help="Of the expression.")
@click.option("--after", type=time, help="Start here instead of now: 2027-03-27T00:00:00Z.")
@click.option("-n", "--count", type=click.IntRange(1, 1_000), default=10, show_default=True)
@tenant_option
@click.pass_obj
def preview_times(
    shared: Shared, name: str | None, count: int, tenant: str | None, **options: Any
) -> None:
    """The next due times, in the schedule's own time zone, and what DST does to them."""
    if sum(one is not None for one in (name, options["cron"], options["every"])) != 1:
        raise click.UsageError("give the name of a schedule, or --cron, or --every")
    after: datetime | None = options["after"]
    if name is None:
        wanted, now = _imagined(options), instant(wiring.CLOCK.now())
        start = micros(after or now)
        found = Preview(wanted.timezone, due_times(wanted, start, count))
    else:
        found, now = wiring.run(
            shared, lambda backend: _looked_up(backend, name, count, after), tenant=tenant
        )
    if shared.as_json:
        render.lines(found.due)
    else:
        render.table(coming.table(found.timezone, found.due, after=after or now, now=now))


def _imagined(options: dict[str, Any]) -> Schedule:
    every = options["every"]
    schedule = Schedule(
        name="preview",
        type="preview",
        cron=options["cron"],
        every=None if every is None else microseconds(every),
        timezone=options["timezone"],
    )
    validate(schedule)
    return schedule


async def _looked_up(
    backend: Backend, name: str, count: int, after: datetime | None
) -> tuple[Preview, datetime]:
    return await backend.preview_schedule(name, count=count, after=after), await backend.now()


async def _is_served(backend: Backend, type_name: str, queue: str) -> bool | None:
    """Whether a worker takes the jobs; None for a tenant's own key, which may not ask."""
    try:
        workers = await backend.workers()
    except ConfigError:
        return None
    return any(type_name in one.types and queue in one.queues for one in workers)


async def _say(shared: Shared, backend: Backend, stored: ScheduleView, done: str) -> None:
    if shared.as_json:
        render.document(stored)
    elif stored.is_paused:
        click.echo(f"{done} {stored.name}; it will not fire until it is resumed")
    elif stored.next_due is None:
        click.echo(f"{done} {stored.name}; it is never due")
    else:
        moment = coming.local(stored.next_due, stored.timezone)
        when = tables.ago(stored.next_due, await backend.now())
        click.echo(f"{done} {stored.name}; next due {moment} ({when})")
