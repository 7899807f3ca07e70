"""`longshore queues`: how deep they are, whether they are handed out, and how much of them."""

from typing import Any

import click

from longshore import overriding
from longshore.cli import documents, flow, layers, render, tables, waits, wiring
from longshore.cli.broken import warn_of_broken
from longshore.cli.parameters import given
from longshore.cli.shared import Group, Shared
from longshore.core.flow import QueueFlow
from longshore.engine import Engine, Pause, QueueCounts

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

    async def look(engine: Engine) -> None:
        pauses = await engine.pauses()
        known = {one.queue: one for one in await engine.counts(tenant=tenant)}
        named = {pause.queue for pause in pauses if pause.queue is not None}
        counts = [
            known.get(queue) or QueueCounts(queue=queue) for queue in sorted({*known, *named})
        ]
        if shared.as_json:
            render.lines(documents.queue(one, pauses) for one in counts)
        else:
            render.table(tables.queues(counts, pauses, await engine.now()))
        await warn_of_broken(engine, "queue")

    wiring.ask(shared, look)


@command.command()
@click.argument("queue", required=False)
@type_option
@click.pass_obj
def pause(shared: Shared, queue: str | None, type_name: str | None) -> None:
    """Stop handing out jobs.

    Of a queue, of a type, or of a type in one queue. What runs goes on; submitting works.
    """
    _refuse_nothing(queue, type_name)
    wiring.ask(shared, lambda engine: engine.pause(queue=queue, type=type_name))
    _confirm(shared, queue, type_name, is_paused=True)


@command.command()
@click.argument("queue", required=False)
@type_option
@click.pass_obj
def resume(shared: Shared, queue: str | None, type_name: str | None) -> None:
    """Undo the pause that was made with the same arguments."""
    _refuse_nothing(queue, type_name)
    wiring.ask(shared, lambda engine: engine.resume(queue=queue, type=type_name))
    _confirm(shared, queue, type_name, is_paused=False)


@command.command()
@click.argument("queue")
@click.pass_obj
def show(shared: Shared, queue: str) -> None:
    """What is set for a queue, and whether code or an operator says so."""

    async def look(engine: Engine) -> None:
        _say(shared, await overriding.get(engine, queue))

    wiring.ask(shared, look)


@command.command("set")
@click.argument("queue")
@flow.options
@click.pass_obj
def set_queue(shared: Shared, queue: str, **settings: Any) -> None:
    """Override settings of a queue, whatever code declares. Workers heed it at once."""
    changes = given(settings)
    if not changes:
        raise click.UsageError("say what to set")

    async def store(engine: Engine) -> None:
        _say(shared, await overriding.override(engine, queue, changes))

    wiring.ask(shared, store, creates=True)


@command.command()
@click.argument("queue")
@flow.flags
@click.pass_obj
def unset(
    shared: Shared, queue: str, *, is_all: bool, is_declared: bool, **settings: bool
) -> None:
    """Take overrides away: what code declares holds again."""
    changes = layers.removals(settings, is_all=is_all, is_declared=is_declared)

    async def store(engine: Engine) -> None:
        if is_declared:
            await overriding.forget(engine, queue)
        _say(shared, await overriding.override(engine, queue, changes))

    wiring.ask(shared, store)


def _say(shared: Shared, it: QueueFlow) -> None:
    if shared.as_json:
        render.document(flow.document(it))
    else:
        render.table(flow.table(it))


def _refuse_nothing(queue: str | None, type_name: str | None) -> None:
    if queue is None and type_name is None:
        raise click.UsageError("name a queue, a --type, or both")


def _confirm(
    shared: Shared, queue: str | None, type_name: str | None, *, is_paused: bool
) -> None:
    if shared.as_json:
        render.document({"queue": queue, "type": type_name, "is_paused": is_paused})
        return
    what = waits.pause_text(Pause(queue, type_name))
    click.echo(f"{'paused' if is_paused else 'resumed'} {what}")
