"""`longshore lines`: which ordering keys wait behind a dead job, and letting them go on."""

from collections.abc import Sequence

import click

from longshore.cli import render, wiring
from longshore.cli.global_options import Group, Shared
from longshore.cli.render import Table
from longshore.operations.backend import Backend
from longshore.operations.lines import LineView

tenant_option = click.option(
    "--tenant", help="Whose line; unless given the API key's own, or default."
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

    async def look(backend: Backend) -> list[LineView]:
        return await backend.blocked_lines(limit=limit)

    found = wiring.run(shared, look, tenant=tenant)
    if shared.as_json:
        render.lines(found)
    else:
        render.table(_table(found, empty="no line is blocked"))


@command.command()
@click.argument("queue")
@click.argument("key")
@tenant_option
@click.pass_obj
def show(shared: Shared, queue: str, key: str, tenant: str | None) -> None:
    """How many jobs of an ordering key run and wait."""
    it = wiring.run(shared, lambda backend: backend.line(queue, key), tenant=tenant)
    if shared.as_json:
        render.document(it)
    else:
        render.table(_table([it], empty=""))


@command.command()
@click.argument("queue")
@click.argument("key")
@tenant_option
@click.pass_obj
def release(shared: Shared, queue: str, key: str, tenant: str | None) -> None:
    """Let a blocked line go on without its dead jobs, which stay dead."""
    done = wiring.run(shared, lambda backend: backend.release_line(queue, key), tenant=tenant)
    if shared.as_json:
        render.document(done)
    else:
        click.echo("released" if done.is_released else "no dead job blocks it")


def _table(found: Sequence[LineView], *, empty: str) -> Table:
    return Table(
        columns=("queue", "key", "tenant", "inside", "parked", "blocked by"),
        rows=[
            (
                it.queue,
                it.key,
                it.tenant,
                f"{it.inside}",
                f"{it.parked}",
                ", ".join(it.dead) or "-",
            )
            for it in found
        ],
        empty=empty,
    )
