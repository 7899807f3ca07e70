"""The model's answer to producers."""

from collections.abc import Sequence

from longshore.core.event import Name
from longshore.core.job import Job, JobId, NewJob, Submitted, UniqueUntil, Verdict
from longshore.core.limit_settings import rank
from longshore.core.state import State
from longshore.core.submission import check
from longshore.errors import QueueFullError
from longshore.testing.model.row import Row
from longshore.testing.model.store import Store, Used

__all__ = ["ModelProducer", "accept", "refuse_if_full"]

WAITING = {State.SCHEDULED, State.READY}


class ModelProducer:
    """Puts jobs in."""

    _store: Store

    async def submit(
        self,
        jobs: Sequence[NewJob],
        *,
        independent: bool = False,
        max_wait: float | None = None,
    ) -> list[Submitted]:
        """See `longshore.contract.Producer`."""
        check(jobs)
        refusals = {job.id: why for job in jobs if (why := _refusal(self._store, job))}
        if not independent:
            refuse_if_full(self._store, jobs)
        answers = [
            Submitted(new.id, Verdict.FULL) if new.id in refusals else accept(self._store, new)
            for new in jobs
        ]
        self._store.commit()
        return answers


def refuse_if_full(store: Store, jobs: Sequence[NewJob]) -> None:
    """Return if the jobs may come in, else QueueFullError."""
    for job in jobs:
        if refusal := _refusal(store, job):
            raise refusal


def _refusal(store: Store, new: NewJob) -> QueueFullError | None:
    settings = store.effective(new.queue)
    if settings.max_depth is None and settings.max_depth_per_tenant is None:
        return None
    if new.id in store.rows or (new.tenant, new.idempotency_key or "") in store.keys:
        return None
    waiting = [row.job for row in store.rows.values() if row.job.state in WAITING]
    there = [job.tenant for job in waiting if job.queue == new.queue]
    if settings.max_depth is not None and len(there) >= settings.max_depth:
        return QueueFullError(new.queue, 1.0)
    most = settings.max_depth_per_tenant
    if most is not None and there.count(new.tenant) >= most:
        return QueueFullError(new.queue, 1.0, tenant=new.tenant)
    return None


def accept(store: Store, new: NewJob) -> Submitted:
    """Store one job, or say which job stands for it."""
    now = store.now()
    used = store.keys.get((new.tenant, new.idempotency_key or ""))
    owner = store.rows[new.id].job.tenant if new.id in store.rows else None
    if owner == new.tenant:
        job = store.rows[new.id].job
        is_by_key = used is not None and used.job_id == new.id
        times = used.times if used and is_by_key else (job.created_at, job.run_at)
        return Submitted(new.id, Verdict.REPEATED, *times)
    if used is not None:
        if used.fingerprint == new.fingerprint:
            return Submitted(used.job_id, Verdict.REPEATED, *used.times)
        return Submitted(used.job_id, Verdict.CONFLICT)
    if owner is not None:
        return Submitted(new.id, Verdict.TAKEN)
    if new.unique_key is not None:
        holder = store.unique.get((new.tenant, new.unique_key))
        if holder is not None and _keeps_others_out(store, holder):
            return Submitted(holder, Verdict.UNIQUE)
        store.unique[new.tenant, new.unique_key] = new.id
    _put(store, new, now)
    job = store.rows[new.id].job
    times = (job.created_at, job.run_at)
    if new.idempotency_key is not None:
        used = Used(new.id, new.fingerprint, times)
        store.keys[new.tenant, new.idempotency_key] = used
    return Submitted(new.id, Verdict.ACCEPTED, *times)


def _keeps_others_out(store: Store, holder: JobId) -> bool:
    row = store.rows.get(holder)
    if row is None:
        return False
    is_running = row.job.state is State.RUNNING
    return row.job.state in WAITING or (is_running and row.unique_until is UniqueUntil.FINISHED)


def _put(store: Store, new: NewJob, now: int) -> None:
    # Order outlives clocks: if ours was set back, the job still arrived after the last one.
    store.last_arrival = arrival = max(now, store.last_arrival)
    store.last_handle += 1
    due = now + new.delay if new.run_at is None else new.run_at
    is_later = due > now
    job = Job(
        id=new.id,
        type=new.type,
        queue=new.queue,
        tenant=new.tenant,
        state=State.SCHEDULED if is_later else State.READY,
        priority=new.priority,
        payload=new.payload,
        run_at=due if is_later else arrival,
        created_at=arrival,
        max_attempts=new.max_attempts,
        timeout=new.timeout,
        delivery=0,
        attempt=0,
        failures=0,
        crashes=0,
        lapses=0,
        unique_key=new.unique_key,
        idempotency_key=new.idempotency_key,
        ordering_key=new.ordering_key,
        trace=new.trace,
        tags=new.tags,
    )
    settings = store.effective(new.queue)
    place = rank(settings, new.priority, job.run_at, punctual=is_later)
    store.rows[new.id] = Row(store.last_handle, job, place, new.unique_until)
    store.history[new.id] = []
    store.emit(Name.SUBMITTED, job, **({} if new.by is None else {"by": new.by}))
    if not is_later:
        store.lines.join(store.rows[new.id])
