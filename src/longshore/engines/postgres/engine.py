"""The PostgreSQL engine: each verb is one call or one transaction."""

from collections.abc import Awaitable, Sequence
from contextlib import suppress

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
from longshore.core.job import Attempt, Held, Job, JobId, NewJob, Settlement, Submitted
from longshore.core.schedule import Firing, check_firing
from longshore.core.submission import check
from longshore.core.view import JobOrder
from longshore.engines.postgres import (
    job_counts,
    job_queries,
    maintenance,
    schedule_firing,
    schema_migration,
)
from longshore.engines.postgres.audit_log import PostgresAudit
from longshore.engines.postgres.caller_transactions import Callers
from longshore.engines.postgres.counters import PostgresCounters
from longshore.engines.postgres.database import Database
from longshore.engines.postgres.ordering_key_queries import DepthSource, PostgresOrderingKeys
from longshore.engines.postgres.records import PostgresRecords
from longshore.engines.postgres.session import PostgresSession
from longshore.engines.postgres.sql import SQL
from longshore.engines.postgres.stateless_session import AttachedSession, attach
from longshore.engines.postgres.submission import Submitter
from longshore.errors import (
    ConfigError,
    EngineUnavailableError,
    LongshoreError,
    SchemaError,
)
from longshore.runtime.actor import actor
from longshore.runtime.backpressure import Depths, told_apart

__all__ = ["PostgresEngine"]


