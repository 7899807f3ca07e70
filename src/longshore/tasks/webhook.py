"""`longshore.webhook`: bring one message to one endpoint.

What an answer means for the delivery:

    2xx                        succeeded
    410                        dead, and the endpoint is disabled
    429, 502, 503, 504         tried again on the schedule, not before a Retry-After
    anything else, no answer   tried again on the schedule; redirects are not followed
    a URL that leads inward    dead, before anything is sent

So many deliveries of the whole fleet go to an endpoint at once and no more, and one that keeps
failing rests for a while: what would go there meanwhile waits uncharged, and others are served.
"""

import importlib
import random
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from longshore.contract import Records
from longshore.core import webhook
from longshore.core.webhook import Endpoint
from longshore.directives import Cancel, Dead, Retry, Snooze
from longshore.errors import ConfigError, EngineError, WebhookNotFoundError
from longshore.job_context import current_job
from longshore.records import webhooks
from longshore.runtime.actor import acting
from longshore.tasks.http import HttpAnswer, Request, retry_after
from longshore.tasks.redaction import without_secrets
from longshore.tasks.settings import HttpTaskSettings, WebhookSettings
from longshore.tasks.ssrf import Guard, Resolver, lookup

if TYPE_CHECKING:
    from longshore.tasks.http_transport import Outbound

__all__ = ["WebhookTask"]

_BUSY = frozenset({429, 502, 503, 504})
_GONE = 410
_MARGIN = timedelta(seconds=5)
"""A worker that dies gives its places back so long after the longest request."""
_LONGEST_RETRY_AFTER = timedelta(days=1)
_EPOCH = datetime.fromisoformat("1970-01-01T00:00:00+00:00")


class WebhookTask:
    """The task, bound to a worker's settings and its store."""

    def __init__(
        self,
        records: Callable[[], Records],
        settings: WebhookSettings | None = None,
        *,
        resolve: Resolver = lookup,
    ) -> None:
        self._records = records
        self._settings = settings or WebhookSettings()
        self._guard = Guard(self._settings.allowed_networks, resolve)
        self._outbound: Outbound | None = None
        self._rng = random.Random()

    async def deliver(
        self, endpoint: str, message: str, event: str, body: str
    ) -> dict[str, Any]:
        """Send the message once, signed; the answer's status decides how the job ends."""
        found = await self._known(endpoint)
        answer = await self._inside(found, message, body)
        if answer.status == _GONE:
            await self._note(found, lambda seen: replace(seen, disabled="it answered 410"))
            raise Dead("the endpoint answered 410, so it is disabled")
        if not _is_success(answer):
            words = without_secrets(answer.body or "", found.url)
            reason = f"answered {answer.status}: {words:.200}"
            await self._failed(found, reason, answer)
        if found.failing_since is not None:
            await self._note(found, lambda seen: replace(seen, failing_since=None))
        return {"status": answer.status}

    async def _known(self, endpoint_id: str) -> Endpoint:
        try:
            # Of the job's tenant only: no other may have anything signed with its secret.
            found = await webhooks.get(
                self._records(), endpoint_id, tenant=current_job().tenant
            )
        except WebhookNotFoundError:
            raise Cancel("the endpoint is gone") from None
        if found.disabled is not None:
            raise Cancel(f"the endpoint is disabled: {found.disabled}")
        return found

    async def _inside(self, found: Endpoint, message: str, body: str) -> HttpAnswer:
        """What the endpoint answers; Snooze while it has no room, or rests."""
        delivery = f"{current_job().id} {current_job().delivery}"
        await self._admit(found, delivery)
        succeeded: bool | None = None
        try:
            answer = await self._sent(found, message, body)
            succeeded = _is_success(answer)
        except Retry:
            succeeded = False
            raise
        finally:
            # What is not given back lapses, and a message that arrived is not to come twice.
            with suppress(EngineError):
                await webhooks.release(self._records(), found.id, delivery, succeeded=succeeded)
        return answer

    async def _admit(self, found: Endpoint, delivery: str) -> None:
        lease = (self._settings.timeout + _MARGIN) // timedelta(microseconds=1)
        try:
            rejected = await webhooks.admit(
                self._records(),
                found.id,
                delivery,
                max_in_flight=self._settings.max_running,
                lease=lease,
            )
        except WebhookNotFoundError:
            raise Cancel("the endpoint is gone") from None
        if rejected is not None:
            job = current_job()
            refusals = max(job.attempt - 1 - job.failures, 0)
            after = webhook.refused_delay(refusals, self._rng.random())
            if rejected.retry_after is None:
                raise Snooze(after, reason="the endpoint is busy")
            after += timedelta(microseconds=rejected.retry_after)
            raise Snooze(after, reason="the endpoint keeps failing")

    async def _sent(self, found: Endpoint, message: str, body: str) -> HttpAnswer:
        job = current_job()
        now = _micros(job.now())
        headers = webhook.headers(found, message, body, now=now, trace=job.trace)
        request = Request(method="POST", url=found.url, headers=headers, body=body.encode())
        seconds = self._settings.timeout.total_seconds()
        try:
            return await self._client().send(request, seconds=seconds)
        except Retry as error:
            await self._failed(found, error.reason, None)
            raise
        except Dead:
            await self._note_failure(found)
            raise

    async def _failed(self, found: Endpoint, reason: str, answer: HttpAnswer | None) -> None:
        """Raise what the job needs, once everyone knows of the failure."""
        job = current_job()
        await self._note_failure(found)
        after = webhook.delay(job.failures + 1, self._rng.random())
        if answer is not None and answer.status in _BUSY:
            asked = retry_after(answer.headers, job.now()) or timedelta(0)
            after = max(after, min(asked, _LONGEST_RETRY_AFTER))
        raise Retry(after=after, reason=reason)

    async def _note_failure(self, found: Endpoint) -> None:
        now = _micros(current_job().now())
        since = found.failing_since
        if since is None:
            await self._note(
                found, lambda seen: replace(seen, failing_since=seen.failing_since or now)
            )
        elif now - since > self._settings.disable_after / timedelta(microseconds=1):
            days = self._settings.disable_after / timedelta(days=1)
            words = f"every delivery has failed for {days:g} days"
            await self._note(found, lambda seen: replace(seen, disabled=words))

    async def _note(self, found: Endpoint, changes: Callable[[Endpoint], Endpoint]) -> None:
        """Store it, unless the endpoint is gone."""
        with acting("webhooks"), suppress(WebhookNotFoundError):
            await webhooks.change(self._records(), found.id, changes, tenant=found.tenant)

    def _client(self) -> "Outbound":
        """Loads httpx when the first delivery needs it: the extra is optional."""
        if self._outbound is None:
            try:
                module = importlib.import_module("longshore.tasks.http_transport")
            except ModuleNotFoundError as exc:
                raise ConfigError(
                    "webhooks need httpx; install longshore[http] where the worker runs"
                ) from exc
            settings = HttpTaskSettings(ca_file=self._settings.ca_file)
            self._outbound = module.Outbound(self._guard, settings)
        assert self._outbound is not None
        return self._outbound


def _is_success(answer: HttpAnswer) -> bool:
    return 200 <= answer.status < 300


def _micros(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(microseconds=1)
