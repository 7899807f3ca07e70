"""The client for code that awaits."""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterable, Mapping
from itertools import islice
from time import monotonic
from types import MappingProxyType, TracebackType
from typing import Any, Self, TypeVar, Unpack

import httpx

from longshore.api.dead import ReplayResult
from longshore.api.queues import QueueView, WorkerView
from longshore.api.recurrence import ScheduleView
from longshore.api.stats import Stats
from longshore.api.views import AttemptView
from longshore.client import asks, retrying
from longshore.client.asks import Ask, Listing
from longshore.client.batching import Batch
from longshore.client.documents import (
    Heard,
    JobDocument,
    JobOptions,
    Outcome,
    Submission,
    Submitted,
    Which,
)
from longshore.client.retrying import Retrying
from longshore.client.waiting import Waiting
from longshore.errors import LongshoreError
from longshore.options import Duration, microseconds
from longshore.streaming.telling import JobEvent
from longshore.wire.following import follow
from longshore.wire.plain_http import PlainHttpGuard
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
        return await self._send(asks.submit(Submission(type, payload, options)))

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
        while chunk := list(islice(waiting, asks.MOST_JOBS)):
            batch = Batch(chunk)
            lost = lost or await self._send_all(batch)
            is_answered |= batch.is_answered
            if lost is not None:
                if not is_answered:
                    raise lost
                batch.fail(lost)
            found += batch.outcomes
        return found

    async def get(self, job_id: str) -> JobDocument:
        """The job, or JobNotFoundError."""
        return await self._send(asks.get(job_id))

    async def attempts(self, job_id: str) -> list[AttemptView]:
        """The job's deliveries that ended, oldest first."""
        return await self._whole(asks.attempts(job_id))

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
        trail = asks.trail(self._timeout, timeout, monotonic(), is_of_job=True)
        return self._events(asks.stream_of(job_id), trail)

    def follow(
        self, *, after: str = "", timeout: Duration | None = None, **which: Unpack[Heard]
    ) -> AsyncIterator[JobEvent]:
        """All that happens from now on, or after the event with this id, without an end.

        EventsExpiredError if what came after it is no longer kept.
        """
        trail = asks.trail(self._timeout, timeout, monotonic(), after=after)
        return follow(self._http, "/v1/events", asks.heard(which), trail, self._failed)

    async def cancel(self, job_id: str, reason: str = "cancelled over HTTP") -> JobDocument:
        """Cancel it if it waits, ask its worker to stop if it runs; the job as it is then."""
        return await self._send(asks.cancel(job_id, reason))

    async def retry(self, job_id: str) -> JobDocument:
        """Make a scheduled job ready."""
        return await self._send(asks.retry(job_id))

    async def jobs(self, **which: Unpack[Which]) -> AsyncIterator[JobDocument]:
        """Every job that fits, newest first, page by page."""
        async for job in self._pages(asks.jobs(), which):
            yield job

    async def dead(self, **which: Unpack[Which]) -> AsyncIterator[JobDocument]:
        """Every dead job that fits, newest first."""
        async for job in self._pages(asks.dead(), which):
            yield job

    async def replay(self, job_id: str) -> JobDocument:
        """Make a dead job ready again."""
        return await self._send(asks.replay(job_id))

    async def replay_dead(
        self, *, limit: int | None = None, rate: float | None = None, **which: Unpack[Which]
    ) -> ReplayResult:
        """Make every dead job that fits ready again; at most so many, so many a second."""
        options = {"limit": limit, "rate": rate}
        given = {name: value for name, value in options.items() if value is not None}
        return await self._send(asks.replay_dead(which, given))

    async def purge(self, job_id: str) -> None:
        """Delete a dead job."""
        await self._send(asks.purge(job_id))

    async def queues(self) -> list[QueueView]:
        """Every queue at a glance."""
        return await self._whole(asks.queues())

    async def pause_queue(self, name: str, *, type: str | None = None) -> QueueView:
        """Stop handing out its jobs, or those of one type."""
        return await self._send(asks.queue_verb(name, "pause", type))

    async def resume_queue(self, name: str, *, type: str | None = None) -> QueueView:
        """Undo exactly that pause."""
        return await self._send(asks.queue_verb(name, "resume", type))

    async def workers(self) -> list[WorkerView]:
        """The workers that are connected."""
        return await self._whole(asks.workers())

    async def schedules(self) -> list[ScheduleView]:
        """Every schedule, by name."""
        return await self._whole(asks.schedules())

    async def create_schedule(self, name: str, type: str, **fields: Any) -> ScheduleView:
        """Create a schedule; its fields are those of POST /v1/schedules."""
        return await self._send(asks.put_schedule({"name": name, "type": type, **fields}))

    async def pause_schedule(self, name: str) -> ScheduleView:
        """Let it fire no more for now."""
        return await self._send(asks.schedule_verb(name, "pause", ScheduleView))

    async def resume_schedule(self, name: str) -> ScheduleView:
        """Let it fire again."""
        return await self._send(asks.schedule_verb(name, "resume", ScheduleView))

    async def run_schedule(self, name: str) -> Submitted:
        """Submit its job now, besides those that are due."""
        found = await self._send(asks.schedule_verb(name, "run", asks.JobHead))
        return Submitted(found.id, found.state)

    async def delete_schedule(self, name: str) -> None:
        """Remove it. Jobs it fired stay."""
        await self._send(asks.schedule_verb(name, None, asks.JobHead))

    async def stats(self, queue: str | None = None) -> Stats:
        """The queue in numbers."""
        return await self._send(asks.stats(queue))

    async def _result(self, job_id: str, seconds: float) -> Any:
        waiting = Waiting(job_id, seconds, now=monotonic())
        while True:
            job = await self._send(asks.get(job_id))
            if waiting.is_over(job):
                return job.result
            await asyncio.sleep(waiting.pause(job, monotonic()))

    async def _whole(self, listing: Listing[T]) -> list[T]:
        """All items of a list, page after page."""
        found, cursor = list[T](), ""
        while True:
            query = {**asks.WHOLE, "cursor": cursor} if cursor else asks.WHOLE
            page = await self._send(listing(query))
            found += page.items
            if page.cursor is None:
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
        tries = Retrying(monotonic() + self._timeout, is_repeatable=True)
        pause: float | None = 0.0
        while pause is not None and (ask := batch.ask()) is not None:
            await asyncio.sleep(pause)
            outcome = await self._last(ask, tries)
            if not retrying.is_good(outcome):
                if not batch.shrink(retrying.most_jobs(outcome)):
                    return self._failed(outcome)
                pause = 0.0
                continue
            least = batch.take(ask.read(outcome.status_code, outcome.content))
            pause = 0.0 if least is None else tries.pause(least, monotonic())
        return None

    async def _send(self, ask: Ask[T]) -> T:
        tries = Retrying(monotonic() + self._timeout, ask.is_repeatable)
        outcome = await self._last(ask, tries)
        if not retrying.is_good(outcome):
            raise self._failed(outcome)
        return ask.read(outcome.status_code, outcome.content)

    async def _last(self, ask: Ask[Any], tries: Retrying) -> httpx.Response | httpx.HTTPError:
        """What is good, or not worth another try."""
        while True:
            outcome = await self._once(ask, tries.deadline - monotonic())
            if retrying.is_good(outcome):
                return outcome
            pause = tries.after(outcome, monotonic())
            if pause is None:
                return outcome
            await asyncio.sleep(pause)

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
