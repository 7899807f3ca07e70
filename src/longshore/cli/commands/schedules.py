"""`longshore schedules`: jobs that come again and again."""

from typing import Any

import click
from msgspec.structs import replace

from longshore import recurring
from longshore.cli import coming, documents, payload, render, tables, waits, wiring
from longshore.cli.broken import warn_of_broken
from longshore.cli.parameters import duration, time
from longshore.cli.recurrence import recurrence_options, split
from longshore.cli.shared import Group, Shared
from longshore.core import ids
from longshore.core.job import Job
from longshore.core.schedule import Schedule, extra_job, preview, validate
from longshore.engine import Engine
from longshore.errors import JobNotFoundError
from longshore.options import microseconds
from longshore.runtime.ids import IdSource

_SHOWN = 5

tenant_option = click.option("--tenant", default="default", show_default=True)


@click.group("schedules", cls=Group)
def command() -> None:
    """List, show, add, change, preview, pause, resume, run and remove schedules."""


@command.command("list")
@click.option("--tenant", help="Only of this tenant.")
@click.pass_obj
def list_schedules(shared: Shared, tenant: str | None) -> None:
    """Every schedule, and when it is next due."""

    async def look(engine: Engine) -> None:
        found = await engine.schedules(tenant=tenant)
        if shared.as_json:
            render.lines(map(documents.schedule, found))
        else:
            render.table(tables.schedules(found, await engine.now()))
        await warn_of_broken(engine, "schedule", tenant)

    wiring.ask(shared, look)


@command.command()
@click.argument("name")
@tenant_option
@click.pass_obj
def show(shared: Shared, name: str, tenant: str) -> None:
    """One schedule: its definition, its last job and its next due times."""

    async def look(engine: Engine) -> None:
        it = await recurring.get(engine, name, tenant)
        now = await engine.now()
        job = await _last_job(engine, it)
        times = [] if it.is_paused else preview(it, now, _SHOWN)
        if shared.as_json:
            state = {"last_job_state": job.state if job else None}
            due = {"coming": list(coming.listed(it, times))}
            render.document(documents.schedule(it) | state | due)
        else:
            render.sheet(tables.schedule(it, now, job))
            if times:
                click.echo()
                render.table(coming.table(it, times, after=now, now=now))

    wiring.ask(shared, look)


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
    wanted = replace(recurring.recurring(name, spec, times), is_paused=is_paused)

    async def store(engine: Engine) -> None:
        is_served = waits.is_served(wanted.type, wanted.queue, await engine.sessions())
        if not is_served and wiring.settings(shared).app is not None:
            waits.refuse_unknown(wanted.type, app.tasks)
        is_new = await recurring.find(engine, name, wanted.tenant) is None
        stored = await recurring.put(engine, wanted)
        await _say(shared, engine, stored, "added" if is_new else "changed")

    wiring.ask(shared, store, creates=True)


@command.command()
@click.argument("name")
@payload.payload_argument
@recurrence_options
@tenant_option
@click.pass_obj
def change(
    shared: Shared, name: str, words: tuple[str, ...], tenant: str, **options: Any
) -> None:
    """Change what is said here of a schedule, and leave the rest as it is.

    With the same times it keeps its place; new times count from now. A payload takes the place
    of the old one as a whole.
    """
    times, job_options = split(options)
    content = payload.read(words) if words else None
    if not times and not job_options and content is None:
        raise click.UsageError("say what to change: times, options or a payload")

    def changes(existing: Schedule) -> Schedule:
        return recurring.changed(existing, times, job_options, content)

    async def store(engine: Engine) -> None:
        if content is not None:
            known = await recurring.get(engine, name, tenant)
            with wiring.app(shared) as app:
                app.spec(known.type, content)
        stored = await recurring.change(engine, name, tenant, changes)
        await _say(shared, engine, stored, "changed")

    wiring.ask(shared, store)


