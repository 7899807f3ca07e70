"""The SQLite engine: each verb is one body, run by the writer or by the reader."""

import sqlite3
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

import msgspec

from longshore.contract import (
    DueSchedules,
    Fleet,
    JobChange,
    JobFilter,
    Lapsed,
    Page,
    Promoted,
    QueueCounts,
    Renewed,
    Retention,
    Traits,
)
from longshore.core import audit_record
from longshore.core.job import Attempt, Held, Job, JobId, NewJob, Settlement, Submitted
from longshore.core.schedule import Firing, check_firing
from longshore.core.submission import check
from longshore.core.view import JobOrder
from longshore.engines.sqlite import (
    caller_transactions,
    job_counts,
    job_queries,
    maintenance,
    schedule_firing,
    schema_migration,
    submission,
)
from longshore.engines.sqlite.audit_log import SqliteAudit
from longshore.engines.sqlite.audit_records import record_order
from longshore.engines.sqlite.connection import Store, Synchronous
from longshore.engines.sqlite.counters import SqliteCounters
from longshore.engines.sqlite.faults import translated
from longshore.engines.sqlite.notify import Waker
from longshore.engines.sqlite.ordering_key_queries import DepthSource, SqliteOrderingKeys, admit
from longshore.engines.sqlite.reader import Reader
from longshore.engines.sqlite.records import SqliteRecords
from longshore.engines.sqlite.session import AttachedSession, SqliteSession
from longshore.engines.sqlite.sql import SQL
from longshore.engines.sqlite.transaction import Transaction
from longshore.engines.sqlite.writer import Writer
from longshore.errors import ConfigError, EngineUnavailableError, LeaseLostError
from longshore.runtime.actor import actor, signed
from longshore.runtime.backpressure import Depths, told_apart
from longshore.runtime.decoding import RecordName, decode_one

__all__ = ["SqliteEngine"]

T = TypeVar("T")

_json = msgspec.json.Encoder()
_texts = msgspec.json.Decoder(tuple[str, ...])


