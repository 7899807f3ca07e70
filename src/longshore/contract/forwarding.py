"""Engines and sessions that pass every call on to another, for wrappers to begin with.

A wrapper overrides what it is about. A type checker sees when the contract has a member that is
not forwarded, or one whose arguments have changed.
"""

from collections.abc import Awaitable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import cast

from longshore.contract import (
    Completion,
    DueSchedules,
    Engine,
    Exchanged,
    Fleet,
    JobChange,
    JobFilter,
    Lapsed,
    Page,
    Promoted,
    PromptSession,
    QueueCounts,
    Reference,
    Renewed,
    Report,
    Retention,
    Session,
    StandaloneSession,
    Traits,
    TransactionalProducer,
    TransactionalSession,
    Wakeup,
)
from longshore.contract.records import (
    Delete,
    Found,
    Put,
    RecordFilter,
    RecordPage,
    Ref,
    Written,
)
from longshore.core.audit import Chained, Entry, Kind, Standing
from longshore.core.audit_record import AuditRecord
from longshore.core.consumer import Consumer, Cursor
from longshore.core.event import EventBatch, Span
from longshore.core.job import Attempt, Held, Job, JobId, NewJob, Settlement, Submitted
from longshore.core.ordering_key import Line
from longshore.core.schedule import Firing
from longshore.core.token_bucket import Borrowed

__all__ = ["ForwardingEngine", "ForwardingSession"]


class ForwardingSession:
    """A session that is another. What only some engines have, that one has to have."""

    def __init__(self, inner: Session) -> None:
        """`inner` gets all calls."""
        self._inner = inner

    @property
    def token(self) -> int:
        """Forwarded."""
        return self._inner.token

    @property
    def lease(self) -> int:
        """Forwarded."""
        return self._inner.lease

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
        """Forwarded."""
        return await self._inner.exchange(
            number,
            started=started,
            progress=progress,
            settlements=settlements,
            want=want,
            queues=queues,
        )

    async def renew(
        self,
        *,
        number: int = 0,
        held: Sequence[Reference] | None = None,
        started: Sequence[Reference] = (),
    ) -> Renewed:
        """Forwarded."""
        return await self._inner.renew(number=number, held=held, started=started)

    async def wait(self, seconds: float, *, until: Wakeup = "work") -> None:
        """Forwarded."""
        await self._inner.wait(seconds, until=until)

    async def close(self) -> None:
        """Forwarded."""
        await self._inner.close()

    async def claim_at_wakeup(
        self, number: int, *, want: int, queues: Sequence[str] | None, seconds: float
    ) -> Exchanged | None:
        """Forwarded."""
        return await cast("PromptSession", self._inner).claim_at_wakeup(
            number, want=want, queues=queues, seconds=seconds
        )

    def cancel_wait(self) -> None:
        """Forwarded."""
        cast("PromptSession", self._inner).cancel_wait()

    async def attempts(self, job_id: JobId) -> list[Attempt]:
        """Forwarded."""
        return await cast("StandaloneSession", self._inner).attempts(job_id)

    async def has_waiting_jobs(self) -> bool:
        """Forwarded."""
        return await cast("StandaloneSession", self._inner).has_waiting_jobs()

    def transaction(
        self, reference: Reference, *, started_at: int
    ) -> AbstractAsyncContextManager[Completion]:
        """Forwarded."""
        return cast("TransactionalSession", self._inner).transaction(
            reference, started_at=started_at
        )


