"""`longshore tenants`: those who share a store."""

from collections.abc import Callable
from typing import Any

import click

from longshore.cli import accounts, render, wiring
from longshore.cli.broken import warn_of_broken
from longshore.cli.global_options import Group, Shared
from longshore.cli.parameters import given
from longshore.core.fair_queueing import HEAVIEST
from longshore.operations.backend import Backend
from longshore.operations.tenants import TenantView

NONE = "none"
"""A word, because None means that nothing was said."""


def _rate(text: str) -> float | str:
    return text if text == NONE else float(text)


def _burst(text: str) -> int | str:
    return text if text == NONE else int(text)


_CAPS: dict[str, tuple[Callable[[str], Any], str]] = {
    "max_streams": (
        _burst,
        "Streams of events that an API process keeps open for it; `none`: as the setting "
        "api.max_tenant_streams has it.",
    ),
    "max_tags": (int, "Tags that a job may have which it submits over HTTP."),
    "max_keys": (int, "Keys that may be good at once."),
    "max_webhooks": (int, "Webhooks that it may have."),
    "max_schedule_rate": (
        _rate,
        "Jobs per second that its schedules may fire, all together; `none`: as its rate.",
    ),
    "max_schedules": (int, "Schedules that it may have."),
    "max_queues": (int, "Queues in which it may have jobs."),
}


def settings_options(function: Callable[..., None]) -> Callable[..., None]:
    """What can be said of a tenant."""
    for option in (
        *(
            click.option(f"--{name.replace('_', '-')}", type=kind, metavar="NUMBER", help=words)
            for name, (kind, words) in _CAPS.items()
        ),
        click.option(
            "--enable/--disable",
            "is_enabled",
            default=None,
            help="Accept its keys, or refuse them. Its jobs go on.",
        ),
        click.option(
            "--require-idempotency-key/--no-require-idempotency-key",
            "requires_idempotency_key",
            default=None,
            help="Accept jobs over HTTP only with an Idempotency-Key.",
        ),
        click.option(
            "--burst",
            type=_burst,
            metavar="NUMBER",
            help="Jobs that it may submit at once; `none`: what its rate brings in a second.",
        ),
        click.option(
            "--weight",
            type=click.IntRange(1, HEAVIEST),
            metavar="NUMBER",
            help="Its share of fair queues: with 3, three times that of others.",
        ),
        click.option(
            "--rate",
            type=_rate,
            metavar="NUMBER",
            help="Jobs per second that it may submit over HTTP; `none`: any number.",
        ),
    ):
        function = option(function)
    return function


@click.group("tenants", cls=Group)
def command() -> None:
    """List, show, create, change and delete tenants."""


@command.command("list")
@click.pass_obj
def list_tenants(shared: Shared) -> None:
    """Every tenant, and what is set for it."""

    async def look(backend: Backend) -> None:
        found = await backend.tenants()
        if shared.as_json:
            render.lines(found)
        else:
            render.table(accounts.tenant_table(found, await backend.now()))
        await warn_of_broken(backend, "tenant")

    wiring.run(shared, look)


@command.command()
@click.argument("name")
@click.pass_obj
def show(shared: Shared, name: str) -> None:
    """One tenant."""

    async def look(backend: Backend) -> None:
        tenant = await backend.tenant(name)
        if shared.as_json:
            render.document(tenant)
        else:
            keys = await backend.keys(tenant=name)
            render.sheet(accounts.tenant_sheet(tenant, keys, await backend.now()))

    wiring.run(shared, look)


@command.command()
@click.argument("name")
@settings_options
@click.pass_obj
def create(shared: Shared, name: str, **options: Any) -> None:
    """Create a tenant.

    Jobs may be submitted for any tenant by whoever reaches the store itself; over HTTP a
    tenant has to be created, and be given a key.
    """
    settings = _changes(options)
    made = wiring.run(
        shared, lambda backend: backend.create_tenant(name, settings), creates=True
    )
    _say(shared, made, "created")


@command.command("set")
@click.argument("name")
@settings_options
@click.pass_obj
def set_tenant(shared: Shared, name: str, **options: Any) -> None:
    """Change what is said here of a tenant, and leave the rest as it is.

    API processes heed it within seconds, and claims a weight at once.
    """
    changes = _changes(options)
    if not changes:
        raise click.UsageError("say what to change")

    changed = wiring.run(shared, lambda backend: backend.change_tenant(name, changes))
    _say(shared, changed, "changed")


@command.command()
@click.argument("name")
@click.pass_obj
def delete(shared: Shared, name: str) -> None:
    """Delete a tenant and its keys; refused while it has jobs or schedules."""
    wiring.run(shared, lambda backend: backend.delete_tenant(name))
    if shared.as_json:
        render.document({"name": name, "deleted": True})
    else:
        click.echo(f"deleted {name}")


def _changes(options: dict[str, Any]) -> dict[str, Any]:
    said = given(options)
    changes = {name: None if value == NONE else value for name, value in said.items()}
    if "is_enabled" in changes:
        changes["is_disabled"] = not changes.pop("is_enabled")
    if "rate" in changes and changes["rate"] is None:
        # A burst without a rate means nothing.
        changes.setdefault("burst", None)
    return changes


def _say(shared: Shared, tenant: TenantView, done: str) -> None:
    if shared.as_json:
        render.document(tenant)
    else:
        click.echo(f"{done} {tenant.name}")
