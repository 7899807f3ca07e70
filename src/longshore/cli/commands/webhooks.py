"""`longshore webhooks`: where tenants hear of what happens."""

from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Any

import click

from longshore.cli import render, tables, wiring
from longshore.cli.broken import warn_of_broken
from longshore.cli.global_options import Group, Shared
from longshore.cli.parameters import duration
from longshore.cli.render import Sheet, Table
from longshore.core import ids
from longshore.core.state import State
from longshore.operations.backend import Backend
from longshore.operations.webhooks import (
    BY_HAND,
    DeliveryView,
    NewWebhook,
    StartedDelivery,
    WebhookPatch,
    WebhookView,
)

endpoint_argument = click.argument("endpoint_id", metavar="ID")


@click.group("webhooks", cls=Group)
def command() -> None:
    """Create, list, show, rotate, disable, test and delete webhook endpoints."""


@command.command()
@click.argument("target", metavar="URL")
@click.option("--tenant", help="Whose it is.  [default: default, or that of the API key]")
@click.option(
    "--event",
    "events",
    multiple=True,
    help="A name or pattern such as job.*; may be given again.  [default: all but progress]",
)
@click.option("--queue", "queues", multiple=True, help="Only of this queue; may be repeated.")
@click.option("--type", "types", multiple=True, help="Only of this type; may be repeated.")
@click.option("--description", default="", help="For people, to know it by.")
@click.pass_obj
def create(shared: Shared, target: str, tenant: str | None, **fields: Any) -> None:
    """Have events sent to a URL, and print the secret to check their signatures with.

    It is shown this once.
    """
    made = wiring.run(
        shared,
        lambda backend: backend.create_webhook(target, **fields),
        tenant=tenant,
        creates=True,
    )
    _tell_secret(shared, made)


@command.command("list")
@click.option("--tenant", help="Only of this tenant.")
@click.pass_obj
def list_endpoints(shared: Shared, tenant: str | None) -> None:
    """Every endpoint, and whether messages arrive."""

    async def look(backend: Backend) -> None:
        found = await backend.webhooks()
        if shared.as_json:
            render.lines(found)
        else:
            render.table(_table(found, await backend.now()))
        await warn_of_broken(backend, "webhook", tenant)

    wiring.run(shared, look, tenant=tenant)


@command.command()
@endpoint_argument
@click.pass_obj
def show(shared: Shared, endpoint_id: str) -> None:
    """Everything about one endpoint but its secret."""
    _shown(shared, lambda backend: backend.webhook(endpoint_id))


@command.command()
@endpoint_argument
@click.option(
    "--grace",
    type=duration,
    default="1d",
    show_default=True,
    help="How long messages are signed with the secret before, too; 0 ends it now.",
)
@click.pass_obj
def rotate(shared: Shared, endpoint_id: str, grace: timedelta) -> None:
    """Give an endpoint a new secret and print it."""
    made = wiring.run(shared, lambda backend: backend.rotate_webhook(endpoint_id, grace=grace))
    _tell_secret(shared, made)


@command.command()
@endpoint_argument
@click.option("--reason", default=BY_HAND, show_default=True, help="For people.")
@click.pass_obj
def disable(shared: Shared, endpoint_id: str, reason: str) -> None:
    """Send nothing to an endpoint; what waits for it is cancelled."""
    patch = WebhookPatch(is_disabled=True, disabled_reason=reason)
    _shown(shared, lambda backend: backend.change_webhook(endpoint_id, patch))


@command.command()
@endpoint_argument
@click.pass_obj
def enable(shared: Shared, endpoint_id: str) -> None:
    """Let an endpoint hear of what happens from now on."""
    patch = WebhookPatch(is_disabled=False)
    _shown(shared, lambda backend: backend.change_webhook(endpoint_id, patch))


@command.command()
@endpoint_argument
@click.pass_obj
def delete(shared: Shared, endpoint_id: str) -> None:
    """Remove an endpoint. Deliveries that wait are not made."""
    wiring.run(shared, lambda backend: backend.delete_webhook(endpoint_id))
    if not shared.as_json:
        click.echo(f"deleted {endpoint_id}")


