"""The client for code that awaits."""

import asyncio
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Callable,
    Coroutine,
    Iterable,
    Mapping,
    Sequence,
)
from datetime import datetime, timedelta
from itertools import islice
from time import monotonic
from types import MappingProxyType, TracebackType
from typing import Any, Self, TypeVar, Unpack

import httpx

from longshore.client import requests, retrying
from longshore.client.batching import Batch
from longshore.client.documents import (
    JobOptions,
    Outcome,
    Submission,
    Submitted,
)
from longshore.client.requests import Ask, Listing
from longshore.client.retrying import Retrying
from longshore.client.waiting import Waiting
from longshore.core.account import DEFAULT_TENANT, Grant
from longshore.core.audit import Entry, Standing
from longshore.core.job import JobId, NewJob
from longshore.core.job import Submitted as Accepted
from longshore.core.latency import Slowness
from longshore.core.schedule import Schedule
from longshore.core.state import State
from longshore.core.view import BrokenRecord, Pause
from longshore.errors import LongshoreError
from longshore.operations.audit import AuditPage, AuditWhich
from longshore.operations.breakers import BreakerView
from longshore.operations.bulk import Tally
from longshore.operations.declarations import Declarations
from longshore.operations.events import Heard
from longshore.operations.fields import MOST_LISTED
from longshore.operations.findings import Diagnosis
from longshore.operations.job_documents import AttemptView, JobDocument
from longshore.operations.jobs import Explanation, JobChange, Which
from longshore.operations.keys import KeyView, MintedView
from longshore.operations.lines import LineView, ReleasedLine
from longshore.operations.outbox import ConsumerView, QuarantinedView
from longshore.operations.queues import QueueView
from longshore.operations.schedule_documents import (
    Preview,
    SchedulePatch,
    ScheduleView,
    WholeSchedule,
)
from longshore.operations.schedules import ExtraJob, StoredSchedule
from longshore.operations.stats import Stats
from longshore.operations.tenants import TenantView
from longshore.operations.webhooks import (
    DeliveryView,
    NewWebhook,
    StartedDelivery,
    WebhookBody,
    WebhookPatch,
    WebhookView,
)
from longshore.operations.workers import CrashCounts, WorkerView
from longshore.options import Duration, microseconds
from longshore.streaming.events import JobEvent
from longshore.wire.plain_http import PlainHttpGuard
from longshore.wire.sse_client import follow
from longshore.wire.streams import Trail

__all__ = ["Client"]

T = TypeVar("T")


