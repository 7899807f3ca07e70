"""Webhook endpoints and deliveries: their documents, and what API and command line do."""

from datetime import datetime, timedelta
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType
from msgspec.structs import replace

from longshore.core import ids
from longshore.core.state import State
from longshore.core.units import microseconds
from longshore.core.webhook import Endpoint
from longshore.errors import ConfigError, JobNotFoundError
from longshore.operations import deliveries
from longshore.operations.deliveries import Delivery
from longshore.operations.fields import Name, Seconds, instant, moment
from longshore.operations.local import EngineOperations
from longshore.records import webhooks
from longshore.tasks.ssrf import Guard

__all__ = [
    "BY_HAND",
    "DeliveryList",
    "DeliveryView",
    "NewWebhook",
    "StartedDelivery",
    "WebhookBody",
    "WebhookList",
    "WebhookOperations",
    "WebhookPatch",
    "WebhookRotation",
    "WebhookView",
    "delivery_view",
    "webhook_view",
]

BY_HAND = "by hand"
"""Why an endpoint is disabled that somebody disabled without saying why."""

Url = Annotated[
    str, Meta(pattern=r"\Ahttps?://\S{1,1990}\Z", examples=["https://example.com/hook"])
]
Events = Annotated[
    tuple[Annotated[str, Meta(pattern=r"\A[a-z_.*]{1,40}\Z")], ...], Meta(max_length=50)
]
Names = Annotated[tuple[Name, ...], Meta(max_length=50)]
Words = Annotated[str, Meta(max_length=128, pattern=r"\A[^\x00]*\Z")]
Reason = Annotated[str, Meta(min_length=1, max_length=200, pattern=r"\A[^\x00]*\Z")]


class WebhookBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A new endpoint."""

    url: Url
    events: Events = ()
    """Names, or patterns such as `job.*`; none: all but `job.progress`."""
    queues: Names = ()
    """Null: any."""
    types: Names = ()
    """Null: any."""
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
    disabled_reason: Reason | UnsetType = UNSET
    """With `is_disabled` true: why, for people; `by hand` unless given."""


class WebhookRotation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How secrets overlap."""

    grace_seconds: Seconds = 86_400.0
    """For so long deliveries are signed with the secret before, too."""


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


class StartedDelivery(msgspec.Struct, frozen=True):
    """A delivery that is on its way."""

    id: str
    """The job's."""


class WebhookOperations(EngineOperations):
    """What is done with webhook endpoints on an engine."""

    webhook_guard: Guard | None = None
    """Where endpoints may be; None: at public addresses."""

    async def webhooks(self) -> list[WebhookView]:
        """Every endpoint, oldest first."""
        found = await webhooks.every(self._engine, tenant=self._tenant)
        return [
            webhook_view(one) for one in sorted(found, key=lambda it: (it.created_at, it.id))
        ]

    async def webhook(self, endpoint_id: str) -> WebhookView:
        """The endpoint, or WebhookNotFoundError."""
        return webhook_view(await self._endpoint(endpoint_id))

    async def create_webhook(
        self,
        url: str,
        *,
        events: tuple[str, ...] = (),
        queues: tuple[str, ...] = (),
        types: tuple[str, ...] = (),
        description: str = "",
    ) -> NewWebhook:
        """Have events sent to a URL; what is returned is the only place with the secret."""
        secret, made = await deliveries.create(
            self._engine,
            tenant=self._home,
            url=url,
            guard=self.webhook_guard,
            events=events,
            queues=queues,
            types=types,
            description=description,
        )
        return NewWebhook(webhook_view(made), secret)

    async def change_webhook(self, endpoint_id: str, patch: WebhookPatch) -> WebhookView:
        """Change what the patch names of an endpoint, or WebhookNotFoundError."""
        fields = _fields(patch)
        changed = await deliveries.change(
            self._engine,
            endpoint_id,
            lambda it: replace(it, **fields),
            tenant=self._tenant,
            guard=self.webhook_guard,
        )
        return webhook_view(changed)

    async def delete_webhook(self, endpoint_id: str) -> None:
        """Remove it, or WebhookNotFoundError. Deliveries that wait are not made."""
        await webhooks.delete(self._engine, endpoint_id, tenant=self._tenant)

    async def rotate_webhook(self, endpoint_id: str, *, grace: timedelta) -> NewWebhook:
        """A new secret; for `grace` deliveries are signed with the one before, too."""
        secret, found = await deliveries.rotate(
            self._engine, endpoint_id, grace=microseconds(grace), tenant=self._tenant
        )
        return NewWebhook(webhook_view(found), secret)

    async def test_webhook(self, endpoint_id: str) -> StartedDelivery:
        """Send a message that says nothing, through all that others go through."""
        found = await self._endpoint(endpoint_id)
        return StartedDelivery(ids.text(await deliveries.test(self._engine, found, self._ids)))

    async def webhook_deliveries(
        self, endpoint_id: str, *, state: State | None = None, limit: int = 50
    ) -> list[DeliveryView]:
        """The latest of what was sent to an endpoint or is to be, newest first."""
        found = await self._endpoint(endpoint_id)
        some, _ = await deliveries.deliveries(self._engine, found, state=state, limit=limit)
        return [delivery_view(one) for one in some]

    async def replay_delivery(self, endpoint_id: str, delivery_id: str) -> StartedDelivery:
        """Bring a message once more, or JobNotFoundError.

        A delivery that failed begins anew; of one that succeeded, another is made.
        IllegalTransitionError while it is under way.
        """
        found = await self._endpoint(endpoint_id)
        try:
            job_id = ids.parse(delivery_id)
        except ValueError:
            raise JobNotFoundError(delivery_id) from None
        started = await deliveries.replay(self._engine, found, job_id, self._ids)
        return StartedDelivery(ids.text(started))

    async def _endpoint(self, endpoint_id: str) -> Endpoint:
        return await webhooks.get(self._engine, endpoint_id, tenant=self._tenant)


def webhook_view(it: Endpoint) -> WebhookView:
    """An endpoint's document, without its secrets."""
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


def delivery_view(it: Delivery) -> DeliveryView:
    """A delivery's document."""
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


def _fields(patch: WebhookPatch) -> dict[str, Any]:
    """The fields of an endpoint that the patch changes, or ConfigError."""
    given = msgspec.structs.asdict(patch)
    fields = {name: value for name, value in given.items() if value is not UNSET}
    reason = fields.pop("disabled_reason", None)
    is_disabled = fields.pop("is_disabled", None)
    if reason is not None and is_disabled is not True:
        raise ConfigError("disabled_reason is for an endpoint that is disabled with it")
    if is_disabled is not None:
        fields["disabled"] = (reason or BY_HAND) if is_disabled else None
        fields["failing_since"] = None
    return fields