@command.command()
@endpoint_argument
@click.pass_obj
def test(shared: Shared, endpoint_id: str) -> None:
    """Send a message that says nothing, and print the job that brings it."""
    _tell_job(shared, wiring.run(shared, lambda backend: backend.test_webhook(endpoint_id)))


@command.command()
@endpoint_argument
@click.option("--state", type=click.Choice([state.value for state in State]))
@click.option("--limit", type=click.IntRange(1, 1_000), default=20, show_default=True)
@click.pass_obj
def deliveries(shared: Shared, endpoint_id: str, state: str | None, limit: int) -> None:
    """What was sent to an endpoint or is to be, newest first."""

    async def look(backend: Backend) -> None:
        wanted = None if state is None else State(state)
        some = await backend.webhook_deliveries(endpoint_id, state=wanted, limit=limit)
        if shared.as_json:
            render.lines(some)
        else:
            render.table(_deliveries(some, await backend.now()))

    wiring.run(shared, look)


@command.command()
@endpoint_argument
@click.argument("delivery", metavar="DELIVERY")
@click.pass_obj
def replay(shared: Shared, endpoint_id: str, delivery: str) -> None:
    """Bring a message once more, and print the job that does."""
    try:
        job_id = ids.text(ids.parse(delivery))
    except ValueError as error:
        raise click.BadParameter(str(error)) from None
    started = wiring.run(shared, lambda backend: backend.replay_delivery(endpoint_id, job_id))
    _tell_job(shared, started)


def _shown(shared: Shared, call: Callable[[Backend], Awaitable[WebhookView]]) -> None:
    async def tell(backend: Backend) -> None:
        found = await call(backend)
        if shared.as_json:
            render.document(found)
        else:
            render.sheet(_sheet(found, await backend.now()))

    wiring.run(shared, tell)


def _tell_secret(shared: Shared, made: NewWebhook) -> None:
    """The secret goes to standard output alone, so that it can be piped to where it belongs."""
    if shared.as_json:
        render.document(made)
        return
    click.echo(made.secret)
    it = made.webhook
    render.note(f"endpoint {it.id} of tenant {it.tenant}; the secret is not shown again")


def _tell_job(shared: Shared, started: StartedDelivery) -> None:
    if shared.as_json:
        render.document(started)
    else:
        click.echo(started.id)


def _table(them: list[WebhookView], now: datetime) -> Table:
    return Table(
        columns=("id", "tenant", "url", "events", "created", ""),
        rows=[
            (
                it.id,
                it.tenant,
                it.url,
                " ".join(it.events) or "all but progress",
                tables.ago(it.created_at, now),
                _condition(it, now),
            )
            for it in them
        ],
        empty="no webhook endpoints; make one with `longshore webhooks create URL`",
    )


def _sheet(it: WebhookView, now: datetime) -> Sheet:
    return Sheet(
        [
            ("id", it.id),
            ("tenant", it.tenant),
            ("url", it.url),
            ("events", " ".join(it.events) or "all but progress"),
            ("queues", " ".join(it.queues) or "any"),
            ("types", " ".join(it.types) or "any"),
            ("description", it.description or None),
            ("state", _condition(it, now) or "enabled"),
            ("created", tables.ago(it.created_at, now)),
        ]
    )


def _condition(it: WebhookView, now: datetime) -> str:
    if it.is_disabled:
        return f"disabled: {it.disabled_reason}"
    if it.failing_since is not None:
        return f"failing since {tables.ago(it.failing_since, now)}"
    return ""


def _deliveries(them: list[DeliveryView], now: datetime) -> Table:
    return Table(
        columns=("id", "event", "state", "attempts", "status", "created", "error"),
        rows=[
            (
                it.id,
                it.event,
                it.state.value,
                str(it.attempts),
                str(it.status or ""),
                tables.ago(it.created_at, now),
                it.error or "",
            )
            for it in them
        ],
        empty="no deliveries",
    )
