"""`longshore queues`: how deep they are, whether they are handed out, and how much of them."""

from typing import Any

import click

from longshore.cli import flow, render, setting_layers, tables, wiring
from longshore.cli.broken import warn_of_broken
from longshore.cli.global_options import Group, Shared
from longshore.cli.parameters import given
from longshore.core.view import Pause
from longshore.operations.backend import Backend
from longshore.operations.queues import QueueView

type_option = click.option(
    "--type", "type_name", metavar="TYPE", help="Only jobs of this type."
)


@click.group("queues", cls=Group)
def command() -> None:
    """List, pause and resume queues, and limit how much of them runs."""


@command.command("list")
@click.option("--tenant", help="Count only this tenant's jobs.")
@click.pass_obj
def list_queues(shared: Shared, tenant: str | None) -> None:
    """Every queue that has jobs, how many in each state, and what is paused."""

    async def look(backend: Backend) -> None:
        found = await backend.queues()
        if shared.as_json:
            render.lines(found)
        else:
            render.table(tables.queues(found, await backend.now()))
        await warn_of_broken(backend, "queue")

    wiring.run(shared, look, tenant=tenant)


@command.command()
@click.argument("queue", required=False)
@type_option
@click.pass_obj
def pause(shared: Shared, queue: str | None, type_name: str | None) -> None:
    """Stop handing out jobs.

    Of a queue, of a type, or of a type in one queue. What runs goes on; submitting works.
    """
    _set_paused(shared, queue, type_name, is_paused=True)


@command.command()
@click.argument("queue", required=False)
@type_option
@click.pass_obj
def resume(shared: Shared, queue: str | None, type_name: str | None) -> None:
    """Undo the pause that was made with the same arguments."""
    _set_paused(shared, queue, type_name, is_paused=False)


@command.command()
@click.argument("queue")
@click.pass_obj
def show(shared: Shared, queue: str) -> None:
    """What is set for a queue, and whether code or an operator says so."""
    _say(shared, wiring.run(shared, lambda backend: backend.queue(queue)))


@command.command("set")
@click.argument("queue")
@flow.options
@click.pass_obj
def set_queue(shared: Shared, queue: str, **settings: Any) -> None:
    """Override settings of a queue, whatever code declares. Workers heed it at once."""
    changes = given(settings)
    if not changes:
        raise click.UsageError("say what to set")
    _say(
        shared,
        wiring.run(shared, lambda backend: backend.set_queue(queue, changes), creates=True),
    )


@command.command()
@click.argument("queue")
@flow.flags
@click.pass_obj
def unset(
    shared: Shared, queue: str, *, is_all: bool, is_declared: bool, **settings: bool
) -> None:
    """Take overrides away: what code declares holds again."""
    changes = setting_layers.removals(settings, is_all=is_all, is_declared=is_declared)

    async def store(backend: Backend) -> QueueView:
        return await backend.set_queue(queue, changes, forgets_declared=is_declared)

    _say(shared, wiring.run(shared, store))


def _say(shared: Shared, it: QueueView) -> None:
    if shared.as_json:
        render.document(it)
    else:
        render.table(flow.table(it))


def _set_paused(
    shared: Shared, queue: str | None, type_name: str | None, *, is_paused: bool
) -> None:
    if queue is None and type_name is None:
        raise click.UsageError("name a queue, a --type, or both")

    async def order(backend: Backend) -> None:
        if queue is not None:
            verb = backend.pause_queue if is_paused else backend.resume_queue
            await verb(queue, type=type_name)
        elif type_name is not None:
            await (backend.pause_type if is_paused else backend.resume_type)(type_name)

    wiring.run(shared, order)
    if shared.as_json:
        render.document({"queue": queue, "type": type_name, "is_paused": is_paused})
        return
    what = Pause(queue, type_name).words
    click.echo(f"{'paused' if is_paused else 'resumed'} {what}")
