"""`longshore migrate`: the store's schema."""

import asyncio

import click

from longshore.cli import render, wiring
from longshore.cli.shared import Command, Shared


@click.command("migrate", cls=Command)
@click.option(
    "--check", is_flag=True, help="Change nothing; exit code 8 if something is missing."
)
@click.pass_obj
def command(shared: Shared, check: bool) -> None:
    """Bring the store's schema up to date. Safe to repeat, and beside running workers."""
    applied = asyncio.run(_check(shared) if check else _migrate(shared))
    if shared.as_json:
        render.document({"applied": applied, "is_current": True})
        return
    for name in applied:
        click.echo(f"applied {name}")
    if not applied:
        click.echo("the schema is up to date")


async def _migrate(shared: Shared) -> list[str]:
    async with wiring.opened(shared) as engine:
        return await engine.migrate()


async def _check(shared: Shared) -> list[str]:
    async with wiring.opened(shared) as engine:
        wiring.refuse_absent(engine)
        await engine.ping()
    return []
