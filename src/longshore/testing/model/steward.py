"""The model's answer to schedulers."""

from collections.abc import Sequence

from msgspec.structs import replace

from longshore.contract import Lapsed, Promoted, Retention
from longshore.contract.maintenance import DueRecord, DueSchedules
from longshore.contract.records import Kind, Ref
from longshore.core.event import Group, Name
from longshore.core.job import JobId, Settlement, Submitted
from longshore.core.schedule import Firing, Shot, check_firing
from longshore.core.state import LIVE, State, Verb, after
from longshore.testing.model.producer import accept, refuse_if_full
from longshore.testing.model.row import Row
from longshore.testing.model.store import Lease, Store

__all__ = ["ModelSteward"]


class ModelSteward:
    """Keeps the queue in order."""

    _store: Store

    async def promote(self, *, limit: int) -> Promoted:
        """See `longshore.contract.Steward`."""
        now = self._store.now()
        scheduled = sorted(
            (row for row in self._store.rows.values() if row.job.state is State.SCHEDULED),
            key=lambda row: (row.job.run_at, row.handle),
        )
        due = [row for row in scheduled if row.job.run_at <= now][:limit]
        for row in due:
            row.change(state=after(row.job.state, Verb.PROMOTE))
            self._store.emit(Name.READY, row.job)
            if not row.is_inside:
                self._store.lines.join(row)
        self._store.lines.stir()
        opened = self._store.lines.open(limit - len(due))
        self._store.commit()
        times = [row.job.run_at for row in scheduled[len(due) :][:1]]
        if (opens_at := self._store.lines.opens_at) is not None:
            times.append(opens_at)
        next_due = max(min(times) - now, 0) if times else None
        return Promoted(len(due) + opened, next_due)

    async def expired_sessions(self, *, grace: int, limit: int) -> list[Lapsed]:
        """See `longshore.contract.Steward`."""
        now = self._store.now()
        for lease in self._store.leases.values():
            lease.expires_at = min(lease.expires_at, now + lease.length)
        over = [lease for lease in self._store.leases.values() if self._is_over(lease, grace)]
        over.sort(key=lambda lease: (lease.expires_at, lease.token))
        return [
            Lapsed(lease.token, lease.worker, self._store.listed(lease.token))
            for lease in over[:limit]
        ]

    async def end_session(
        self, token: int, settlements: Sequence[Settlement], *, grace: int | None = None
    ) -> int:
        """See `longshore.contract.Keeper`."""
        self._store.now()
        lease = self._store.leases.get(token)
        if lease is None or (grace is not None and not self._is_over(lease, grace)):
            return 0
        return self._store.bury(token, settlements)

    async def due_schedules(self, *, limit: int) -> DueSchedules:
        """See `longshore.contract.Steward`."""
        now = self._store.now()
        due = sorted(
            (one.due, one.tenant, one.name, one)
            for one in self._store.records.values()
            if one.kind is Kind.SCHEDULE and one.due is not None and one.due <= now
        )
        found = [record for *_, record in due[:limit]]
        return DueSchedules(now, [DueRecord(it, self._is_live(it.last_job)) for it in found])

    async def fire(self, firing: Firing) -> list[Submitted]:
        """See `longshore.contract.Steward`."""
        check_firing(firing)
        self._store.now()
        ref = Ref(Kind.SCHEDULE, firing.name, firing.tenant)
        record = self._store.records.get(ref)
        if record is None or record.due != firing.expected:
            return []
        if firing.version not in (None, record.version):
            return []
        refuse_if_full(self._store, firing.jobs)
        answers = [answer for shot in firing.shots for answer in self._shoot(firing, shot)]
        dues = [shot.due for shot in firing.shots]
        self._store.records[ref] = replace(
            record,
            due=firing.next_due,
            last_due=max(dues, default=firing.expected),
            last_job=answers[-1].id if answers else record.last_job,
        )
        self._store.commit()
        return answers

    async def prune(self, retention: Retention, *, limit: int) -> int:
        """See `longshore.contract.Steward`."""
        jobs = self._jobs_past(retention)[:limit]
        for row in jobs:
            self._store.pruned[row.job.queue] += 1
            if row.job.state is State.DEAD:
                self._store.forget(row, "retention")
            else:
                del self._store.rows[row.job.id], self._store.history[row.job.id]
        keys = self._keys_past(retention)[: limit - len(jobs)]
        for key in keys:
            del self._store.keys[key]
        batches = self._batches_past(retention)[: limit - len(jobs) - len(keys)]
        self._store.batches = [
            batch for batch in self._store.batches if batch.position not in batches
        ]
        aside = self._aside_past(retention)[: limit - len(jobs) - len(keys) - len(batches)]
        for ref in aside:
            del self._store.records[ref]
        left = limit - len(jobs) - len(keys) - len(batches) - len(aside)
        full = self._full_buckets()[:left]
        for name in full:
            del self._store.buckets[name]
        self._store.commit()
        count = limit - left + len(full)
        before = self._store.now() - retention.audit
        return count + self._store.log.cut(before=before, limit=limit - count)

    def _is_over(self, lease: Lease, grace: int) -> bool:
        return lease.expires_at + grace <= self._store.now()

    def _is_live(self, job_id: JobId | None) -> bool:
        row = self._store.rows.get(job_id) if job_id else None
        return row is not None and row.job.state in LIVE

    def _shoot(self, schedule: Firing, shot: Shot) -> list[Submitted]:
        key = (schedule.tenant, schedule.name, shot.due)
        if key in self._store.fired:
            return []
        self._store.fired.add(key)
        details: dict[str, object] = {"schedule": schedule.name, "due": shot.due}
        if shot.job is None:
            where = ("", "", schedule.tenant, bytes(16))
            self._store.note(Group(Name.SCHEDULE_SKIPPED, *where, [details]))
            return []
        answer = accept(self._store, shot.job)
        where = (shot.job.queue, shot.job.type, schedule.tenant, answer.id)
        trace = shot.job.trace
        self._store.note(Group(Name.SCHEDULE_FIRED, *where, [details], trace=trace))
        return [answer]

    def _jobs_past(self, retention: Retention) -> list[Row]:
        kept = {
            State.SUCCEEDED: retention.succeeded,
            State.CANCELLED: retention.cancelled,
            State.DEAD: retention.dead,
        }
        now = self._store.now()
        return [
            row
            for row in self._store.rows.values()
            if row.job.state in kept
            and row.job.finished_at is not None
            and row.job.finished_at + kept[row.job.state] <= now
        ]

    def _keys_past(self, retention: Retention) -> list[tuple[str, str]]:
        oldest = self._store.now() - retention.idempotency
        return [key for key, used in self._store.keys.items() if used.times[0] <= oldest]

    def _batches_past(self, retention: Retention) -> list[int]:
        now = self._store.now()
        for one in self._store.consumers.values():
            if one.gone_at is None and one.seen_at <= now - retention.consumer:
                one.gone_at = now
        floors = [one.position for one in self._store.consumers.values() if one.gone_at is None]
        oldest = now - retention.outbox
        return [
            batch.position
            for batch in self._store.batches
            if batch.at <= oldest and all(batch.position <= floor for floor in floors)
        ]

    def _full_buckets(self) -> list[str]:
        now = self._store.now()
        full = [(one.full_at, name) for name, one in self._store.buckets.items()]
        return [name for full_at, name in sorted(full) if full_at <= now]

    def _aside_past(self, retention: Retention) -> list[Ref]:
        oldest = self._store.now() - retention.dead
        return [
            ref
            for ref, one in self._store.records.items()
            if ref.kind is Kind.QUARANTINED and one.created_at <= oldest
        ]
