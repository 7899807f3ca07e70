"""`longshore lines`: which ordering keys wait behind a dead job, and letting them go on."""

import click

from longshore.cli import render, wiring
from longshore.cli.documents import Document
from longshore.cli.render import Table
from longshore.cli.shared import Group, Shared
from longshore.core import ids
from longshore.core.account import DEFAULT_TENANT
from longshore.core.line import Line
from longshore.engine import Engine

tenant_option = click.option(
    "--tenant", default=DEFAULT_TENANT, show_default=True, help="Whose line."
)


@click.group("lines", cls=Group)
def command() -> None:
    """Show the lines of ordering keys, and release those that dead jobs block."""


@command.command()
@click.option("--tenant", help="Only this tenant's.")
@click.option("--limit", type=click.IntRange(1), default=100, show_default=True)
@click.pass_obj
def blocked(shared: Shared, tenant: str | None, limit: int) -> None:
    """Lines that dead jobs block, in queues with `--on-dead block`."""

    async def look(engine: Engine) -> None:
        found = await engine.blocked_lines(limit=limit, tenant=tenant)
        if shared.as_json:
            render.lines(_document(one) for one in found)
        else:
            render.table(_table(found, empty="no line is blocked"))

    wiring.ask(shared, look)


@command.command()
@click.argument("queue")
@click.argument("key")
@tenant_option
@click.pass_obj
def show(shared: Shared, queue: str, key: str, tenant: str) -> None:
    """How many jobs of an ordering key run and wait."""

    async def look(engine: Engine) -> None:
        found = await engine.line(queue, key, tenant=tenant)
        it = found or Line(queue=queue, key=key, tenant=tenant, inside=0, parked=0)
        if shared.as_json:
            render.document(_document(it))
        else:
            render.table(_table([it], empty=""))

    wiring.ask(shared, look)


@command.command()
@click.argument("queue")
@click.argument("key")
@tenant_option
@click.pass_obj
def release(shared: Shared, queue: str, key: str, tenant: str) -> None:
    """Let a blocked line go on without its dead jobs, which stay dead."""

    async def let_go(engine: Engine) -> None:
        done = await engine.release_line(queue, key, tenant=tenant)
        if shared.as_json:
            render.document({"queue": queue, "key": key, "tenant": tenant, "is_released": done})
        else:
            click.echo("released" if done else "no dead job blocks it")

    wiring.ask(shared, let_go)


def _document(it: Line) -> Document:
    return {
        "queue": it.queue,
        "key": it.key,
        "tenant": it.tenant,
        "inside": it.inside,
        "parked": it.parked,
        "last": None if it.last is None else ids.text(it.last),
        "dead": [ids.text(one) for one in it.dead],
    }


def _table(found: list[Line], *, empty: str) -> Table:
    return Table(
        columns=("queue", "key", "tenant", "inside", "parked", "blocked by"),
        rows=[
            (
                it.queue,
                it.key,
                it.tenant,
                f"{it.inside}",
                f"{it.parked}",
                ", ".join(map(ids.text, it.dead)) or "-",
            )
            for it in found
        ],
        empty=empty,
    )