class PostgresEngine(PostgresOrderingKeys, PostgresCounters, PostgresAudit, PostgresRecords):
    """Jobs in the schema `longshore` of one PostgreSQL database."""

    def __init__(self, database: Database, url: str) -> None:
        self._database = database
        self._url = url
        self._submitter = Submitter(database)
        # One that is only ever attached to is forgotten by whoever opened it.
        self._sessions: set[PostgresSession] = set()
        """Not weak: one that its holder forgot has a connection that somebody must close."""
        self._is_closed = False
        self._depths = Depths(DepthSource(database))
        self._callers = Callers(database, self._depths)

    @property
    def traits(self) -> Traits:
        """What this engine promises beyond the contract."""
        return Traits(
            transactional_submit=True,
            transactional_completion=True,
            pushes_wakeups=self._database.waker.listens,
            claims_at_wakeup=True,
            ordering_keys=True,
            survives_power_loss=True,
            own_clock=True,
            shared_between_processes=True,
        )

    @property
    def url(self) -> str:
        """Where the database is, without secrets."""
        return self._url

    # Producer

    async def submit(
        self,
        jobs: Sequence[NewJob],
        *,
        independent: bool = False,
        max_wait: float | None = None,
    ) -> list[Submitted]:
        """Store the jobs durably, and answer for each."""
        _ = self._open
        check(jobs)
        admitted = jobs
        if not self._depths.is_idle:
            admitted = await self._depths.admit(jobs, apart=independent)
        if not admitted:
            return told_apart(jobs, admitted, [])
        answers = await self._submitter.submit(
            admitted, independent=independent, max_wait=max_wait
        )
        return told_apart(jobs, admitted, answers) if independent else answers

    def submit_on(
        self, connection: object, jobs: Sequence[NewJob]
    ) -> list[Submitted] | Awaitable[list[Submitted]]:
        """Submit in the transaction of a caller's connection, of any driver."""
        _ = self._open
        check(jobs)
        return self._callers.submit(connection, jobs)

    # Worker

    async def open_session(
        self,
        *,
        worker: str,
        queues: Sequence[str],
        types: Sequence[str],
        lease: int,
        owner: str = "",
    ) -> PostgresSession:
        """Take a lease."""
        if lease <= 0 or not queues:
            raise ConfigError(
                "a session needs a lease longer than nothing and at least one queue"
            )
        database, offer = self._open, (tuple(queues), tuple(types))
        # Two connections are set up at the same time: on a slow link that takes a while.
        lane = database.lane()
        lane.open_ahead(SQL.exchange)
        try:
            rows = await database.fetch(
                SQL.session_open,
                *(worker, list(queues), list(types), lease, database.now(), owner),
                schema_migration.LEVEL,
            )
            session = PostgresSession(
                database, lane, rows[0], lease=lease, worker=worker, offer=offer
            )
            # The session is there first, and then looks whether a migration was announced.
            await self._admit(session)
        except BaseException:
            lane.drop()
            raise
        self._sessions = {one for one in self._sessions if one.is_open} | {session}
        return session

    async def attach_session(self, token: int) -> AttachedSession:
        """A session that was opened by anyone."""
        return await attach(lambda: self._open, token)

    async def owner_of(self, token: int) -> str | None:
        """Whom the session was opened for."""
        rows = await self._open.fetch(SQL.session_owner, token)
        return rows[0]["owner"] if rows else None

    # Keeper

    async def renew(self, token: int) -> Renewed:
        """Push a session's end."""
        return await maintenance.renew(self._open, token)

    async def held(self, token: int) -> list[Held] | None:
        """What a session holds."""
        return await maintenance.held(self._open, token)

    async def end_session(
        self, token: int, settlements: Sequence[Settlement], *, grace: int | None = None
    ) -> int:
        """End the session of a worker that is gone, once."""
        return await maintenance.end_session(self._open, token, settlements, grace=grace)

    # Steward

    async def promote(self, *, limit: int) -> Promoted:
        """Make due jobs ready."""
        return await maintenance.promote(self._open, limit=limit)

    async def expired_sessions(self, *, grace: int, limit: int) -> list[Lapsed]:
        """Sessions whose lease ended, with what they held."""
        return await maintenance.expired_sessions(self._open, grace=grace, limit=limit)

    async def due_schedules(self, *, limit: int) -> DueSchedules:
        """Schedules whose time has come."""
        return await schedule_firing.due(self._open, limit=limit)

    async def fire(self, firing: Firing) -> list[Submitted]:
        """Submit the firing's jobs and move the schedule on."""
        _ = self._open
        check_firing(firing)
        await self._depths.admit(firing.jobs)
        return await schedule_firing.fire(self._open, firing)

    async def prune(self, retention: Retention, *, limit: int) -> int:
        """Delete what is past its retention."""
        return await maintenance.prune(self._open, retention, limit=limit)

    # Jobs

    async def get(self, job_id: JobId, *, tenant: str | None = None) -> Job:
        """The job, or JobNotFoundError."""
        return await job_queries.get(self._open, job_id, tenant=tenant)

    async def find(self, which: JobFilter, *, limit: int, cursor: str | None = None) -> Page:
        """Jobs newest first."""
        return await job_queries.find(self._open, which, limit=limit, cursor=cursor)

    async def attempts(self, job_id: JobId, *, tenant: str | None = None) -> list[Attempt]:
        """The deliveries that ended."""
        return await job_queries.attempts(self._open, job_id, tenant=tenant)

    async def counts(
        self, *, tenant: str | None = None, may_estimate: bool = False
    ) -> list[QueueCounts]:
        """Every queue at a glance."""
        if may_estimate and tenant is None:
            return await job_counts.estimate(self._open)
        return await job_counts.counts(self._open, tenant=tenant)

    async def sessions(self) -> Fleet:
        """Live leases, and how many workers vanished."""
        return await job_queries.sessions(self._open)

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
        return await job_queries.change(self._open, order)

    async def drain_session(self, token: int) -> None:
        """Ask a worker to drain."""
        await job_queries.drain_session(self._open, token)

    # Life

    async def now(self) -> int:
        """The server's clock."""
        rows = await self._open.fetch("select longshore.clock($1) as now", self._database.now())
        return rows[0]["now"]

    async def migrate(self, *, max_wait: float = schema_migration.PATIENCE) -> list[str]:
        """Bring the schema up to date."""
        return await schema_migration.migrate(self._open, max_wait=max_wait)

    async def ping(self) -> None:
        """Return if the database can be written and has the right schema."""
        await schema_migration.verify(self._open)

    async def close(self) -> None:
        """Finish what was accepted and let go of every connection."""
        if self._is_closed:
            return
        self._is_closed = True
        await self._submitter.close()
        for session in list(self._sessions):
            await session.let_go()
        await self._database.close()

    async def _admit(self, session: PostgresSession) -> None:
        """Return if the session may work on this schema; if not, it is ended."""
        try:
            await schema_migration.verify(self._open)
        except SchemaError:
            with suppress(LongshoreError):
                await session.close()
            raise

    @property
    def _open(self) -> Database:
        if self._is_closed:
            raise EngineUnavailableError("the engine is closed")
        return self._database