class ForwardingEngine:
    """An engine that is another."""

    def __init__(self, inner: Engine) -> None:
        """`inner` gets all calls."""
        self._inner = inner

    @property
    def inner(self) -> Engine:
        """What gets the calls."""
        return self._inner

    @property
    def traits(self) -> Traits:
        """Forwarded."""
        return self._inner.traits

    @property
    def url(self) -> str:
        """Forwarded."""
        return self._inner.url

    async def open_session(
        self,
        *,
        worker: str,
        queues: Sequence[str],
        types: Sequence[str],
        lease: int,
        owner: str = "",
    ) -> Session:
        """Forwarded."""
        return await self._inner.open_session(
            worker=worker, queues=queues, types=types, lease=lease, owner=owner
        )

    async def attach_session(self, token: int) -> Session:
        """Forwarded."""
        return await self._inner.attach_session(token)

    async def now(self) -> int:
        """Forwarded."""
        return await self._inner.now()

    async def ping(self) -> None:
        """Forwarded."""
        await self._inner.ping()

    async def close(self) -> None:
        """Forwarded."""
        await self._inner.close()

    async def submit(
        self,
        jobs: Sequence[NewJob],
        *,
        independent: bool = False,
        max_wait: float | None = None,
    ) -> list[Submitted]:
        """Forwarded."""
        return await self._inner.submit(jobs, independent=independent, max_wait=max_wait)

    async def renew(self, token: int) -> Renewed:
        """Forwarded."""
        return await self._inner.renew(token)

    async def held(self, token: int) -> list[Held] | None:
        """Forwarded."""
        return await self._inner.held(token)

    async def end_session(
        self, token: int, settlements: Sequence[Settlement], *, grace: int | None = None
    ) -> int:
        """Forwarded."""
        return await self._inner.end_session(token, settlements, grace=grace)

    async def promote(self, *, limit: int) -> Promoted:
        """Forwarded."""
        return await self._inner.promote(limit=limit)

    async def expired_sessions(self, *, grace: int, limit: int) -> list[Lapsed]:
        """Forwarded."""
        return await self._inner.expired_sessions(grace=grace, limit=limit)

    async def due_schedules(self, *, limit: int) -> DueSchedules:
        """Forwarded."""
        return await self._inner.due_schedules(limit=limit)

    async def fire(self, firing: Firing) -> list[Submitted]:
        """Forwarded."""
        return await self._inner.fire(firing)

    async def prune(self, retention: Retention, *, limit: int) -> int:
        """Forwarded."""
        return await self._inner.prune(retention, limit=limit)

    async def get(self, job_id: JobId, *, tenant: str | None = None) -> Job:
        """Forwarded."""
        return await self._inner.get(job_id, tenant=tenant)

    async def find(self, which: JobFilter, *, limit: int, cursor: str | None = None) -> Page:
        """Forwarded."""
        return await self._inner.find(which, limit=limit, cursor=cursor)

    async def attempts(self, job_id: JobId, *, tenant: str | None = None) -> list[Attempt]:
        """Forwarded."""
        return await self._inner.attempts(job_id, tenant=tenant)

    async def counts(
        self, *, tenant: str | None = None, may_estimate: bool = False
    ) -> list[QueueCounts]:
        """Forwarded."""
        return await self._inner.counts(tenant=tenant, may_estimate=may_estimate)

    async def sessions(self) -> Fleet:
        """Forwarded."""
        return await self._inner.sessions()

    async def change(
        self,
        change: JobChange,
        job_ids: Sequence[JobId],
        *,
        reason: str = "",
        tenant: str | None = None,
        independent: bool = False,
    ) -> list[Job]:
        """Forwarded."""
        return await self._inner.change(
            change, job_ids, reason=reason, tenant=tenant, independent=independent
        )

    async def drain_session(self, token: int) -> None:
        """Forwarded."""
        await self._inner.drain_session(token)

    async def line(self, queue: str, key: str, *, tenant: str = "default") -> Line | None:
        """Forwarded."""
        return await self._inner.line(queue, key, tenant=tenant)

    async def blocked_lines(self, *, limit: int, tenant: str | None = None) -> list[Line]:
        """Forwarded."""
        return await self._inner.blocked_lines(limit=limit, tenant=tenant)

    async def release_line(self, queue: str, key: str, *, tenant: str = "default") -> bool:
        """Forwarded."""
        return await self._inner.release_line(queue, key, tenant=tenant)

    async def get_records(self, refs: Sequence[Ref], *, with_tenants: bool = False) -> Found:
        """Forwarded."""
        return await self._inner.get_records(refs, with_tenants=with_tenants)

    async def list_records(
        self, which: RecordFilter, *, limit: int, cursor: str | None = None
    ) -> RecordPage:
        """Forwarded."""
        return await self._inner.list_records(which, limit=limit, cursor=cursor)

    async def write_records(
        self, changes: Sequence[Put | Delete], *, audit: AuditRecord | None
    ) -> Written:
        """Forwarded."""
        return await self._inner.write_records(changes, audit=audit)

    async def borrow(self, name: str, *, rate: float, burst: int, want: int) -> Borrowed:
        """Forwarded."""
        return await self._inner.borrow(name, rate=rate, burst=burst, want=want)

    async def events(
        self, *, after: int, limit: int, cursor: Cursor | None = None
    ) -> list[EventBatch]:
        """Forwarded."""
        return await self._inner.events(after=after, limit=limit, cursor=cursor)

    async def span(self) -> Span:
        """Forwarded."""
        return await self._inner.span()

    async def take_cursor(self, consumer: str, *, holder: str, lease: int) -> Cursor | None:
        """Forwarded."""
        return await self._inner.take_cursor(consumer, holder=holder, lease=lease)

    async def advance(
        self,
        cursor: Cursor,
        *,
        position: int,
        quarantined: Sequence[Put] = (),
        releases: bool = False,
    ) -> None:
        """Forwarded."""
        await self._inner.advance(
            cursor, position=position, quarantined=quarantined, releases=releases
        )

    async def consumers(self) -> list[Consumer]:
        """Forwarded."""
        return await self._inner.consumers()

    async def delete_consumer(self, name: str) -> bool:
        """Forwarded."""
        return await self._inner.delete_consumer(name)

    async def chain(
        self, *, limit: int, cursor: Cursor | None = None, after: int = 0
    ) -> Chained:
        """Forwarded."""
        return await self._inner.chain(limit=limit, cursor=cursor, after=after)

    async def audit_entries(
        self,
        *,
        limit: int,
        after: int | None = None,
        before: int | None = None,
        kind: Kind | None = None,
    ) -> list[Entry]:
        """Forwarded."""
        return await self._inner.audit_entries(
            limit=limit, after=after, before=before, kind=kind
        )

    async def audit_standing(self) -> Standing:
        """Forwarded."""
        return await self._inner.audit_standing()

    async def owner_of(self, token: int) -> str | None:
        """Forwarded."""
        return await self._inner.owner_of(token)

    async def migrate(self, *, max_wait: float = 60.0) -> list[str]:
        """Forwarded."""
        return await self._inner.migrate(max_wait=max_wait)

    def submit_on(
        self, connection: object, jobs: Sequence[NewJob]
    ) -> list[Submitted] | Awaitable[list[Submitted]]:
        """Forwarded."""
        return cast("TransactionalProducer", self._inner).submit_on(connection, jobs)
