"""The model's answer to people and APIs."""

from collections import Counter
from collections.abc import Sequence

from longshore.contract import (
    Fleet,
    JobChange,
    JobFilter,
    Page,
    QueueCounts,
    SessionView,
)
from longshore.core import audit_record, circuit_breaker
from longshore.core.event import Name
from longshore.core.job import Attempt, Job, JobId
from longshore.core.state import State, check_change
from longshore.core.view import JobOrder
from longshore.errors import (
    ConfigError,
    IllegalTransitionError,
    JobNotFoundError,
)
from longshore.runtime.actor import actor, signed
from longshore.testing.model.row import Row
from longshore.testing.model.store import Store

__all__ = ["ModelJobs"]


class ModelJobs:
    """Shows the queue, and takes orders."""

    _store: Store

    async def get(self, job_id: JobId, *, tenant: str | None = None) -> Job:
        """See `longshore.contract.Jobs`."""
        self._store.now()
        return circuit_breaker.parked(
            [self._store.row(job_id, tenant).job], self._store.standings
        )[0]

    async def find(self, which: JobFilter, *, limit: int, cursor: str | None = None) -> Page:
        """See `longshore.contract.Jobs`."""
        self._store.now()
        begin = f"{self._store.last_handle + 1} {which}"
        before, _, made_for = (begin if cursor is None else cursor).partition(" ")
        if made_for != str(which):
            raise ConfigError("this cursor belongs to another filter; begin again without it")
        found = [
            row
            for row in reversed(self._store.rows.values())
            if row.handle < int(before) and _matches(row.job, which)
        ]
        page = found[:limit]
        is_last = len(page) == len(found)
        jobs = circuit_breaker.parked([row.job for row in page], self._store.standings)
        return Page(jobs, None if is_last else f"{page[-1].handle} {which}")

    async def attempts(self, job_id: JobId, *, tenant: str | None = None) -> list[Attempt]:
        """See `longshore.contract.Jobs`."""
        self._store.now()
        return list(self._store.history[self._store.row(job_id, tenant).job.id])

    async def counts(
        self, *, tenant: str | None = None, may_estimate: bool = False
    ) -> list[QueueCounts]:
        """See `longshore.contract.Jobs`."""
        self._store.now()
        jobs = [
            row.job for row in self._store.rows.values() if tenant in (None, row.job.tenant)
        ]
        paused = {queue for queue, type_name in self._store.pauses if queue and not type_name}
        said = set(self._store.flows)
        names = sorted({job.queue for job in jobs} | paused | said)
        pruned = Counter[str]() if tenant is not None else self._store.pruned
        return [
            _count(
                name,
                [job for job in jobs if job.queue == name],
                is_paused=name in paused,
                pruned=pruned[name],
            )
            for name in names
        ]

    async def sessions(self) -> Fleet:
        """See `longshore.contract.Jobs`."""
        now = self._store.now()
        found = [
            SessionView(
                token=lease.token,
                worker=lease.worker,
                queues=lease.queues,
                types=lease.types,
                opened_at=lease.opened_at,
                renewed_at=lease.renewed_at,
                expires_at=lease.expires_at,
                holding=len(self._store.held_by(lease.token)),
                is_quiet=lease.is_quiet,
            )
            for lease in self._store.leases.values()
            if lease.expires_at > now
        ]
        return Fleet(now, found, self._store.losses)

    async def change(
        self,
        change: JobChange,
        job_ids: Sequence[JobId],
        *,
        reason: str = "",
        tenant: str | None = None,
        independent: bool = False,
    ) -> list[Job]:
        """See `longshore.contract.Jobs`."""
        self._store.now()
        order = JobOrder(change, job_ids, reason, tenant, independent, actor())
        rows = self._allowed(order)
        if rows:
            done = audit_record.jobs_changed(order, [row.job.id for row in rows])
            self._store.record(done)
        for row in rows:
            self._change(order, row)
        self._store.commit()
        jobs = {row.job.id: row.job for row in rows}
        found = [jobs[job_id] for job_id in job_ids if job_id in jobs]
        return (
            found if change == "purge" else circuit_breaker.parked(found, self._store.standings)
        )

    async def drain_session(self, token: int) -> None:
        """See `longshore.contract.Jobs`."""
        self._store.now()
        if token in self._store.leases:
            self._store.leases[token].is_quiet = True
            self._store.record(signed(audit_record.worker_drained(token)))

    def _allowed(self, order: JobOrder) -> list[Row]:
        """The jobs, each once, if all can be changed so; with `independent` those that can."""
        rows: list[Row] = []
        for job_id in dict.fromkeys(order.job_ids):
            try:
                row = self._store.row(job_id, order.tenant)
                check_change(row.job.state, order.change)
            except (JobNotFoundError, IllegalTransitionError):
                if order.independent:
                    continue
                raise
            rows.append(row)
        return rows

    def _change(self, order: JobOrder, row: Row) -> None:
        match order.change:
            case "cancel":
                self._cancel(row, order.reason)
            case "replay":
                self._replay(row)
            case "retry":
                row.change(state=State.READY, run_at=self._store.now())
                self._store.emit(Name.READY, row.job)
                if not row.is_inside:
                    self._store.lines.join(row)
            case "purge":
                self._store.forget(row, order.actor)

    def _cancel(self, row: Row, reason: str) -> None:
        if row.job.state is not State.RUNNING:
            row.change(state=State.CANCELLED, finished_at=self._store.now(), reason=reason)
            self._store.emit(Name.CANCELLED, row.job, reason=reason)
            self._store.lines.leave(row)
        elif not row.job.cancel_requested:
            row.change(cancel_requested=True, reason=reason)
            self._store.emit(Name.CANCEL_REQUESTED, row.job, reason=reason)
            for heeding in self._store.heeding:
                heeding.set()

    def _replay(self, row: Row) -> None:
        row.change(
            state=State.READY,
            run_at=self._store.now(),
            failures=0,
            crashes=0,
            lapses=0,
            started_at=None,
            finished_at=None,
            result=None,
            reason=None,
            progress=None,
        )
        self._store.emit(Name.REPLAYED, row.job)
        self._store.lines.join(row)


def _matches(job: Job, which: JobFilter) -> bool:
    return (
        which.tenant in (None, job.tenant)
        and which.queue in (None, job.queue)
        and which.type in (None, job.type)
        and which.state in (None, job.state)
        and (which.tag is None or which.tag in job.tags)
    )


def _count(name: str, jobs: list[Job], *, is_paused: bool, pruned: int) -> QueueCounts:
    in_state = {state: [job for job in jobs if job.state is state] for state in State}
    ready = in_state[State.READY]
    running = in_state[State.RUNNING]
    return QueueCounts(
        queue=name,
        is_paused=is_paused,
        ready=len(ready),
        parked=sum(job.parked is not None for job in ready),
        scheduled=len(in_state[State.SCHEDULED]),
        buffered=sum(job.started_at is None for job in running),
        running=len(running),
        succeeded=len(in_state[State.SUCCEEDED]),
        dead=len(in_state[State.DEAD]),
        cancelled=len(in_state[State.CANCELLED]),
        pruned=pruned,
        oldest_ready_at=min((job.run_at for job in ready if job.parked is None), default=None),
    )
