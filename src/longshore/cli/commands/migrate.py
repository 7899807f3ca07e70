"""`longshore migrate`: the store's schema."""

import asyncio
from datetime import timedelta

import click

from longshore.cli import render, wiring
from longshore.cli.global_options import Command, Shared
from longshore.cli.parameters import duration


@click.command("migrate", cls=Command)
@click.option(
    "--check", is_flag=True, help="Change nothing; exit code 8 if something is missing."
)
@click.option(
    "--patience",
    type=duration,
    default="1m",
    show_default=True,
    help="How long to wait for whoever is in the way of a migration.",
)
@click.pass_obj
def command(shared: Shared, check: bool, patience: timedelta) -> None:
    """Bring the store's schema up to date. Safe to repeat, and beside running workers.

    Workers of the version before go on, unless a migration says that they cannot: those are
    asked to leave, and the migration waits for them.
    """
    applied = asyncio.run(_check(shared) if check else _migrate(shared, patience))
    if shared.as_json:
        render.document({"applied": applied, "is_current": True})
        return
    for name in applied:
        click.echo(f"applied {name}")
    if not applied:
        click.echo("the schema is up to date")


async def _migrate(shared: Shared, patience: timedelta) -> list[str]:
    async with wiring.opened(shared, "a migration") as engine:
        return await engine.migrate(max_wait=patience.total_seconds())


async def _check(shared: Shared) -> list[str]:
    async with wiring.opened(shared, "a migration") as engine:
        wiring.refuse_absent(engine)
        await engine.ping()
    return []
