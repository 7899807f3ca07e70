"""An engine whose submits and exchanges are told to OpenTelemetry.

One span per call, however many jobs it carries: at 50,000 jobs/s that is some hundred spans.
"""

from collections.abc import Awaitable, Sequence
from typing import Any

from msgspec.structs import replace
from opentelemetry.context import Context
from opentelemetry.trace import NonRecordingSpan, Span, set_span_in_context

from longshore.contract import Engine, Session
from longshore.contract.forwarding import ForwardingEngine, ForwardingSession
from longshore.core import ids
from longshore.core.job import Claim, NewJob, Report, Settlement, Submitted
from longshore.core.responses import Exchanged, Reference
from longshore.runtime.clock import SECOND, SystemClock
from longshore.tracing import contexts, spans

__all__ = ["TracedEngine", "TracedSession"]

_CLOCK = SystemClock()
_MOST_HELD = 100_000
_ROOT = Context()


class TracedEngine(ForwardingEngine):
    """Stamps jobs with the span that submitted them; what is not about jobs passes through."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._client = spans.client()

    async def submit(
        self,
        jobs: Sequence[NewJob],
        *,
        independent: bool = False,
        max_wait: float | None = None,
    ) -> list[Submitted]:
        """Submit, inside a span."""
        if not jobs:
            return []
        span, stamped = self._stamp(jobs)
        try:
            return await self._inner.submit(stamped, independent=independent, max_wait=max_wait)
        except BaseException as error:
            spans.fail(span, type(error).__name__)
            raise
        finally:
            span.end()

    def submit_on(
        self, connection: object, jobs: Sequence[NewJob]
    ) -> list[Submitted] | Awaitable[list[Submitted]]:
        """The same in the caller's transaction. The span ends before what is awaited does."""
        if not jobs:
            return super().submit_on(connection, jobs)
        span, stamped = self._stamp(jobs)
        try:
            return super().submit_on(connection, stamped)
        except BaseException as error:
            spans.fail(span, type(error).__name__)
            raise
        finally:
            span.end()

    async def open_session(
        self,
        *,
        worker: str,
        queues: Sequence[str],
        types: Sequence[str],
        lease: int,
        owner: str = "",
    ) -> Session:
        """A session that tells of its exchanges, unless a service asks on behalf of others."""
        session = await self._inner.open_session(
            worker=worker, queues=queues, types=types, lease=lease, owner=owner
        )
        if owner:
            return session
        return TracedSession(session, worker)

    def _stamp(self, jobs: Sequence[NewJob]) -> tuple[Span, list[NewJob]]:
        """The span of a submit, and the jobs with its context.

        Where all jobs come from one place, the span goes on from there. Where they come from
        several, as in a batch of requests, each keeps its own, and the span is linked to them.
        """
        traces = {job.trace for job in jobs}
        only = next(iter(traces)) if len(traces) == 1 else None
        parent = contexts.parse(only)
        attributes: dict[str, str | int] = {"messaging.client.id": self._client}
        if len(jobs) == 1:
            attributes["messaging.message.id"] = ids.text(jobs[0].id)
        else:
            attributes["messaging.batch.message_count"] = len(jobs)
        span = spans.start(
            "send",
            {job.queue for job in jobs},
            context=parent and set_span_in_context(NonRecordingSpan(parent), _ROOT),
            links=contexts.links(traces) if len(traces) > 1 else (),
            attributes=attributes,
        )
        context = span.get_span_context()
        if not context.is_valid:
            return span, list(jobs)
        told = contexts.written(context)
        return span, [
            replace(job, trace=told) if job.trace in (None, only) else job for job in jobs
        ]


class TracedSession(ForwardingSession):
    """A worker's session: one span for what an exchange claims, one for what it settles."""

    def __init__(self, session: Session, worker: str) -> None:
        super().__init__(session)
        self._worker = worker
        self._held: dict[Reference, tuple[str, str | None]] = {}
        """By claim, its queue and the context of its creation."""

    async def exchange(
        self,
        number: int,
        *,
        started: Sequence[Reference] = (),
        progress: Sequence[Report] = (),
        settlements: Sequence[Settlement] = (),
        want: int = 0,
        queues: Sequence[str] | None = None,
    ) -> Exchanged:
        """Exchange, and tell of it afterwards: only then is it known what was claimed."""
        begun, error = _CLOCK.now(), ""
        claims: Sequence[Claim] = ()
        try:
            answer = await self._inner.exchange(
                number,
                started=started,
                progress=progress,
                settlements=settlements,
                want=want,
                queues=queues,
            )
            claims = answer.claims
        except BaseException as raised:
            error = type(raised).__name__
            raise
        else:
            return answer
        finally:
            self._tell(begun, settlements, claims, error)

    async def claim_at_wakeup(self, number: int, **terms: Any) -> Exchanged | None:
        """Claim, and tell of it afterwards, without the time in which there was no work."""
        begun = _CLOCK.now()
        answer = await super().claim_at_wakeup(number, **terms)
        if answer is not None:
            self._tell(begun + int(answer.waited * SECOND), (), answer.claims, "")
        return answer

    def _tell(
        self,
        begun: int,
        settlements: Sequence[Settlement],
        claims: Sequence[Claim],
        error: str,
    ) -> None:
        held = self._held
        if settlements:
            ended = [
                found
                for one in settlements
                if (found := held.get((one.handle, one.delivery))) is not None
            ]
            self._span("settle", begun, ended, error)
            if not error:
                for one in settlements:
                    held.pop((one.handle, one.delivery), None)
        if claims:
            if len(held) > _MOST_HELD:
                # What never came back: lost with a lease, or taken by someone else.
                held.clear()
            taken = [(claim.queue, claim.trace) for claim in claims]
            for claim, facts in zip(claims, taken, strict=True):
                held[claim.handle, claim.delivery] = facts
            self._span("receive", begun, taken, error)

    def _span(
        self, operation: str, begun: int, jobs: Sequence[tuple[str, str | None]], error: str
    ) -> None:
        traces = [trace for _, trace in jobs]
        if not contexts.is_told(traces):
            return
        span = spans.start(
            operation,
            {queue for queue, _ in jobs},
            context=_ROOT,
            links=contexts.links(traces),
            attributes={
                "messaging.client.id": self._worker,
                "messaging.batch.message_count": len(jobs),
            },
            start_ns=begun * 1_000,
        )
        if error:
            spans.fail(span, error)
        span.end(_CLOCK.now() * 1_000)
