"""An engine that is observed: what passes through it is counted and timed.

Engines contain no instrumentation; this wraps any of them. Each thing is counted once, by the
process that talks to the store: a program that talks to an HTTP service leaves it to that.
"""

import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Generator, Sequence
from operator import attrgetter
from time import perf_counter
from typing import Any, TypeVar, cast

from longshore.contract import Engine, JobStore, Session
from longshore.contract.forwarding import ForwardingEngine, ForwardingSession
from longshore.core import ids
from longshore.core.job import Job, JobId, NewJob, Report, Settlement, Submitted, Verdict
from longshore.core.responses import Exchanged, Reference, Renewed
from longshore.core.schedule import Firing
from longshore.core.state import JobChange, State
from longshore.observe.metrics import Metrics
from longshore.wire.address import is_service

__all__ = ["metrics_of", "observed"]

log = logging.getLogger("longshore.submit")

S = TypeVar("S", bound=JobStore)

_line = attrgetter("queue", "type")
_queue = attrgetter("queue")
_TRACE = slice(3, 35)
"""The trace's own part of a W3C traceparent."""
_STORED_BEFORE = (Verdict.REPEATED, Verdict.UNIQUE)


def observed(engine: S, metrics: Metrics) -> S:
    """The same engine, whose calls are counted. What is asked of a service, that counts."""
    kind = _Companion if is_service(engine.url) else _Observed
    return cast("S", kind(cast("Engine", engine), metrics))


def metrics_of(engine: object) -> Metrics:
    """Where those who work with this engine count; nobody looks there if it is not observed."""
    while isinstance(engine, ForwardingEngine):
        if isinstance(engine, _Companion):
            return engine.metrics
        engine = engine.inner
    return Metrics()


class _Companion(ForwardingEngine):
    """An engine that has metrics with it."""

    def __init__(self, engine: Engine, metrics: Metrics) -> None:
        super().__init__(engine)
        self.metrics = metrics


class _Observed(_Companion):
    """What is not counted goes straight to the engine."""

    async def submit(
        self,
        jobs: Sequence[NewJob],
        *,
        independent: bool = False,
        max_wait: float | None = None,
    ) -> list[Submitted]:
        began = perf_counter()
        answers = await self._inner.submit(jobs, independent=independent, max_wait=max_wait)
        self.metrics.submit.observe(perf_counter() - began)
        self._count(jobs, answers)
        return answers

    def submit_on(
        self, connection: object, jobs: Sequence[NewJob]
    ) -> list[Submitted] | Awaitable[list[Submitted]]:
        # Counted when they are sent: of the caller's commit nobody hears.
        answers = super().submit_on(connection, jobs)
        if isinstance(answers, list):
            self._count(jobs, answers)
            return answers
        return _Then(
            cast("Coroutine[Any, Any, list[Submitted]]", answers),
            lambda found: self._count(jobs, found),
        )

    async def open_session(self, **terms: Any) -> Session:
        session = await self._inner.open_session(**terms)
        self.metrics.leases_acquired.add()
        return _ObservedSession(session, self.metrics)

    async def attach_session(self, token: int) -> Session:
        session = await self._inner.attach_session(token)
        return _ObservedSession(session, self.metrics)

    async def renew(self, token: int) -> Renewed:
        answer = await self._inner.renew(token)
        self.metrics.leases_renewed.add()
        return answer

    async def end_session(
        self, token: int, settlements: Sequence[Settlement], *, grace: int | None = None
    ) -> int:
        jobs = await self._inner.end_session(token, settlements, grace=grace)
        self.metrics.leases_expired.add(jobs > 0 and grace is not None)
        return jobs

    async def fire(self, firing: Firing) -> list[Submitted]:
        answers = await self._inner.fire(firing)
        if answers:
            self._count([one.job for one in firing.shots if one.job is not None], answers)
        return answers

    async def change(
        self,
        change: JobChange,
        job_ids: Sequence[JobId],
        *,
        reason: str = "",
        tenant: str | None = None,
        independent: bool = False,
    ) -> list[Job]:
        jobs = await self._inner.change(
            change, job_ids, reason=reason, tenant=tenant, independent=independent
        )
        if change != "cancel":
            return jobs
        # What runs is counted by its worker, when it has ended.
        ended = Counter(_line(one) for one in jobs if one.state is State.CANCELLED)
        for line, count in ended.items():
            self.metrics.jobs_cancelled.add(count, *line)
        return jobs

    def _count(self, jobs: Sequence[NewJob], answers: Sequence[Submitted]) -> None:
        metrics = self.metrics
        if len(jobs) == 1 and answers[0].verdict is Verdict.ACCEPTED:
            # Most programs submit one at a time.
            metrics.jobs_submitted.add(1, jobs[0].queue, jobs[0].type)
        else:
            self._count_many(jobs, answers)
        if log.isEnabledFor(logging.DEBUG):
            _tell(jobs, answers)

    def _count_many(self, jobs: Sequence[NewJob], answers: Sequence[Submitted]) -> None:
        metrics = self.metrics
        accepted = Counter(map(_line, jobs))
        others = [
            (job, one.verdict)
            for job, one in zip(jobs, answers, strict=False)
            if one.verdict is not Verdict.ACCEPTED
        ]
        for job, verdict in others:
            accepted[_line(job)] -= 1
            if verdict in _STORED_BEFORE:
                metrics.jobs_deduplicated.add(1, job.queue, job.type)
        for line, count in accepted.items():
            metrics.jobs_submitted.add(count, *line)


