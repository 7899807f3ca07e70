"""Webhook endpoints whose URL is judged before it is stored, and deliveries to them."""

import secrets
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import urlsplit

import msgspec
from msgspec.structs import replace

from longshore import paging
from longshore.contract import Engine
from longshore.core import codec, submission, webhook
from longshore.core.job import CheckedJob, Job, JobId, NewJob
from longshore.core.state import State
from longshore.core.view import JobFilter, Page
from longshore.core.webhook import Endpoint, Secret
from longshore.errors import ConfigError, JobNotFoundError
from longshore.operations.fields import UNREADABLE
from longshore.records import webhooks
from longshore.runtime.ids import IdSource
from longshore.tasks.settings import WebhookSettings
from longshore.tasks.ssrf import BlockedTargetError, Guard, lookup_briefly

__all__ = [
    "Delivery",
    "change",
    "create",
    "deliveries",
    "delivery_job",
    "delivery_of",
    "guard_of",
    "replay",
    "rotate",
    "test",
]

_KEY_BYTES = 32
_TIMEOUT_US = 60_000_000


class Message(msgspec.Struct, frozen=True):
    """The payload of a delivery."""

    endpoint: str
    message: str
    """Its id, the same in every attempt."""
    event: str
    """The name of what happened."""
    body: str
    """What is sent, byte for byte."""


class _Answered(msgspec.Struct, frozen=True):
    status: int | None = None


class Delivery(msgspec.Struct, frozen=True):
    """A message to an endpoint: a job, and what it carries."""

    job: Job
    message: Message

    @property
    def status(self) -> int | None:
        """The HTTP status of a delivery that succeeded."""
        if self.job.result is None:
            return None
        try:
            return msgspec.json.decode(self.job.result, type=_Answered).status
        except UNREADABLE:
            return None


def guard_of(settings: WebhookSettings | None = None) -> Guard:
    """What judges URLs when they are stored, by the rule that deliveries obey."""
    networks = () if settings is None else settings.allowed_networks
    return Guard(networks, lookup_briefly)


async def create(
    engine: Engine, *, tenant: str, url: str, guard: Guard | None = None, **fields: Any
) -> tuple[str, Endpoint]:
    """A new endpoint and its secret, which is not shown again.

    ConfigError if the URL leads where the guard lets no delivery go; without one, to any
    address that is not public.
    """
    text = webhook.secret_text(secrets.token_bytes(_KEY_BYTES))
    made = Endpoint(
        id=f"wh_{secrets.token_hex(12)}",
        tenant=tenant,
        url=url,
        secrets=(Secret(text),),
        **fields,
    )
    await _refuse_inward(made, guard)
    await webhooks.create(engine, made)
    return text, await webhooks.get(engine, made.id)


async def change(
    engine: Engine,
    endpoint_id: str,
    changes: Callable[[Endpoint], Endpoint],
    *,
    tenant: str | None = None,
    guard: Guard | None = None,
) -> Endpoint:
    """Store what `changes` makes of the endpoint, or WebhookNotFoundError.

    It is called again when somebody else changed the endpoint in the same moment. A new URL
    is judged as that of a new endpoint.
    """
    judged: set[str] = set()

    def with_judged_url(seen: Endpoint) -> Endpoint:
        wanted = changes(seen)
        if wanted.url not in (seen.url, *judged):
            raise _UnjudgedError(wanted)
        return wanted

    while True:
        try:
            return await webhooks.change(engine, endpoint_id, with_judged_url, tenant=tenant)
        except _UnjudgedError as error:
            await _refuse_inward(error.wanted, guard)
            judged.add(error.wanted.url)


class _UnjudgedError(Exception):
    def __init__(self, wanted: Endpoint) -> None:
        super().__init__(wanted.url)
        self.wanted = wanted


async def _refuse_inward(wanted: Endpoint, guard: Guard | None) -> None:
    webhook.validate(wanted)
    try:
        parts = urlsplit(wanted.url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        await (guard or guard_of()).refuse_known(parts.hostname or "", port)
    except (BlockedTargetError, ValueError):
        raise ConfigError(
            "url has to lead to a public address, or into one of the networks that "
            "webhooks.allowed_networks names in the settings"
        ) from None


async def rotate(
    engine: Engine, endpoint_id: str, *, grace: int, tenant: str | None = None
) -> tuple[str, Endpoint]:
    """A new secret; for `grace` microseconds deliveries are signed with the one before too."""
    text = webhook.secret_text(secrets.token_bytes(_KEY_BYTES))
    now = await engine.now()
    return text, await change(
        engine,
        endpoint_id,
        lambda seen: webhook.rotated(seen, text, grace=grace, now=now),
        tenant=tenant,
    )


def delivery_job(
    job_id: JobId,
    endpoint: Endpoint,
    message: Message,
    *,
    key: str | None = None,
    trace: str | None = None,
) -> NewJob:
    """The job that brings a message to an endpoint; with a key, there is one such job.

    SubmitError or PayloadError where there can be no such job.
    """
    job = CheckedJob(
        id=job_id,
        type=webhook.TASK,
        payload=codec.encode(msgspec.structs.asdict(message)),
        queue=webhook.QUEUE,
        tenant=endpoint.tenant,
        max_attempts=webhook.ATTEMPTS,
        timeout=_TIMEOUT_US,
        idempotency_key=key,
        tags=(endpoint.id,),
        trace=trace,
    )
    submission.validate_fields(job)
    return job if key is None else replace(job, fingerprint=codec.fingerprint(job))


async def test(engine: Engine, endpoint: Endpoint, ids: IdSource) -> JobId:
    """Send a message that says nothing, through everything that the others go through."""
    body = webhook.test_body(endpoint, await engine.now())
    message = Message(endpoint.id, f"msg_test_{secrets.token_hex(8)}", webhook.TEST, body)
    (answer,) = await engine.submit([delivery_job(ids.make(), endpoint, message)])
    return answer.id


async def deliveries(
    engine: Engine,
    endpoint: Endpoint,
    *,
    state: State | None = None,
    limit: int = 50,
    cursor: str | None = None,
) -> tuple[Sequence[Delivery], str | None]:
    """Messages to the endpoint, newest first, a page at a time."""
    which = JobFilter(
        tenant=endpoint.tenant,
        queue=webhook.QUEUE,
        type=webhook.TASK,
        state=state,
        tag=endpoint.id,
    )
    page: Page = await paging.find(engine, which, limit=limit, cursor=cursor)
    return [found for job in page.jobs if (found := delivery_of(job))], page.cursor


async def replay(engine: Engine, endpoint: Endpoint, job_id: JobId, ids: IdSource) -> JobId:
    """Bring a message once more: the job itself if it has failed, another if it succeeded.

    JobNotFoundError unless it is a delivery to this endpoint; IllegalTransitionError while it
    is under way.
    """
    job = await engine.get(job_id, tenant=endpoint.tenant)
    found = delivery_of(job)
    if found is None or found.message.endpoint != endpoint.id:
        raise JobNotFoundError(str(job_id))
    if job.state is not State.SUCCEEDED:
        await engine.change("replay", [job_id], tenant=endpoint.tenant)
        return job_id
    again = delivery_job(ids.make(), endpoint, found.message, trace=job.trace)
    (answer,) = await engine.submit([again])
    return answer.id


def delivery_of(job: Job) -> Delivery | None:
    """What a job brings to whom; None if it is not a delivery."""
    if job.type != webhook.TASK:
        return None
    try:
        return Delivery(job, msgspec.json.decode(job.payload, type=Message))
    except UNREADABLE:
        return None
