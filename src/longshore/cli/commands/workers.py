"""`longshore workers`: who is connected."""

import click

from longshore.cli import render, tables, wiring
from longshore.cli.global_options import Group, Shared
from longshore.operations.backend import Backend


@click.group("workers", cls=Group)
def command() -> None:
    """List and drain the workers that are connected."""


@command.command("list")
@click.pass_obj
def list_workers(shared: Shared) -> None:
    """Every worker that holds a lease, and what it serves."""

    async def look(backend: Backend) -> None:
        found = await backend.workers()
        if shared.as_json:
            render.lines(found)
        else:
            render.table(tables.workers(found, await backend.now()))

    wiring.run(shared, look)


@command.command()
@click.argument("session", type=int)
@click.pass_obj
def drain(shared: Shared, session: int) -> None:
    """Ask the worker of a session to finish and leave."""
    told = wiring.run(shared, lambda backend: backend.drain_worker(session))
    if shared.as_json:
        render.document(told)
    else:
        click.echo(f"session {session} was asked to drain")
