"""`longshore webhooks`: where tenants hear of what happens."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import click
from msgspec.structs import replace

from longshore import webhooks
from longshore.cli import documents, render, tables, wiring
from longshore.cli.broken import warn_of_broken
from longshore.cli.documents import Document
from longshore.cli.parameters import duration
from longshore.cli.render import Sheet, Table
from longshore.cli.shared import Group, Shared
from longshore.core import ids
from longshore.core.account import DEFAULT_TENANT
from longshore.core.quantity import microseconds
from longshore.core.state import State
from longshore.core.webhook import Endpoint
from longshore.engine import Engine
from longshore.runtime.ids import IdSource
from longshore.webhooks import Delivery

endpoint_argument = click.argument("endpoint_id", metavar="ID")


@click.group("webhooks", cls=Group)
def command() -> None:
    """Create, list, show, rotate, disable, test and delete webhook endpoints."""


@command.command()
@click.argument("target", metavar="URL")
@click.option("--tenant", default=DEFAULT_TENANT, show_default=True, help="Whose it is.")
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
def create(shared: Shared, target: str, tenant: str, **fields: Any) -> None:
    """Have events sent to a URL, and print the secret to check their signatures with.

    It is shown this once.
    """

    async def store(engine: Engine) -> None:
        secret, made = await webhooks.create(engine, tenant=tenant, url=target, **fields)
        _tell_secret(shared, secret, made)

    wiring.ask(shared, store, creates=True)


@command.command("list")
@click.option("--tenant", help="Only of this tenant.")
@click.pass_obj
def list_endpoints(shared: Shared, tenant: str | None) -> None:
    """Every endpoint, and whether messages arrive."""

    async def look(engine: Engine) -> None:
        found, now = await engine.webhooks(tenant=tenant), await engine.now()
        if shared.as_json:
            render.lines(_document(one) for one in found)
        else:
            render.table(_table(found, now))
        await warn_of_broken(engine, "webhook", tenant)

    wiring.ask(shared, look)


@command.command()
@endpoint_argument
@click.pass_obj
def show(shared: Shared, endpoint_id: str) -> None:
    """Everything about one endpoint but its secret."""
    _shown(shared, lambda engine: engine.get_webhook(endpoint_id))


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

    async def store(engine: Engine) -> None:
        secret, made = await webhooks.rotate(engine, endpoint_id, grace=microseconds(grace))
        _tell_secret(shared, secret, made)

    wiring.ask(shared, store)


@command.command()
@endpoint_argument
@click.option("--reason", default="by hand", show_default=True, help="For people.")
@click.pass_obj
def disable(shared: Shared, endpoint_id: str, reason: str) -> None:
    """Send nothing to an endpoint; what waits for it is cancelled."""
    _changed(shared, endpoint_id, lambda seen: replace(seen, disabled=reason))


@command.command()
@endpoint_argument
@click.pass_obj
def enable(shared: Shared, endpoint_id: str) -> None:
    """Let an endpoint hear of what happens from now on."""
    _changed(shared, endpoint_id, lambda seen: replace(seen, disabled=None, failing_since=None))


@command.command()
@endpoint_argument
@click.pass_obj
def delete(shared: Shared, endpoint_id: str) -> None:
    """Remove an endpoint. Deliveries that wait are not made."""
    wiring.ask(shared, lambda engine: engine.delete_webhook(endpoint_id))
    if not shared.as_json:
        click.echo(f"deleted {endpoint_id}")


@command.command()
@endpoint_argument
@click.pass_obj
def test(shared: Shared, endpoint_id: str) -> None:
    """Send a message that says nothing, and print the job that brings it."""

    async def begin(engine: Engine) -> None:
        found = await engine.get_webhook(endpoint_id)
        _begun(shared, ids.text(await webhooks.test(engine, found, IdSource(wiring.CLOCK))))

    wiring.ask(shared, begin)


@command.command()
@endpoint_argument
@click.option("--state", type=click.Choice([state.value for state in State]))
@click.option("--limit", type=click.IntRange(1, 1_000), default=20, show_default=True)
@click.pass_obj
def deliveries(shared: Shared, endpoint_id: str, state: str | None, limit: int) -> None:
    """What was sent to an endpoint or is to be, newest first."""

    async def look(engine: Engine) -> None:
        found = await engine.get_webhook(endpoint_id)
        wanted = None if state is None else State(state)
        some, _ = await webhooks.deliveries(engine, found, state=wanted, limit=limit)
        if shared.as_json:
            render.lines(_delivery(one) for one in some)
        else:
            render.table(_deliveries(list(some), await engine.now()))

    wiring.ask(shared, look)


@command.command()
@endpoint_argument
@click.argument("delivery", metavar="DELIVERY")
@click.pass_obj
def replay(shared: Shared, endpoint_id: str, delivery: str) -> None:
    """Bring a message once more, and print the job that does."""

    async def begin(engine: Engine) -> None:
        found = await engine.get_webhook(endpoint_id)
        try:
            job_id = ids.parse(delivery)
        except ValueError as error:
            raise click.BadParameter(str(error)) from None
        begun = await webhooks.replay(engine, found, job_id, IdSource(wiring.CLOCK))
        _begun(shared, ids.text(begun))

    wiring.ask(shared, begin)


def _changed(shared: Shared, endpoint_id: str, changes: Callable[[Endpoint], Endpoint]) -> None:
    _shown(shared, lambda engine: webhooks.change(engine, endpoint_id, changes))


def _shown(shared: Shared, call: Callable[[Engine], Awaitable[Endpoint]]) -> None:
    async def tell(engine: Engine) -> None:
        found = await call(engine)
        if shared.as_json:
            render.document(_document(found))
        else:
            render.sheet(_sheet(found, await engine.now()))

    wiring.ask(shared, tell)


def _tell_secret(shared: Shared, secret: str, made: Endpoint) -> None:
    """The secret goes to standard output alone, so that it can be piped to where it belongs."""
    if shared.as_json:
        render.document({"secret": secret, **_document(made)})
        return
    click.echo(secret)
    render.note(f"endpoint {made.id} of tenant {made.tenant}; the secret is not shown again")


def _begun(shared: Shared, job_id: str) -> None:
    if shared.as_json:
        render.document({"id": job_id})
    else:
        click.echo(job_id)


def _document(it: Endpoint) -> Document:
    older = [one.until for one in it.secrets if one.until is not None]
    return {
        "id": it.id,
        "tenant": it.tenant,
        "url": it.url,
        "events": list(it.events),
        "queues": list(it.queues),
        "types": list(it.types),
        "description": it.description,
        "disabled": it.disabled,
        "failing_since": documents.instant(it.failing_since),
        "previous_until": documents.instant(max(older) if older else None),
        "created_at": documents.instant(it.created_at),
    }


def _table(them: list[Endpoint], now: int) -> Table:
    return Table(
        columns=("id", "tenant", "url", "events", "created", ""),
        rows=[
            (
                it.id,
                it.tenant,
                it.url,
                " ".join(it.events) or "all but progress",
                tables.when(it.created_at, now),
                _condition(it, now),
            )
            for it in them
        ],
        empty="no webhook endpoints; make one with `longshore webhooks create URL`",
    )


def _sheet(it: Endpoint, now: int) -> Sheet:
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
            ("created", tables.when(it.created_at, now)),
        ]
    )


def _condition(it: Endpoint, now: int) -> str:
    if it.disabled is not None:
        return f"disabled: {it.disabled}"
    if it.failing_since is not None:
        return f"failing since {tables.when(it.failing_since, now)}"
    return ""


def _delivery(it: Delivery) -> Document:
    job = it.job
    return {
        "id": ids.text(job.id),
        "message_id": it.message.message,
        "event": it.message.event,
        "state": job.state.value,
        "attempts": job.attempt,
        "status": it.status,
        "error": _error(it),
        "created_at": documents.instant(job.created_at),
        "finished_at": documents.instant(job.finished_at),
    }


def _deliveries(them: list[Delivery], now: int) -> Table:
    return Table(
        columns=("id", "event", "state", "attempts", "status", "created", "error"),
        rows=[
            (
                ids.text(it.job.id),
                it.message.event,
                it.job.state.value,
                str(it.job.attempt),
                str(it.status or ""),
                tables.when(it.job.created_at, now),
                _error(it) or "",
            )
            for it in them
        ],
        empty="no deliveries",
    )


def _error(it: Delivery) -> str | None:
    failure = it.job.failure
    return it.job.reason if failure is None else failure.message
