"""`longshore schedules`: jobs that come again and again."""

from datetime import datetime
from typing import Any

import click
from msgspec.structs import replace

from longshore.cli import documents, payload, render, tables, wiring
from longshore.cli.parameters import duration, given
from longshore.cli.shared import Group, Shared
from longshore.core import cron
from longshore.core.schedule import (
    CatchUp,
    Overlap,
    Schedule,
    declared,
    preview,
    validate,
)
from longshore.engine import Engine
from longshore.errors import ScheduleNotFoundError
from longshore.recurring import Times, recurring

tenant_option = click.option("--tenant", default="default", show_default=True)


@click.group("schedules", cls=Group)
def command() -> None:
    """List, add, preview, pause, resume and remove schedules."""


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

    wiring.ask(shared, look)


@command.command()
@click.argument("name")
@click.argument("type_name", metavar="TYPE")
@payload.payload_argument
@click.option("--cron", help='Such as "*/5 * * * *", "0 9 * * mon-fri" or @daily.')
@click.option("--every", type=duration, help="An interval, such as 90s.")
@click.option("--timezone", help="Of the cron expression, such as Europe/Berlin; default UTC.")
@click.option("--queue", help="Instead of the task's own.")
@click.option("--priority", type=int, help="1 is the most urgent, 9 the least; default 5.")
@click.option("--max-attempts", type=int, help="1 means never retry; default 5.")
@click.option("--timeout", type=duration, help="For one attempt.")
@click.option("--tag", "tags", multiple=True, help="Can be given several times.")
@click.option(
    "--jitter", type=duration, help="Run each job up to this long after its due time."
)
@click.option(
    "--catch-up",
    type=click.Choice([*map(str, CatchUp)]),
    help="Which of the due times that downtime missed still fire; default latest.",
)
@click.option(
    "--overlap", type=click.Choice([*map(str, Overlap)]), help="While its last job runs."
)
@click.option("--paused", "is_paused", is_flag=True, help="Fires only once it is resumed.")
@tenant_option
@click.pass_obj
def add(
    shared: Shared, name: str, type_name: str, words: tuple[str, ...], **options: Any
) -> None:
    """Create a schedule, or change the one of this name.

    Its jobs are of TYPE, with the payload that follows. What is not said here is as the
    application declares the task.
    """
    known = given(options)
    times: Any = {key: known.pop(key) for key in Times.__annotations__ if key in known}
    is_paused: bool = known.pop("is_paused")
    with wiring.app(shared) as app:
        spec = app.spec(type_name, payload.read(words), **known)
    wanted = replace(recurring(name, spec, times), is_paused=is_paused)
    _store(shared, wanted, "added", is_new=True)


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
    _store(shared, _found(shared, name, tenant, is_paused=True), "paused")


@command.command()
@click.argument("name")
@tenant_option
@click.pass_obj
def resume(shared: Shared, name: str, tenant: str) -> None:
    """Fire again, from the next due time on."""
    _store(shared, _found(shared, name, tenant, is_paused=False), "resumed")


@command.command("preview")
@click.argument("name", required=False)
@click.option("--cron", help="Preview this expression instead of a stored schedule.")
@click.option("--timezone", default="UTC", show_default=True, help="Of that expression.")
@click.option("-n", "--count", type=click.IntRange(1, 1_000), default=10, show_default=True)
@tenant_option
@click.pass_obj
def preview_times(shared: Shared, name: str | None, count: int, **options: Any) -> None:
    """The next due times, in the schedule's own time zone."""
    if (name is None) == (options["cron"] is None):
        raise click.UsageError("give the name of a schedule, or a --cron expression")
    if name is None:
        cron_, timezone = options["cron"], options["timezone"]
        wanted = Schedule(name="preview", type="preview", cron=cron_, timezone=timezone)
        validate(wanted)
    else:
        wanted = _found(shared, name, options["tenant"])
    now = wiring.CLOCK.now()
    times = preview(wanted, now, count)
    if shared.as_json:
        render.lines({"due": documents.instant(due)} for due in times)
    else:
        rows = [(_local(due, wanted.timezone), tables.when(due, now)) for due in times]
        render.table(render.Table(columns=("due", ""), rows=rows, empty="it is never due"))


def _found(shared: Shared, name: str, tenant: str, **changes: Any) -> Schedule:
    """The stored schedule with these changes, or ScheduleNotFoundError."""
    for one in wiring.ask(shared, lambda engine: engine.schedules(tenant=tenant)):
        if one.name == name:
            return replace(one, **changes)
    raise ScheduleNotFoundError(name)


def _store(shared: Shared, wanted: Schedule, done: str, *, is_new: bool = False) -> None:
    async def store(engine: Engine) -> tuple[Schedule, int]:
        now = await engine.now()
        known = await engine.schedules(tenant=wanted.tenant)
        existing = next((one for one in known if one.name == wanted.name), None)
        # Only `resume` ends a pause that someone made.
        is_paused = wanted.is_paused or (is_new and existing is not None and existing.is_paused)
        stored = declared(replace(wanted, is_paused=is_paused), now=now, existing=existing)
        await engine.put_schedule(stored)
        return stored, now

    stored, now = wiring.ask(shared, store, creates=is_new)
    if shared.as_json:
        render.document(documents.schedule(stored))
    elif stored.is_paused:
        click.echo(f"{done} {stored.name}; it will not fire until it is resumed")
    else:
        click.echo(f"{done} {stored.name}; next due {tables.when(stored.next_due, now)}")


def _local(instant: int, timezone: str) -> str:
    moment = datetime.fromtimestamp(instant // 1_000_000, cron.zone(timezone))
    return moment.strftime("%a %Y-%m-%d %H:%M:%S %Z")
