"""Webhook endpoints and their deliveries, over HTTP."""

from datetime import timedelta
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from longshore.api import caps
from longshore.api.encoding import encode
from longshore.api.listing import PageQuery, page
from longshore.api.problems import ProblemError, invalid, problem
from longshore.api.routing import Answer, Call, Nothing, Route
from longshore.core.account import Scope
from longshore.core.state import State
from longshore.errors import ConfigError
from longshore.operations import deliveries
from longshore.operations.fields import Id, JobIdText, Limit
from longshore.operations.webhooks import (
    DeliveryList,
    NewWebhook,
    StartedDelivery,
    WebhookBody,
    WebhookList,
    WebhookOperations,
    WebhookPatch,
    WebhookRotation,
    WebhookView,
    delivery_view,
    webhook_view,
)
from longshore.records import webhooks

__all__ = ["ROUTES"]


class WebhookPath(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Names an endpoint."""

    endpoint: Id


class DeliveryPath(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Names a delivery of an endpoint."""

    endpoint: Id
    delivery: JobIdText


class DeliveriesQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which deliveries to list."""

    state: State | None = None
    limit: Limit = 50
    cursor: Annotated[str, Meta(max_length=2_000)] | None = None


async def create(call: Call[Nothing, Nothing, WebhookBody]) -> Answer:
    """Have events sent to a URL, signed as Standard Webhooks has it.

    The answer holds the secret to check signatures with. It is not shown again.
    """
    body = call.body
    await caps.check_webhook(call.service.engine, call.caller.account)
    try:
        made = await _webhooks(call).create_webhook(
            body.url,
            events=body.events,
            queues=body.queues,
            types=body.types,
            description=body.description,
        )
    except ConfigError as error:
        raise invalid("", _said(error)) from None
    location = (b"location", f"/v1/webhooks/{made.webhook.id}".encode("ascii"))
    return Answer(201, encode(made), (location,))


async def find(call: Call[Nothing, PageQuery, Nothing]) -> Answer:
    """Endpoints, oldest first."""
    tenant = call.caller.tenant
    found, cursor = page(
        await webhooks.every(call.service.engine, tenant=tenant),
        call.query,
        lambda one: (one.created_at, one.id),
        of=("webhooks", tenant),
    )
    return Answer(200, encode(WebhookList([webhook_view(one) for one in found], cursor)))


async def get(call: Call[WebhookPath, Nothing, Nothing]) -> Answer:
    """One endpoint."""
    return Answer(200, encode(await _webhooks(call).webhook(call.path.endpoint)))


async def change(call: Call[WebhookPath, Nothing, WebhookPatch]) -> Answer:
    """Change an endpoint, disable it, or let it hear of things again."""
    try:
        told = await _webhooks(call).change_webhook(call.path.endpoint, call.body)
    except ConfigError as error:
        raise invalid("", _said(error)) from None
    return Answer(200, encode(told))


async def delete(call: Call[WebhookPath, Nothing, Nothing]) -> Answer:
    """Remove an endpoint. Deliveries that wait are not made."""
    await _webhooks(call).delete_webhook(call.path.endpoint)
    return Answer(204)


async def rotate(call: Call[WebhookPath, Nothing, WebhookRotation]) -> Answer:
    """A new secret, shown this once.

    For a while deliveries are signed with both, so that receivers can change over.
    """
    grace = timedelta(seconds=call.body.grace_seconds)
    told = await _webhooks(call).rotate_webhook(call.path.endpoint, grace=grace)
    return Answer(200, encode(told))


async def test(call: Call[WebhookPath, Nothing, Nothing]) -> Answer:
    """Send a message of the type `webhook.test`, through all that others go through."""
    return Answer(202, encode(await _webhooks(call).test_webhook(call.path.endpoint)))


async def list_deliveries(call: Call[WebhookPath, DeliveriesQuery, Nothing]) -> Answer:
    """What was sent to an endpoint, or is to be, newest first."""
    engine, asked = call.service.engine, call.query
    found = await webhooks.get(engine, call.path.endpoint, tenant=call.caller.tenant)
    try:
        some, cursor = await deliveries.deliveries(
            engine, found, state=asked.state, limit=asked.limit, cursor=asked.cursor
        )
    except ConfigError:
        raise ProblemError(problem("cursor")) from None
    return Answer(200, encode(DeliveryList([delivery_view(one) for one in some], cursor)))


async def replay(call: Call[DeliveryPath, Nothing, Nothing]) -> Answer:
    """Bring a message once more, with the same `webhook-id`.

    A delivery that failed begins anew; of one that succeeded, another is made.
    """
    told = await _webhooks(call).replay_delivery(call.path.endpoint, call.path.delivery)
    return Answer(202, encode(told))


def _webhooks(call: Call[Any, Any, Any]) -> WebhookOperations:
    found = WebhookOperations(call.service.engine, tenant=call.caller.tenant)
    found.webhook_guard = call.service.webhook_guard
    return found


def _one(_: object) -> int:
    return 1


def _said(error: ConfigError) -> str:
    """What the core complains of, without what was sent."""
    return str(error).partition(" '")[0]


def _route(
    method: str, path: str, name: str, handler: Any, **more: Any
) -> Route[Any, Any, Any]:
    scope = Scope.READ if method == "GET" else Scope.OPERATE
    missing = ("webhook_not_found",) if "{endpoint}" in path else ()
    return Route(
        method=method,
        path=f"/v1/webhooks{path}",
        name=name,
        handler=handler,
        scope=scope,
        problems=(*missing, *more.pop("problems", ())),
        **more,
    )


ROUTES: tuple[Route[Any, Any, Any], ...] = (
    _route(
        "POST",
        "",
        "createWebhook",
        create,
        body=WebhookBody,
        answers={201: NewWebhook},
        problems=("tenant_not_found", "cap_reached"),
    ),
    _route(
        "GET",
        "",
        "listWebhooks",
        find,
        query=PageQuery,
        answers={200: WebhookList},
        problems=("cursor",),
    ),
    _route(
        "GET",
        "/{endpoint}",
        "getWebhook",
        get,
        parameters=WebhookPath,
        answers={200: WebhookView},
    ),
    _route(
        "PATCH",
        "/{endpoint}",
        "changeWebhook",
        change,
        parameters=WebhookPath,
        body=WebhookPatch,
        answers={200: WebhookView},
    ),
    _route(
        "DELETE",
        "/{endpoint}",
        "deleteWebhook",
        delete,
        parameters=WebhookPath,
        answers={204: None},
    ),
    _route(
        "POST",
        "/{endpoint}:rotate",
        "rotateWebhook",
        rotate,
        parameters=WebhookPath,
        body=WebhookRotation,
        is_body_required=False,
        answers={200: NewWebhook},
    ),
    _route(
        "POST",
        "/{endpoint}:test",
        "testWebhook",
        test,
        parameters=WebhookPath,
        answers={202: StartedDelivery},
        jobs=_one,
    ),
    _route(
        "GET",
        "/{endpoint}/deliveries",
        "listDeliveries",
        list_deliveries,
        parameters=WebhookPath,
        query=DeliveriesQuery,
        answers={200: DeliveryList},
        problems=("cursor",),
    ),
    _route(
        "POST",
        "/{endpoint}/deliveries/{delivery}:replay",
        "replayDelivery",
        replay,
        parameters=DeliveryPath,
        answers={202: StartedDelivery},
        jobs=_one,
        problems=("job_not_found", "illegal_transition"),
    ),
)