@command.command()
@click.argument("name")
@tenant_option
@click.pass_obj
def remove(shared: Shared, name: str, tenant: str) -> None:
    """Delete a schedule. Jobs that it fired stay."""
    wiring.ask(shared, lambda engine: engine.delete_schedule(name, tenant=tenant))
    if shared.as_json:
        render.document({"name": name, "tenant": tenant, "removed": True})
    else:
        click.echo(f"removed {name}")


@command.command()
@click.argument("name")
@tenant_option
@click.pass_obj
def pause(shared: Shared, name: str, tenant: str) -> None:
    """Stop firing. Due times that pass meanwhile are skipped."""
    _set_paused(shared, name, tenant, is_paused=True)


@command.command()
@click.argument("name")
@tenant_option
@click.pass_obj
def resume(shared: Shared, name: str, tenant: str) -> None:
    """Fire again, from the next due time on."""
    _set_paused(shared, name, tenant, is_paused=False)


@command.command()
@click.argument("name")
@tenant_option
@click.pass_obj
def run(shared: Shared, name: str, tenant: str) -> None:
    """Submit one of its jobs now and print its id, paused or not.

    Besides its due times, which stay as they are.
    """

    async def submit(engine: Engine) -> None:
        it = await recurring.get(engine, name, tenant)
        job = extra_job(it, IdSource(wiring.CLOCK).make())
        (answer,) = await engine.submit([job])
        if not waits.is_served(it.type, it.queue, await engine.sessions()):
            render.warning(
                f"no live worker serves {it.type!r} on queue {it.queue!r}: "
                "the job stays ready until one does"
            )
        if shared.as_json:
            told = {"type": it.type, "queue": it.queue, "schedule": it.name}
            render.document({"id": ids.text(answer.id), **told})
        else:
            click.echo(ids.text(answer.id))

    wiring.ask(shared, submit)


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
    shared: Shared, name: str | None, count: int, tenant: str, **options: Any
) -> None:
    """The next due times, in the schedule's own time zone, and what DST does to them."""
    if sum(one is not None for one in (name, options["cron"], options["every"])) != 1:
        raise click.UsageError("give the name of a schedule, or --cron, or --every")
    if name is None:
        wanted, now = _imagined(options), wiring.CLOCK.now()
    else:
        wanted, now = wiring.ask(shared, lambda engine: _as_of_now(engine, name, tenant))
    after = options["after"]
    start = now if after is None else microseconds(after.timestamp())
    times = preview(wanted, start, count)
    if shared.as_json:
        render.lines(coming.listed(wanted, times))
    else:
        render.table(coming.table(wanted, times, after=start, now=now))


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


async def _as_of_now(engine: Engine, name: str, tenant: str) -> tuple[Schedule, int]:
    return await recurring.get(engine, name, tenant), await engine.now()


async def _last_job(engine: Engine, it: Schedule) -> Job | None:
    """Its newest job, unless there is none any more."""
    try:
        return None if it.last_job is None else await engine.get(it.last_job)
    except JobNotFoundError:
        return None


def _set_paused(shared: Shared, name: str, tenant: str, *, is_paused: bool) -> None:
    async def store(engine: Engine) -> None:
        stored = await recurring.set_paused(engine, name, tenant, is_paused=is_paused)
        await _say(shared, engine, stored, "paused" if is_paused else "resumed")

    wiring.ask(shared, store)


async def _say(shared: Shared, engine: Engine, stored: Schedule, done: str) -> None:
    now = await engine.now()
    if shared.as_json:
        render.document(documents.schedule(stored))
    elif stored.is_paused:
        click.echo(f"{done} {stored.name}; it will not fire until it is resumed")
    elif stored.next_due is None:
        click.echo(f"{done} {stored.name}; it is never due")
    else:
        moment = coming.local(stored.next_due, stored.timezone)
        click.echo(
            f"{done} {stored.name}; next due {moment} ({tables.when(stored.next_due, now)})"
        )
