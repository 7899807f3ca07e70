"""Webhook endpoints and their deliveries, over HTTP."""

from datetime import datetime
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType
from msgspec.structs import replace

from longshore import webhooks
from longshore.api import caps
from longshore.api.fields import JobIdText, Limit, Name, Seconds, instant, moment
from longshore.api.listing import PageQuery, page
from longshore.api.problems import ProblemError, invalid, problem
from longshore.api.routing import Answer, Call, Nothing, Route
from longshore.api.views import encode
from longshore.core import ids
from longshore.core.account import Scope
from longshore.core.state import State
from longshore.core.webhook import Endpoint
from longshore.errors import ConfigError, JobNotFoundError
from longshore.webhooks import Delivery

__all__ = ["ROUTES"]

Url = Annotated[
    str, Meta(pattern=r"\Ahttps?://\S{1,1990}\Z", examples=["https://example.com/hook"])
]
Events = Annotated[
    tuple[Annotated[str, Meta(pattern=r"\A[a-z_.*]{1,40}\Z")], ...], Meta(max_length=50)
]
Names = Annotated[tuple[Name, ...], Meta(max_length=50)]
Words = Annotated[str, Meta(max_length=128, pattern=r"\A[^\x00]*\Z")]
EndpointId = Annotated[str, Meta(pattern=r"\Awh_[0-9a-f]{24}\Z")]