class SqliteEngine(SqliteOrderingKeys, SqliteCounters, SqliteAudit, SqliteRecords):
    """Jobs in one SQLite file, shared by any number of processes on one machine."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._waker = Waker(store.path)
        self._writer = Writer(store, submission.submit, self._waker.wake)
        self._reader = Reader(store)
        self._depths = Depths(DepthSource(self._read))

    @property
    def traits(self) -> Traits:
        """What this engine promises beyond the contract."""
        on_disk = not self._store.is_memory
        return Traits(
            transactional_submit=on_disk,
            transactional_completion=on_disk,
            pushes_wakeups=True,
            claims_at_wakeup=True,
            ordering_keys=True,
            survives_power_loss=on_disk and self._store.synchronous is Synchronous.FULL,
            own_clock=False,
            shared_between_processes=on_disk,
        )

    @property
    def url(self) -> str:
        """Where the file is."""
        return f"sqlite://{'' if self._store.is_memory else '/'}{self._store.path}"

    # Producer

    async def submit(
        self,
        jobs: Sequence[NewJob],
        *,
        independent: bool = False,
        max_wait: float | None = None,
    ) -> list[Submitted]:
        """Store the jobs durably, and answer for each."""
        check(jobs)
        admitted = await self._depths.admit(jobs, apart=independent)
        answers = await self._writer.submit(admitted, max_wait=max_wait)
        return told_apart(jobs, admitted, answers)

    def submit_on(self, connection: object, jobs: Sequence[NewJob]) -> list[Submitted]:
        """Submit inside the caller's own transaction on the same file."""
        check(jobs)
        with (
            translated(self._store.path),
            caller_transactions.transaction(self._store, connection) as db,
        ):
            admit(self._depths, db, jobs)
            transaction = Transaction(db, self._store.clock.now())
            self._writer.numbers.move_ahead(transaction)
            answers = submission.submit(transaction, jobs)
            transaction.finish()
            return answers

    # Worker

    async def open_session(
        self,
        *,
        worker: str,
        queues: Sequence[str],
        types: Sequence[str],
        lease: int,
        owner: str = "",
    ) -> SqliteSession:
        """Take a lease."""
        if lease <= 0 or not queues:
            raise ConfigError(
                "a session needs a lease longer than nothing and at least one queue"
            )

        def body(transaction: Transaction) -> int:
            facts: dict[str, object] = {
                "worker": worker,
                "queues": _json.encode(list(queues)).decode(),
                "types": _json.encode(list(types)).decode(),
                "lease": lease,
                "owner": owner,
                "now": transaction.now,
            }
            token = transaction.db.execute(SQL.session_open, facts).lastrowid or 0
            schema_migration.enter(transaction, token)
            return token

        token = await self._writer.call(body)
        return SqliteSession(
            self._writer,
            self._waker,
            token=token,
            lease=lease,
            worker=worker,
            offer=(tuple(queues), frozenset(types)),
        )

    async def attach_session(self, token: int) -> AttachedSession:
        """A session that was opened by anyone."""
        scope = {"token": token, "now": self._store.clock.now()}
        row = await self._read(lambda db: db.execute(SQL.session_of, scope).fetchone())
        if row is None:
            raise LeaseLostError(token)
        worker, *offer, lease = row
        name = RecordName("session", str(token))
        queues, types = decode_one(lambda: [_texts.decode(one) for one in offer], name)
        return AttachedSession(
            self._writer,
            self._waker,
            token=token,
            lease=lease,
            worker=worker,
            offer=(queues, frozenset(types)),
        )

    async def owner_of(self, token: int) -> str | None:
        """Whom the session was opened for."""
        scope = {"token": token}
        row = await self._read(lambda db: db.execute(SQL.session_owner, scope).fetchone())
        return None if row is None else row[0]

    # Keeper

    async def renew(self, token: int) -> Renewed:
        """Push a session's end. A loss of power may undo it."""
        return await self._writer.call(partial(maintenance.renew, token), durable=False)

    async def held(self, token: int) -> list[Held] | None:
        """What a session holds."""
        return await self._read(lambda db: maintenance.held(db, token))

    async def end_session(
        self, token: int, settlements: Sequence[Settlement], *, grace: int | None = None
    ) -> int:
        """End the session of a worker that is gone, once."""
        body = partial(maintenance.end_session, token, settlements, grace)
        return await self._writer.call(body)

    # Steward

    async def promote(self, *, limit: int) -> Promoted:
        """Make due jobs ready. Looks before it takes the write lock."""
        next_due = await self._read(lambda db: db.execute(SQL.next_due).fetchone()[0])
        now = self._store.clock.now()
        if next_due is None or next_due > now:
            return Promoted(0, None if next_due is None else next_due - now)
        return await self._writer.call(partial(maintenance.promote, limit))

    async def expired_sessions(self, *, grace: int, limit: int) -> list[Lapsed]:
        """Sessions whose lease ended, with what they held."""
        now = self._store.clock.now()
        if await self._read(lambda db: maintenance.is_set_back(db, now)):
            await self._writer.call(maintenance.shorten_leases)
        return await self._read(lambda db: maintenance.expired_sessions(db, now - grace, limit))

    async def due_schedules(self, *, limit: int) -> DueSchedules:
        """Schedules whose time has come."""
        now = self._store.clock.now()
        return await self._read(lambda db: schedule_firing.due(db, now, limit))

    async def fire(self, firing: Firing) -> list[Submitted]:
        """Submit the firing's jobs and move the schedule on."""
        check_firing(firing)
        await self._depths.admit(firing.jobs)
        return await self._writer.call(partial(schedule_firing.fire, firing))

    async def prune(self, retention: Retention, *, limit: int) -> int:
        """Delete what is past its retention."""
        return await self._writer.call(partial(maintenance.prune, retention, limit, actor()))

    # Jobs

    async def get(self, job_id: JobId, *, tenant: str | None = None) -> Job:
        """The job, or JobNotFoundError."""
        return await self._read(lambda db: job_queries.get(db, job_id, tenant))

    async def find(self, which: JobFilter, *, limit: int, cursor: str | None = None) -> Page:
        """Jobs newest first."""
        return await self._read(lambda db: job_queries.find(db, which, limit, cursor))

    async def attempts(self, job_id: JobId, *, tenant: str | None = None) -> list[Attempt]:
        """The deliveries that ended."""
        return await self._read(lambda db: job_queries.attempts(db, job_id, tenant))

    async def counts(
        self, *, tenant: str | None = None, may_estimate: bool = False
    ) -> list[QueueCounts]:
        """Every queue at a glance."""
        if may_estimate and tenant is None:
            return await self._read(job_counts.estimate)
        return await self._read(lambda db: job_counts.counts(db, tenant))

    async def sessions(self) -> Fleet:
        """Live leases, and how many workers vanished."""
        now = self._store.clock.now()
        return await self._read(lambda db: job_queries.sessions(db, now))

    async def change(
        self,
        change: JobChange,
        job_ids: Sequence[JobId],
        *,
        reason: str = "",
        tenant: str | None = None,
        independent: bool = False,
    ) -> list[Job]:
        """Cancel jobs, make them ready, or delete them."""
        order = JobOrder(change, job_ids, reason, tenant, independent, actor())
        return await self._writer.call(partial(job_queries.change, order))

    async def drain_session(self, token: int) -> None:
        """Ask a worker to drain."""
        order = signed(audit_record.worker_drained(token))

        def body(transaction: Transaction) -> None:
            if transaction.db.execute(SQL.session_quiet, {"token": token}).rowcount:
                record_order(transaction, order)

        await self._writer.call(body)

    # Life

    async def now(self) -> int:
        """The machine's clock."""
        return self._store.clock.now()

    async def migrate(self, *, max_wait: float = schema_migration.PATIENCE) -> list[str]:
        """Bring the schema up to date, creating the file and its folder if need be."""
        if not self._store.is_memory:
            try:
                Path(self._store.path).parent.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise EngineUnavailableError(f"{self._store.path}: {error.strerror}") from error
        return await schema_migration.migrate(
            self._writer, migrations=schema_migration.MIGRATIONS, max_wait=max_wait
        )

    async def ping(self) -> None:
        """Return if the file can be written and has the right schema."""
        await self._writer.call(schema_migration.verify)

    async def close(self) -> None:
        """Finish what was accepted and let go of the file."""
        if not self._store.is_ours:
            return  # threads, file and sockets belong to the process that opened them
        await self._writer.close()
        self._waker.close()
        await self._reader.close()

    async def _read(self, body: Callable[[sqlite3.Connection], T]) -> T:
        """Run a body that only reads, beside the writer."""
        if self._store.is_memory:
            return await self._writer.call(lambda transaction: body(transaction.db))
        return await self._reader.call(body)
