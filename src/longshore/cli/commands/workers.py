"""`longshore workers`: who is connected."""

import click

from longshore.cli import documents, render, tables, wiring
from longshore.cli.shared import Group, Shared
from longshore.engine import Engine
from longshore.errors import NotFoundError


@click.group("workers", cls=Group)
def command() -> None:
    """List and drain the workers that are connected."""


@command.command("list")
@click.pass_obj
def list_workers(shared: Shared) -> None:
    """Every worker that holds a lease, and what it serves."""

    async def look(engine: Engine) -> None:
        sessions = await engine.sessions()
        if shared.as_json:
            render.lines(map(documents.worker, sessions))
        else:
            render.table(tables.workers(sessions, await engine.now()))

    wiring.ask(shared, look)


@command.command()
@click.argument("session", type=int)
@click.pass_obj
def drain(shared: Shared, session: int) -> None:
    """Ask the worker of a session to finish and leave."""

    async def order(engine: Engine) -> None:
        if session not in {one.token for one in await engine.sessions()}:
            raise NotFoundError(f"no worker has the session {session}")
        await engine.quiet(session)

    wiring.ask(shared, order)
    if shared.as_json:
        render.document({"session": session, "is_quiet": True})
    else:
        click.echo(f"session {session} was asked to drain")