class WebhookPath(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Names an endpoint."""

    endpoint: EndpointId


class DeliveryPath(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Names a delivery of an endpoint."""

    endpoint: EndpointId
    delivery: JobIdText


class WebhookBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A new endpoint."""

    url: Url
    events: Events = ()
    """Names, or patterns such as `job.*`; none: all but `job.progress`."""
    queues: Names = ()
    """None: any."""
    types: Names = ()
    """None: any."""
    description: Words = ""


class WebhookPatch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to change; what is left out stays."""

    url: Url | UnsetType = UNSET
    events: Events | UnsetType = UNSET
    queues: Names | UnsetType = UNSET
    types: Names | UnsetType = UNSET
    description: Words | UnsetType = UNSET
    is_disabled: bool | UnsetType = UNSET
    """False lets it hear of things again, also after it was disabled for its failures."""


class WebhookRotation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How secrets overlap."""

    grace_seconds: Seconds = 86_400.0
    """For so long deliveries are signed with the secret before, too."""


class DeliveriesQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which deliveries to list."""

    state: State | None = None
    limit: Limit = 50
    cursor: Annotated[str, Meta(max_length=2_000)] | None = None


class WebhookView(msgspec.Struct, frozen=True, kw_only=True):
    """An endpoint. Its secret is shown when it is made, and never again."""

    id: str
    tenant: str
    url: str
    events: tuple[str, ...]
    queues: tuple[str, ...]
    types: tuple[str, ...]
    description: str
    is_disabled: bool
    disabled_reason: str | None
    failing_since: datetime | None
    """When the first of the failures was that no success has followed."""
    previous_until: datetime | None
    """Until when deliveries are signed with an older secret, too."""
    created_at: datetime


class NewWebhook(msgspec.Struct, frozen=True):
    """An endpoint and its new secret, which is shown this once."""

    webhook: WebhookView
    secret: str


class WebhookList(msgspec.Struct, frozen=True):
    """Endpoints, oldest first."""

    webhooks: list[WebhookView]
    cursor: str | None
    """Where the next page begins; null at the end."""


class DeliveryView(msgspec.Struct, frozen=True, kw_only=True):
    """A message to an endpoint: an ordinary job, so that all that is asked of jobs works."""

    id: str
    """The job's."""
    message_id: str
    """What the receiver sees as `webhook-id`."""
    event: str
    state: State
    attempts: int
    """How often it was tried."""
    status: int | None
    """What the endpoint answered, when it took the message."""
    error: str | None
    """The last failure."""
    next_at: datetime | None
    """When it is tried again."""
    created_at: datetime
    finished_at: datetime | None


class DeliveryList(msgspec.Struct, frozen=True):
    """Deliveries, newest first."""

    deliveries: list[DeliveryView]
    cursor: str | None
    """Where the next page begins; null at the end."""


class Begun(msgspec.Struct, frozen=True):
    """A delivery that is on its way."""

    id: str


async def create(call: Call[Nothing, Nothing, WebhookBody]) -> Answer:
    """Have events sent to a URL, signed as Standard Webhooks has it.

    The answer holds the secret to check signatures with. It is not shown again.
    """
    body = call.body
    await caps.check_webhook(call.service.engine, call.caller.account)
    try:
        secret, made = await webhooks.create(
            call.service.engine,
            tenant=call.caller.home,
            url=body.url,
            events=body.events,
            queues=body.queues,
            types=body.types,
            description=body.description,
        )
    except ConfigError as error:
        raise invalid("", _said(error)) from None
    location = (b"location", f"/v1/webhooks/{made.id}".encode("ascii"))
    return Answer(201, encode(NewWebhook(_view(made), secret)), (location,))


async def find(call: Call[Nothing, PageQuery, Nothing]) -> Answer:
    """Endpoints, oldest first."""
    tenant = call.caller.tenant
    found, cursor = page(
        await call.service.engine.webhooks(tenant=tenant),
        call.query,
        lambda one: (one.created_at, one.id),
        of=("webhooks", tenant),
    )
    return Answer(200, encode(WebhookList([_view(one) for one in found], cursor)))


async def get(call: Call[WebhookPath, Nothing, Nothing]) -> Answer:
    """One endpoint."""
    return Answer(200, encode(_view(await _endpoint(call, call.path.endpoint))))


async def change(call: Call[WebhookPath, Nothing, WebhookPatch]) -> Answer:
    """Change an endpoint, disable it, or let it hear of things again."""
    given = msgspec.structs.asdict(call.body)
    fields = {name: value for name, value in given.items() if value is not UNSET}
    is_disabled = fields.pop("is_disabled", None)
    if is_disabled is not None:
        fields["disabled"] = "by hand" if is_disabled else None
        fields["failing_since"] = None

    def changed(seen: Endpoint) -> Endpoint:
        return replace(seen, **fields)

    try:
        found = await webhooks.change(
            call.service.engine, call.path.endpoint, changed, tenant=call.caller.tenant
        )
    except ConfigError as error:
        raise invalid("", _said(error)) from None
    return Answer(200, encode(_view(found)))


async def delete(call: Call[WebhookPath, Nothing, Nothing]) -> Answer:
    """Remove an endpoint. Deliveries that wait are not made."""
    await call.service.engine.delete_webhook(call.path.endpoint, tenant=call.caller.tenant)
    return Answer(204)


async def rotate(call: Call[WebhookPath, Nothing, WebhookRotation]) -> Answer:
    """A new secret, shown this once.

    For a while deliveries are signed with both, so that receivers can change over.
    """
    secret, found = await webhooks.rotate(
        call.service.engine,
        call.path.endpoint,
        grace=round(call.body.grace_seconds * 1e6),
        tenant=call.caller.tenant,
    )
    return Answer(200, encode(NewWebhook(_view(found), secret)))


async def test(call: Call[WebhookPath, Nothing, Nothing]) -> Answer:
    """Send a message of the type `webhook.test`, through all that others go through."""
    found = await _endpoint(call, call.path.endpoint)
    job_id = await webhooks.test(call.service.engine, found, call.service.ids)
    return Answer(202, encode(Begun(ids.text(job_id))))


async def deliveries(call: Call[WebhookPath, DeliveriesQuery, Nothing]) -> Answer:
    """What was sent to an endpoint, or is to be, newest first."""
    found = await _endpoint(call, call.path.endpoint)
    asked = call.query
    try:
        some, cursor = await webhooks.deliveries(
            call.service.engine,
            found,
            state=asked.state,
            limit=asked.limit,
            cursor=asked.cursor,
        )
    except ConfigError:
        raise ProblemError(problem("cursor")) from None
    return Answer(200, encode(DeliveryList([_delivery(one) for one in some], cursor)))


async def replay(call: Call[DeliveryPath, Nothing, Nothing]) -> Answer:
    """Bring a message once more, with the same `webhook-id`.

    A delivery that failed begins anew; of one that succeeded, another is made.
    """
    found = await _endpoint(call, call.path.endpoint)
    job_id = ids.parse(call.path.delivery)
    try:
        begun = await webhooks.replay(call.service.engine, found, job_id, call.service.ids)
    except JobNotFoundError:
        raise ProblemError(problem("job_not_found")) from None
    return Answer(202, encode(Begun(ids.text(begun))))


async def _endpoint(call: Call[Any, Any, Any], endpoint_id: str) -> Endpoint:
    return await call.service.engine.get_webhook(endpoint_id, tenant=call.caller.tenant)


def _one(_: object) -> int:
    return 1


def _said(error: ConfigError) -> str:
    """What the core complains of, without what was sent."""
    return str(error).partition(" '")[0]


def _view(it: Endpoint) -> WebhookView:
    older = [one.until for one in it.secrets if one.until is not None]
    return WebhookView(
        id=it.id,
        tenant=it.tenant,
        url=it.url,
        events=it.events,
        queues=it.queues,
        types=it.types,
        description=it.description,
        is_disabled=it.disabled is not None,
        disabled_reason=it.disabled,
        failing_since=moment(it.failing_since),
        previous_until=moment(max(older)) if older else None,
        created_at=instant(it.created_at),
    )


def _delivery(it: Delivery) -> DeliveryView:
    job = it.job
    failure = job.failure
    return DeliveryView(
        id=ids.text(job.id),
        message_id=it.message.message,
        event=it.message.event,
        state=job.state,
        attempts=job.attempt,
        status=it.status,
        error=failure.message if failure is not None else job.reason,
        next_at=instant(job.run_at) if job.state is State.SCHEDULED else None,
        created_at=instant(job.created_at),
        finished_at=moment(job.finished_at),
    )


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
        answers={202: Begun},
        jobs=_one,
    ),
    _route(
        "GET",
        "/{endpoint}/deliveries",
        "listDeliveries",
        deliveries,
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
        answers={202: Begun},
        jobs=_one,
        problems=("job_not_found", "illegal_transition"),
    ),
)