class _Then(Coroutine[Any, Any, list[Submitted]]):
    """A submission that is counted when it is done; who does not want it any more closes it."""

    def __init__(
        self,
        awaited: Coroutine[Any, Any, list[Submitted]],
        count: Callable[[list[Submitted]], None],
    ) -> None:
        self._awaited = awaited
        self._count = count

    def send(self, value: Any) -> Any:
        try:
            return self._awaited.send(value)
        except StopIteration as end:
            self._count(end.value)
            raise

    def throw(self, *error: Any) -> Any:
        return self._awaited.throw(*error)

    def close(self) -> None:
        self._awaited.close()

    def __await__(self) -> Generator[Any, Any, list[Submitted]]:
        answers = yield from self._awaited.__await__()
        self._count(answers)
        return answers


class _ObservedSession(ForwardingSession):
    def __init__(self, session: Session, metrics: Metrics) -> None:
        super().__init__(session)
        self._metrics = metrics

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
        metrics, began = self._metrics, perf_counter()
        answer = await self._inner.exchange(
            number,
            started=started,
            progress=progress,
            settlements=settlements,
            want=want,
            queues=queues,
        )
        seconds = perf_counter() - began
        if want:
            self._count(answer, seconds)
        if settlements:
            metrics.settle.observe(seconds)
            metrics.stale_settles_rejected.add(len(answer.stale))
        return answer

    async def claim_at_wakeup(self, number: int, **terms: Any) -> Exchanged | None:
        began = perf_counter()
        answer = await super().claim_at_wakeup(number, **terms)
        if answer is not None:
            self._count(answer, perf_counter() - began - answer.waited)
        return answer

    def _count(self, answer: Exchanged, seconds: float) -> None:
        metrics = self._metrics
        metrics.claim.observe(seconds)
        for queue, count in Counter(map(_queue, answer.claims)).items():
            metrics.jobs_claimed.add(count, queue)

    async def renew(self, **terms: Any) -> Renewed:
        answer = await self._inner.renew(**terms)
        self._metrics.leases_renewed.add()
        return answer


def _tell(jobs: Sequence[NewJob], answers: Sequence[Submitted]) -> None:
    for job, one in zip(jobs, answers, strict=False):
        facts = {"job": ids.text(one.id), "type": job.type, "queue": job.queue}
        if job.trace is not None:
            facts["trace"] = job.trace[_TRACE]
        log.debug("job submitted", extra=facts | {"verdict": str(one.verdict)})
