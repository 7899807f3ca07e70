"""`longshore.webhook`: bring one message to one endpoint.

What an answer means for the delivery:

    2xx                        succeeded
    410                        dead, and the endpoint is disabled
    429, 502, 503, 504         tried again on the schedule, not before a Retry-After
    anything else, no answer   tried again on the schedule; redirects are not followed
    a URL that leads inward    dead, before anything is sent

An endpoint has so many slots of a worker and no more, and one that keeps failing rests for a
while: what would go there meanwhile waits uncharged, and others are served.
"""

import importlib
import random
from collections import OrderedDict
from collections.abc import Callable
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from longshore.core import webhook
from longshore.core.webhook import Endpoint
from longshore.directives import Cancel, Dead, Retry, Snooze
from longshore.endpoints import Endpoints
from longshore.errors import ConfigError, WebhookNotFoundError
from longshore.running import current_job
from longshore.runtime.acting import acting
from longshore.tasks.guard import Guard, Resolver, lookup
from longshore.tasks.http import HttpAnswer, Request, retry_after
from longshore.tasks.settings import HttpTaskSettings, WebhookSettings

if TYPE_CHECKING:
    from collections.abc import Generator

    from longshore.tasks.outbound import Outbound

__all__ = ["WebhookTask"]

_BUSY = frozenset({429, 502, 503, 504})
_GONE = 410
_FAILURES = 5
"""Failures in a row after which an endpoint rests."""
_REST = timedelta(seconds=30)
_MOST_DOORS = 10_000
_LONGEST_RETRY_AFTER = timedelta(days=1)
_EPOCH = datetime.fromisoformat("1970-01-01T00:00:00+00:00")


class WebhookTask:
    """The task, bound to a worker's settings and its store."""

    def __init__(
        self,
        endpoints: Callable[[], Endpoints],
        settings: WebhookSettings | None = None,
        *,
        resolve: Resolver = lookup,
    ) -> None:
        self._endpoints = endpoints
        self._settings = settings or WebhookSettings()
        self._guard = Guard(self._settings.allowed_networks, resolve)
        self._outbound: Outbound | None = None
        self._doors: OrderedDict[str, _Door] = OrderedDict()
        self._rng = random.Random()

    async def deliver(
        self, endpoint: str, message: str, event: str, body: str
    ) -> dict[str, Any]:
        """Send the message once, signed; the answer's status decides how the job ends."""
        found = await self._known(endpoint)
        door = self._door(endpoint)
        with door.passed(self._settings.max_running, self._rng):
            answer = await self._sent(found, message, body, door)
        if answer.status == _GONE:
            await self._note(found, lambda seen: replace(seen, disabled="it answered 410"))
            raise Dead(f"{found.url} answered 410, so it is disabled")
        if not 200 <= answer.status < 300:
            reason = f"answered {answer.status}: {answer.body or '':.200}"
            await self._failed(found, door, reason, answer)
        door.failures = 0
        if found.failing_since is not None:
            await self._note(found, lambda seen: replace(seen, failing_since=None))
        return {"status": answer.status}

    async def _known(self, endpoint_id: str) -> Endpoint:
        try:
            # Of the job's tenant only: no other may have anything signed with its secret.
            found = await self._endpoints().get_webhook(
                endpoint_id, tenant=current_job().tenant
            )
        except WebhookNotFoundError:
            raise Cancel("the endpoint is gone") from None
        if found.disabled is not None:
            raise Cancel(f"the endpoint is disabled: {found.disabled}")
        return found

    async def _sent(
        self, found: Endpoint, message: str, body: str, door: "_Door"
    ) -> HttpAnswer:
        job = current_job()
        now = _micros(job.now())
        headers = webhook.headers(found, message, body, now=now, trace=job.trace)
        request = Request(method="POST", url=found.url, headers=headers, body=body.encode())
        seconds = self._settings.timeout.total_seconds()
        try:
            return await self._client().send(request, seconds=seconds)
        except Retry as error:
            await self._failed(found, door, error.reason, None)
            raise
        except Dead:
            await self._note_failure(found)
            raise

    async def _failed(
        self, found: Endpoint, door: "_Door", reason: str, answer: HttpAnswer | None
    ) -> None:
        """Raise what the job needs, once everyone knows of the failure."""
        job = current_job()
        door.failed(job.now())
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
        """Store it, unless somebody changes the endpoint just now: the next attempt will."""
        with acting("webhooks"):
            await self._endpoints().put_webhook(changes(found), seen=found)

    def _door(self, endpoint_id: str) -> "_Door":
        door = self._doors.setdefault(endpoint_id, _Door())
        self._doors.move_to_end(endpoint_id)
        if len(self._doors) > _MOST_DOORS:
            self._doors.popitem(last=False)
        return door

    def _client(self) -> "Outbound":
        """Loads httpx when the first delivery needs it: the extra is optional."""
        if self._outbound is None:
            try:
                module = importlib.import_module("longshore.tasks.outbound")
            except ModuleNotFoundError as exc:
                raise ConfigError(
                    "webhooks need httpx; install longshore[http] where the worker runs"
                ) from exc
            settings = HttpTaskSettings(ca_file=self._settings.ca_file)
            self._outbound = module.Outbound(self._guard, settings)
        assert self._outbound is not None
        return self._outbound


class _Door:
    """How many deliveries of an endpoint are under way here, and whether it rests."""

    def __init__(self) -> None:
        self.running = 0
        self.failures = 0
        self.rests_until: datetime | None = None

    @contextmanager
    def passed(self, most: int, rng: random.Random) -> "Generator[None]":
        """Inside the block a slot is taken; Snooze where there is none."""
        rests = self.rests_until is not None and current_job().now() < self.rests_until
        # When the rest is over, one goes first.
        room = 1 if self.failures >= _FAILURES else most
        if rests or self.running >= room:
            why = "the endpoint keeps failing" if rests else "the endpoint is busy"
            raise Snooze(rng.uniform(2.0, 8.0), reason=why)
        self.running += 1
        try:
            yield
        finally:
            self.running -= 1

    def failed(self, now: datetime) -> None:
        self.failures += 1
        if self.failures >= _FAILURES:
            self.rests_until = now + _REST


def _micros(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(microseconds=1)
