"""`longshore outbox`: who reads events, and how far each has come."""

import click

from longshore.cli import consumers, render, wiring
from longshore.cli.shared import Group, Shared
from longshore.engine import Engine
from longshore.errors import NotFoundError


@click.group("outbox", cls=Group)
def command() -> None:
    """Tell who reads events and how far each is behind."""


@command.command("list")
@click.pass_obj
def list_consumers(shared: Shared) -> None:
    """Every consumer: how far it has come, and who reads for it."""

    async def look(engine: Engine) -> None:
        found, now = await engine.consumers(), await engine.now()
        if shared.as_json:
            render.lines(consumers.document(one, now) for one in found)
        else:
            render.table(consumers.table(found, now))

    wiring.ask(shared, look)


@command.command()
@click.option("--limit", type=click.IntRange(1), default=50, help="At most so many.")
@click.pass_obj
def quarantined(shared: Shared, limit: int) -> None:
    """Events that could not be handed on, newest first."""

    async def look(engine: Engine) -> None:
        found, now = await engine.quarantined(limit=limit), await engine.now()
        if shared.as_json:
            render.lines(map(consumers.aside_document, found))
        else:
            render.table(consumers.aside_table(found, now))

    wiring.ask(shared, look)


@command.command()
@click.argument("name")
@click.pass_obj
def forget(shared: Shared, name: str) -> None:
    """Forget a consumer, so that no events are kept for it."""

    async def order(engine: Engine) -> None:
        if not await engine.delete_consumer(name):
            raise NotFoundError(f"no consumer is named {name!r}")

    wiring.ask(shared, order)
    if shared.as_json:
        render.document({"consumer": name, "is_forgotten": True})
    else:
        click.echo(f"consumer {name} is forgotten")
