"""`longshore outbox`: who reads events, and how far each has come."""

import click

from longshore.cli import outbox_tables, render, wiring
from longshore.cli.global_options import Group, Shared
from longshore.operations.backend import Backend


@click.group("outbox", cls=Group)
def command() -> None:
    """Tell who reads events and how far each is behind."""


@command.command("list")
@click.pass_obj
def list_consumers(shared: Shared) -> None:
    """Every consumer: how far it has come, and who reads for it."""

    async def look(backend: Backend) -> None:
        found = await backend.consumers()
        if shared.as_json:
            render.lines(found)
        else:
            render.table(outbox_tables.table(found, await backend.now()))

    wiring.run(shared, look)


@command.command()
@click.option("--limit", type=click.IntRange(1), default=50, help="At most so many.")
@click.pass_obj
def quarantined(shared: Shared, limit: int) -> None:
    """Events that could not be handed on, newest first."""

    async def look(backend: Backend) -> None:
        found = await backend.quarantined(limit=limit)
        if shared.as_json:
            render.lines(found)
        else:
            render.table(outbox_tables.quarantined_table(found, await backend.now()))

    wiring.run(shared, look)


@command.command()
@click.argument("name")
@click.pass_obj
def forget(shared: Shared, name: str) -> None:
    """Forget a consumer, so that no events are kept for it."""
    wiring.run(shared, lambda backend: backend.forget_consumer(name))
    if shared.as_json:
        render.document({"consumer": name, "is_forgotten": True})
    else:
        click.echo(f"consumer {name} is forgotten")