class Client:
    """Jobs over HTTP.

    A call ends within `timeout` seconds, its retries included, in an answer or in a
    LongshoreError. Connections are kept; use it as a context manager, or close it.
    """

    def __init__(
        self,
        url: str,
        *,
        key: str | None = None,
        tenant: str | None = None,
        timeout: float = 30.0,
        plain_http: bool = False,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        """`tenant` is for an operator's key, which may speak for any of them.

        Over `http://` a key is sent to a public address only with `plain_http`: everyone on
        the way can read it.
        """
        self._url = retrying.place_of(url)
        self._timeout = timeout
        self.first_contact: float | None = None
        """Seconds for which a connection is tried before the service has answered once.

        None: for as long as any call may take.
        """
        self._has_answered = False
        guard = PlainHttpGuard(self._url, has_key=bool(key), is_allowed=plain_http)
        self._http = httpx.AsyncClient(
            **retrying.connection(self._url, key, tenant, timeout),
            event_hooks={"request": [guard.check]},
            transport=transport,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Let go of every connection. Safe to call twice."""
        await self._http.aclose()

    @property
    def url(self) -> str:
        """Where the service is, without the key."""
        return self._url

    async def now(self) -> datetime:
        """The clock of the service's store. EngineUnavailableError if it cannot be reached."""
        return (await self._send(requests.readiness())).now

    async def submit(
        self,
        type: str,
        payload: Mapping[str, Any] = MappingProxyType({}),
        **options: Unpack[JobOptions],
    ) -> Submitted:
        """Submit a job by its type name. It is durable when this returns.

        It goes under an idempotency key, one of its own if none is given, so a request whose
        answer was lost is sent again without harm. IdempotencyError if the key was used
        before with other content.
        """
        return await self._send(requests.submit(Submission(type, payload, options)))

    async def submit_many(self, jobs: Iterable[Submission]) -> list[Outcome]:
        """Submit many jobs, a thousand per request, or as many as the service says.

        Good ones go in beside bad ones.
        What a full queue, or a key that is under way, turns away is sent again under the same
        keys, until `timeout` seconds after its first request. An error that concerns all of
        them is raised if nothing is known of any; else it is the outcome of the rest.
        """
        found: list[Outcome] = []
        lost: LongshoreError | None = None
        is_answered = False
        waiting = iter(jobs)
        while chunk := list(islice(waiting, requests.MOST_JOBS)):
            batch = Batch(chunk)
            lost = lost or await self._send_all(batch)
            is_answered |= batch.is_answered
            if lost is not None:
                if not is_answered:
                    raise lost
                batch.fail(lost)
            found += batch.outcomes
        return found

    async def submit_jobs(
        self, jobs: Sequence[NewJob], *, independent: bool = False
    ) -> list[Accepted]:
        """Store jobs that have ids, all or none; with `independent` each for itself.

        All or none are those of one tenant in one request, which holds a thousand jobs, or as
        many as the service says.
        """
        found: dict[JobId, Accepted] = {}
        most = requests.MOST_JOBS
        for tenant in dict.fromkeys(job.tenant for job in jobs):
            waiting = [job for job in jobs if job.tenant == tenant]
            while waiting:
                sent = waiting[:most]
                ask = requests.submit_jobs(sent, independent=independent)
                tries = self._retrying(is_repeatable=True)
                outcome = await self._last(ask, tries)
                if retrying.is_good(outcome):
                    items = ask.read(outcome.status_code, outcome.content)
                    found |= {
                        job.id: requests.accepted(item)
                        for job, item in zip(sent, items, strict=True)
                    }
                    waiting = waiting[most:]
                elif (fewer := retrying.fewer_jobs(outcome, len(sent))) is not None:
                    most = fewer
                else:
                    raise self._failed(outcome)
        return [found[job.id] for job in jobs]

    async def get(self, job_id: str) -> JobDocument:
        """The job, or JobNotFoundError."""
        return await self._send(requests.get(job_id))

    async def explain(self, job_id: str) -> Explanation:
        """Why the job does not run, or JobNotFoundError."""
        return await self._send(requests.explain(job_id))

    async def attempts(self, job_id: str) -> list[AttemptView]:
        """The job's deliveries that ended, oldest first."""
        return await self._whole(requests.attempts(job_id))

    def result(self, job_id: str, timeout: Duration = 60.0) -> Coroutine[Any, Any, Any]:
        """What the task returned, once the job has succeeded.

        JobFailedError if it ended dead or cancelled, WaitTimeoutError if it has not ended in
        time; the job goes on.
        """
        return self._result(job_id, microseconds(timeout) / 1e6)

    def events(self, job_id: str, timeout: Duration | None = None) -> AsyncIterator[JobEvent]:
        """How the job stands, and then all that happens to it, up to its end.

        A lost connection is made again, and nothing is left out. WaitTimeoutError if it takes
        longer than `timeout`; the job goes on.
        """
        trail = self._trail(timeout, is_of_job=True)
        return self._events(requests.stream_of(job_id), trail)

    def follow(
        self,
        *,
        after: str = "",
        from_start: bool = False,
        timeout: Duration | None = None,
        **which: Unpack[Heard],
    ) -> AsyncGenerator[JobEvent]:
        """All that happens from now on, or after the event with this id, without an end.

        `from_start` begins with the oldest event that is kept. EventsExpiredError if what came
        after the id is no longer kept, WaitTimeoutError when the time is over.
        """
        trail = self._trail(timeout, after=after)
        query = requests.heard(which, from_start=from_start)
        return follow(self._http, requests.EVENTS, query, trail, self._failed)

    def kept_events(
        self, *, after: str = "", **which: Unpack[Heard]
    ) -> AsyncGenerator[JobEvent]:
        """The events that are kept, or those of them after the one with this id, to the end.

        Oldest first. EventsExpiredError if what came after the id is no longer kept.
        """
        trail = self._trail(None, after=after)
        query = requests.heard(which, from_start=True, is_endless=False)
        return follow(self._http, requests.EVENTS, query, trail, self._failed)

    async def cancel(self, job_id: str, reason: str = "cancelled over HTTP") -> JobDocument:
        """Cancel it if it waits, ask its worker to stop if it runs; the job as it is then."""
        return await self._send(requests.cancel(job_id, reason))

    async def retry(self, job_id: str) -> JobDocument:
        """Make a scheduled job ready."""
        return await self._send(requests.retry(job_id))

    async def jobs(self, **which: Unpack[Which]) -> AsyncIterator[JobDocument]:
        """Every job that fits, newest first, page by page."""
        async for job in self._pages(requests.jobs(), which):
            yield job

    async def dead(self, **which: Unpack[Which]) -> AsyncIterator[JobDocument]:
        """Every dead job that fits, newest first."""
        async for job in self._pages(requests.dead(), which):
            yield job

    async def replay(self, job_id: str) -> JobDocument:
        """Make a dead job ready again."""
        return await self._send(requests.replay(job_id))

    async def change_jobs(
        self, change: JobChange, job_ids: Sequence[str], *, reason: str = ""
    ) -> list[JobDocument]:
        """Change these jobs, all or none; the jobs as they are then, none when purged.

        JobNotFoundError or IllegalTransitionError leave everything as it was.
        """
        found = await self._send(requests.change_jobs(change, job_ids, reason))
        return found.changed

    async def change_matching(
        self,
        change: JobChange,
        which: Which,
        *,
        reason: str = "",
        is_dry: bool = False,
        rate: float | None = None,
        watch: Callable[[Tally], None] = lambda _: None,
    ) -> Tally:
        """Change all jobs that fit, at most `rate` a second; with `is_dry` only count them.

        However many there are: it takes as many requests as it needs, and `watch` hears after
        each how far it got. What others changed meanwhile is left out, and counted as missed.
        """
        tally = Tally()
        given: dict[str, Any] = {"dry_run": True} if is_dry else {"rate": rate}
        while not tally.is_complete:
            ask = requests.change_matching(change, which, reason, given)
            found = await self._send(ask)
            tally.matched += found.matched
            tally.missed += found.missed
            tally.done += found.done
            tally.is_complete = found.is_complete
            watch(tally)
            if is_dry or not found.done:
                break
        return tally

    async def purge(self, job_id: str) -> None:
        """Delete a dead job."""
        await self._send(requests.purge(job_id))

    async def queues(self, *, may_estimate: bool = False) -> list[QueueView]:
        """Every queue at a glance.

        Where very many jobs wait, `may_estimate` answers in a moment, with estimates.
        """
        return await self._whole(requests.queues(may_estimate=may_estimate))

    async def queue(self, name: str) -> QueueView:
        """The queue, or QueueNotFoundError where there are no jobs, settings or pauses."""
        return await self._send(requests.queue(name))

    async def set_queue(
        self, name: str, settings: Mapping[str, Any], *, forgets_declared: bool = False
    ) -> QueueView:
        """Override settings; None takes an override away. Workers heed it at once.

        `forgets_declared` drops what code once declared.
        """
        ask = requests.set_queue(name, settings, forgets_declared=forgets_declared)
        return await self._send(ask)

    async def pauses(self) -> list[Pause]:
        """What is not handed out: queues, types, and types in one queue."""
        return await self._whole(requests.pauses())

    async def pause_queue(self, name: str, *, type: str | None = None) -> QueueView:
        """Stop handing out its jobs, or those of one type."""
        return await self._send(requests.queue_verb(name, "pause", type))

    async def resume_queue(self, name: str, *, type: str | None = None) -> QueueView:
        """Undo exactly that pause."""
        return await self._send(requests.queue_verb(name, "resume", type))

    async def pause_type(self, name: str) -> None:
        """Stop handing out jobs of a type, in every queue."""
        await self._send(requests.type_verb(name, "pause"))

    async def resume_type(self, name: str) -> None:
        """Undo the pause of a type. One in a single queue stands until it is undone there."""
        await self._send(requests.type_verb(name, "resume"))

    async def broken_records(self) -> list[BrokenRecord]:
        """Stored records that cannot be decoded, which every list leaves out."""
        return await self._whole(requests.broken_records())

    async def workers(self) -> list[WorkerView]:
        """The workers that are connected."""
        return await self._whole(requests.workers())

    async def crash_counts(self) -> CrashCounts:
        """How many workers have crashed, and how many jobs were taken back from them."""
        return await self._send(requests.crash_counts())

    async def drain_worker(self, token: int) -> WorkerView:
        """Ask a worker to finish what it runs and to leave, or NotFoundError."""
        return await self._send(requests.drain_worker(token))

    async def declare(self, declared: Declarations) -> None:
        """Store what the code of an app declares: queues, breakers, schedules."""
        for ask in requests.declare(declared):
            await self._send(ask)

    async def breakers(self) -> list[BreakerView]:
        """Every type that has a circuit breaker, and its state, by type."""
        return await self._whole(requests.breakers())

    async def breaker(self, type: str) -> BreakerView:
        """The circuit breaker of a type; one without settings is closed."""
        return await self._send(requests.breaker(type))

    async def set_breaker(
        self, type: str, settings: Mapping[str, Any], *, forgets_declared: bool = False
    ) -> BreakerView:
        """Override settings; None takes an override away.

        `forgets_declared` drops what code once declared.
        """
        ask = requests.set_breaker(type, settings, forgets_declared=forgets_declared)
        return await self._send(ask)

    async def reset_breaker(self, type: str) -> BreakerView:
        """Close a type's circuit breaker now, and forget what it has counted."""
        return await self._send(requests.reset_breaker(type))

    async def blocked_lines(self, *, limit: int = 100) -> list[LineView]:
        """The first `limit` lines that dead jobs block, by queue, tenant and key."""
        return await self._whole(requests.blocked_lines(), limit)

    async def line(self, queue: str, key: str) -> LineView:
        """The jobs of an ordering key; an empty line where there are none."""
        return await self._send(requests.line(queue, key))

    async def release_line(self, queue: str, key: str) -> ReleasedLine:
        """Let a blocked line go on without its dead jobs, which stay dead."""
        return await self._send(requests.release_line(queue, key))

    async def consumers(self) -> list[ConsumerView]:
        """Every reader of the outbox for whom events are kept, by name."""
        return await self._whole(requests.consumers())

    async def forget_consumer(self, name: str) -> None:
        """Keep no more events for a consumer, or NotFoundError."""
        await self._send(requests.forget_consumer(name))

    async def quarantined(self, *, limit: int) -> list[QuarantinedView]:
        """The newest events that consumers could not hand on, at most so many."""
        return await self._first(requests.quarantined(), limit)

    async def audit(
        self, *, limit: int, cursor: str | None = None, **which: Unpack[AuditWhich]
    ) -> AuditPage:
        """Who did what, newest first. A page may be short, or empty, and not the last."""
        return await self._send(requests.audit(limit, cursor, which))

    async def audit_standing(self) -> Standing:
        """Where the audit log begins and ends."""
        return await self._send(requests.audit_standing())

    async def audit_entries(self, *, after: int, limit: int) -> list[Entry]:
        """Entries behind a number as they are stored, oldest first, at most so many.

        There may be fewer, and more behind them.
        """
        return await self._send(requests.audit_entries(after, limit))

    async def doctor(self) -> Diagnosis:
        """What the service finds of its queue and store, as `longshore doctor` does."""
        return await self._send(requests.doctor())

    async def schedules(self) -> list[ScheduleView]:
        """Every schedule, by name."""
        return await self._whole(requests.schedules())

    async def schedule(self, name: str, *, tenant: str | None = None) -> WholeSchedule:
        """The schedule with its last job and next due times, or ScheduleNotFoundError.

        `tenant` is for an operator's key, as it is wherever a schedule is named.
        """
        return await self._send(requests.schedule(name, tenant))

    async def create_schedule(self, name: str, type: str, **fields: Any) -> ScheduleView:
        """Create a schedule; its fields are those of POST /v1/schedules."""
        return await self._send(
            requests.create_schedule({"name": name, "type": type, **fields})
        )

    async def put_schedule(self, wanted: Schedule) -> StoredSchedule:
        """Create the schedule of its tenant, or replace the one of its name.

        With the same times it keeps its place; new times count from now. A pause stays.
        """
        return await self._send(requests.put_schedule(wanted))

    async def change_schedule(
        self, name: str, patch: SchedulePatch, *, tenant: str | None = None
    ) -> ScheduleView:
        """Change what the patch names of a schedule, or ScheduleNotFoundError."""
        return await self._send(requests.change_schedule(name, patch, tenant))

    async def pause_schedule(self, name: str, *, tenant: str | None = None) -> ScheduleView:
        """Stop firing it. Due times that pass meanwhile are skipped."""
        return await self._send(requests.schedule_verb(name, "pause", ScheduleView, tenant))

    async def resume_schedule(self, name: str, *, tenant: str | None = None) -> ScheduleView:
        """Fire it again, from the next due time on."""
        return await self._send(requests.schedule_verb(name, "resume", ScheduleView, tenant))

    async def run_schedule(self, name: str, *, tenant: str | None = None) -> ExtraJob:
        """Submit one of its jobs now, besides its due times, paused or not."""
        return await self._send(requests.schedule_verb(name, "run", ExtraJob, tenant))

    async def delete_schedule(self, name: str, *, tenant: str | None = None) -> None:
        """Remove it, or ScheduleNotFoundError. Jobs that it fired stay."""
        await self._send(requests.delete_schedule(name, tenant))

    async def preview_schedule(
        self,
        name: str,
        *,
        count: int = 10,
        after: datetime | None = None,
        tenant: str | None = None,
    ) -> Preview:
        """Its next due times, paused or not, from now or from `after` on."""
        found = await self._send(requests.preview_schedule(name, count, after, tenant))
        while found.due and len(found.due) < count:
            after = found.due[-1].due
            missing = count - len(found.due)
            more = await self._send(requests.preview_schedule(name, missing, after, tenant))
            if not more.due:
                break
            found = Preview(found.timezone, found.due + more.due)
        return found

    async def tenants(self) -> list[TenantView]:
        """Every tenant, by name."""
        return await self._whole(requests.tenants())

    async def tenant(self, name: str) -> TenantView:
        """The tenant, or TenantNotFoundError."""
        return await self._send(requests.tenant(name))

    async def create_tenant(self, name: str, settings: Mapping[str, Any]) -> TenantView:
        """Create a tenant; a ConfigError when there is one of its name that is not the same.

        Settings are the other fields of `POST /v1/tenants`.
        """
        return await self._send(requests.create_tenant(name, settings))

    async def change_tenant(self, name: str, settings: Mapping[str, Any]) -> TenantView:
        """Change these settings, or TenantNotFoundError. API processes heed it in seconds."""
        return await self._send(requests.change_tenant(name, settings))

    async def delete_tenant(self, name: str) -> None:
        """Delete it with its keys; TenantInUseError while it has jobs or schedules."""
        await self._send(requests.delete_tenant(name))

    async def keys(self, *, tenant: str | None = None) -> list[KeyView]:
        """Every key, or those of one tenant, oldest first, revoked ones too."""
        return await self._whole(requests.keys(tenant))

    async def create_key(
        self,
        grant: Grant,
        *,
        tenant: str | None = DEFAULT_TENANT,
        label: str = "",
        lifetime: timedelta | None = None,
    ) -> MintedView:
        """Make a key; None for an operator's, which stands for every tenant.

        What is returned is the only place where its text is.
        """
        return await self._send(requests.create_key(grant, tenant, label, lifetime))

    async def rotate_key(self, key_id: str, *, grace: timedelta) -> MintedView:
        """A new secret for the key; the one before stays good for `grace`.

        KeyNotFoundError, or KeyEndedError for a key that was revoked or has expired.
        """
        return await self._send(requests.rotate_key(key_id, grace))

    async def revoke_key(self, key_id: str) -> KeyView:
        """End the key for good, or KeyNotFoundError. API processes refuse it in seconds."""
        return await self._send(requests.revoke_key(key_id))

    async def webhooks(self) -> list[WebhookView]:
        """Every endpoint, oldest first."""
        return await self._whole(requests.webhooks())

    async def webhook(self, endpoint_id: str) -> WebhookView:
        """The endpoint, or WebhookNotFoundError."""
        return await self._send(requests.webhook(endpoint_id))

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
        body = WebhookBody(
            url=url, events=events, queues=queues, types=types, description=description
        )
        return await self._send(requests.create_webhook(body))

    async def change_webhook(self, endpoint_id: str, patch: WebhookPatch) -> WebhookView:
        """Change what the patch names of an endpoint, or WebhookNotFoundError."""
        return await self._send(requests.change_webhook(endpoint_id, patch))

    async def delete_webhook(self, endpoint_id: str) -> None:
        """Remove it, or WebhookNotFoundError. Deliveries that wait are not made."""
        await self._send(requests.delete_webhook(endpoint_id))

    async def rotate_webhook(self, endpoint_id: str, *, grace: timedelta) -> NewWebhook:
        """A new secret; for `grace` deliveries are signed with the one before, too."""
        return await self._send(requests.rotate_webhook(endpoint_id, grace))

    async def test_webhook(self, endpoint_id: str) -> StartedDelivery:
        """Send a message that says nothing, through all that others go through."""
        return await self._send(requests.test_webhook(endpoint_id))

    async def webhook_deliveries(
        self, endpoint_id: str, *, state: State | None = None, limit: int = 50
    ) -> list[DeliveryView]:
        """The latest of what was sent to an endpoint or is to be, newest first."""
        return await self._send(requests.webhook_deliveries(endpoint_id, state, limit))

    async def replay_delivery(self, endpoint_id: str, delivery_id: str) -> StartedDelivery:
        """Bring a message once more, or JobNotFoundError.

        A delivery that failed begins anew; of one that succeeded, another is made.
        IllegalTransitionError while it is under way.
        """
        return await self._send(requests.replay_delivery(endpoint_id, delivery_id))

    async def stats(self, queue: str | None = None) -> Stats:
        """The queue in numbers."""
        return await self._send(requests.stats(queue))

    async def slow_types(
        self,
        *,
        queue: str | None = None,
        type: str | None = None,
        tag: str | None = None,
        sample: int = 500,
    ) -> list[Slowness]:
        """Where the time of jobs went, the slowest types first.

        Of the newest jobs that fit, `sample` that succeeded and as many that are dead.
        """
        which = {"queue": queue, "type": type, "tag": tag, "sample": f"{sample}"}
        return await self._send(requests.slow_types(which))

    async def _result(self, job_id: str, seconds: float) -> Any:
        waiting = Waiting(job_id, seconds, now=monotonic())
        while True:
            job = await self._send(requests.get(job_id))
            if waiting.is_over(job):
                return job.result
            await asyncio.sleep(waiting.pause(job, monotonic()))

    async def _whole(self, listing: Listing[T], limit: int | None = None) -> list[T]:
        """All items of a list, or the first `limit` of them, page after page."""
        found, cursor = list[T](), ""
        while True:
            wanted = None if limit is None else limit - len(found)
            page = await self._send(listing(requests.page_of(wanted, cursor)))
            found += page.items
            if page.cursor is None or wanted == len(page.items):
                return found
            cursor = page.cursor

    async def _first(self, listing: Listing[T], limit: int) -> list[T]:
        """The first items of a list, at most so many."""
        found, cursor = list[T](), ""
        while True:
            query = {"limit": f"{min(limit - len(found), MOST_LISTED)}"}
            page = await self._send(listing({**query, "cursor": cursor} if cursor else query))
            found += page.items
            if page.cursor is None or len(found) >= limit:
                return found
            cursor = page.cursor

    async def _pages(
        self, listing: Listing[JobDocument], which: Which
    ) -> AsyncIterator[JobDocument]:
        query = {name: str(value) for name, value in which.items()}
        while True:
            found = await self._send(listing(query))
            for job in found.items:
                yield job
            if found.cursor is None:
                return
            query = {**query, "cursor": found.cursor}

    async def _send_all(self, batch: Batch) -> LongshoreError | None:
        """Send the jobs until none is worth another try, or return what came between."""
        tries = self._retrying(is_repeatable=True)
        pause: float | None = 0.0
        while pause is not None and (ask := batch.ask()) is not None:
            await asyncio.sleep(pause)
            outcome = await self._last(ask, tries)
            if not retrying.is_good(outcome):
                if not batch.shrink(retrying.most_jobs(outcome)):
                    return self._failed(outcome)
                pause = 0.0
                continue
            least = batch.take(retrying.read(ask, outcome, self._url))
            pause = 0.0 if least is None else tries.pause(least, monotonic())
        return None

    async def _send(self, ask: Ask[T]) -> T:
        tries = self._retrying(is_repeatable=ask.is_repeatable)
        outcome = await self._last(ask, tries)
        if not retrying.is_good(outcome):
            raise self._failed(outcome)
        return retrying.read(ask, outcome, self._url)

    async def _last(self, ask: Ask[Any], tries: Retrying) -> httpx.Response | httpx.HTTPError:
        """What is good, or not worth another try."""
        while True:
            outcome = await self._once(ask, tries.deadline - monotonic())
            self._has_answered |= isinstance(outcome, httpx.Response)
            if retrying.is_good(outcome):
                return outcome
            pause = tries.after(outcome, monotonic())
            if pause is None:
                return outcome
            await asyncio.sleep(pause)

    def _retrying(self, *, is_repeatable: bool) -> Retrying:
        now = monotonic()
        first = None if self._has_answered else self.first_contact
        return Retrying(
            now + self._timeout,
            is_repeatable,
            connect_deadline=None if first is None else now + first,
        )

    def _trail(
        self, timeout: Duration | None, *, after: str = "", is_of_job: bool = False
    ) -> Trail:
        trail = requests.trail(
            self._timeout, timeout, monotonic(), after=after, is_of_job=is_of_job
        )
        trail.first_contact = None if self._has_answered else self.first_contact
        return trail

    async def _events(self, path: str, trail: Trail) -> AsyncIterator[JobEvent]:
        async for event in follow(self._http, path, {}, trail, self._failed):
            yield event
            if event.is_last:
                return

    def _failed(self, outcome: httpx.Response | httpx.HTTPError) -> LongshoreError:
        return retrying.error_of(outcome, self._url)

    async def _once(self, ask: Ask[Any], seconds: float) -> httpx.Response | httpx.HTTPError:
        try:
            return await self._http.request(
                ask.method,
                ask.path,
                content=ask.body,
                params=dict(ask.query) or None,
                headers=retrying.headers_of(ask),
                timeout=max(seconds, 0.001),
            )
        except httpx.HTTPError as error:
            return error
