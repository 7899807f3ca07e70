"""The model's memory: what is stored, and the changes that several callers make."""

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from longshore.contract import Losses, Reference
from longshore.contract.records import Kind, Record, Ref
from longshore.core import circuit_breaker, event, ids
from longshore.core.audit import Pending
from longshore.core.audit_record import AuditRecord
from longshore.core.event import EventBatch, Group, Name
from longshore.core.job import Attempt, Claim, Held, Job, JobId, Settlement
from longshore.core.limit_settings import (
    BreakerFlow,
    Phase,
    QueueFlow,
    QueueSettings,
    look_in,
    room,
    took,
)
from longshore.core.settle import heeding, outcome
from longshore.core.state import TERMINAL, State, Verb, after
from longshore.errors import EngineUnavailableError, JobNotFoundError
from longshore.runtime.clock import Clock
from longshore.testing.model.lines import Bucket, Lines
from longshore.testing.model.log import Log
from longshore.testing.model.row import Row
from longshore.testing.model.shares import Shares

__all__ = ["Lease", "Store", "Used"]

_DEFAULT = Ref(Kind.TENANT, "default")
_MUTED = Ref(Kind.FLAG, "muted")


def _default_tenant() -> Record:
    """The tenant that is there from the beginning."""
    return Record(
        kind=_DEFAULT.kind,
        name=_DEFAULT.name,
        version=1,
        body=b'{"name":"default"}',
        created_at=0,
        changed_at=0,
    )


@dataclass(slots=True)
class Lease:
    """A session, as the engine keeps it."""

    token: int
    worker: str
    queues: tuple[str, ...]
    types: tuple[str, ...]
    length: int
    opened_at: int
    renewed_at: int
    expires_at: int
    owner: str = ""
    number: int = 0
    """The last exchange that was applied."""
    refused: list[Reference] = field(default_factory=list[Reference])
    """The settlements that it refused."""
    is_quiet: bool = False


@dataclass(slots=True)
class Reading:
    """A consumer, as the engine keeps it."""

    seen_at: int
    position: int = 0
    token: int = 0
    holder: str = ""
    lease: int = 0
    leased_until: int = 0
    gone_at: int | None = None


@dataclass(slots=True, frozen=True)
class Used:
    """An idempotency key that was used."""

    job_id: JobId
    fingerprint: bytes
    times: tuple[int, int]
    """When its job arrived, and when it was due as it was accepted."""


class Store:
    """Everything the engine knows, in dictionaries."""

    losses = Losses()

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.rows: dict[JobId, Row] = {}
        self.history: dict[JobId, list[Attempt]] = {}
        self.leases: dict[int, Lease] = {}
        self.keys: dict[tuple[str, str], Used] = {}
        self.unique: dict[tuple[str, str], JobId] = {}
        self.pauses: set[tuple[str | None, str | None]] = set()
        self.records: dict[Ref, Record] = {_DEFAULT: _default_tenant()}
        self.weights: dict[str, int] = {}
        """Of tenants in fair queues; 1 unless said."""
        self.buckets: dict[str, Bucket] = {}
        self.queue_buckets: dict[str, int | None] = {}
        self.flows: dict[str, QueueFlow] = {}
        self.breaker_flows: dict[str, BreakerFlow] = {}
        self.standings: dict[str, circuit_breaker.Standing] = {}
        self.shares = Shares(self.weights)
        self.fired: set[tuple[str, str, int]] = set()
        self.lines = Lines(self.rows, self.effective, self.buckets, clock.now)
        self.batches: list[EventBatch] = []
        self.consumers: dict[str, Reading] = {}
        # In the order in which they came, so that a simulation wakes them the same each time.
        self.waiting: dict[asyncio.Event, None] = {}
        self.heeding: dict[asyncio.Event, None] = {}
        """Who waits for a job of theirs to be cancelled."""
        self.last_handle = self.last_arrival = self.last_token = self.last_position = 0
        self.is_closed = False
        self.preferred: dict[JobId, int] = {}
        """Who goes first among jobs of one rank, when someone else has decided that."""
        self._groups: list[Group] = []

    def now(self) -> int:
        """The engine's clock. Every call asks for it, so a closed engine answers none."""
        if self.is_closed:
            raise EngineUnavailableError("the engine is closed")
        return self.clock.now()

    @property
    def is_muted(self) -> bool:
        """Whether progress events are left out of the outbox."""
        return _MUTED in self.records

    def row(self, job_id: JobId, tenant: str | None) -> Row:
        """The job, if there is one and the tenant may see it."""
        row = self.rows.get(job_id)
        if row is None or tenant not in (None, row.job.tenant):
            raise JobNotFoundError(ids.text(job_id))
        return row

    @cached_property
    def pruned(self) -> Counter[str]:
        """By queue, how many jobs."""
        return Counter()

    @cached_property
    def log(self) -> Log:
        """Who did what."""
        return Log(self.now)

    def record(self, done: AuditRecord) -> None:
        """Store what somebody ordered, until it is chained."""
        self.log.deeds.append(Pending(0, self.now(), done))

    def held_by(self, token: int) -> list[Row]:
        """What a session holds, in order of arrival."""
        return [row for row in self.rows.values() if row.token == token]

    def listed(self, token: int) -> list[Held]:
        """What a session holds, as whoever buries it sees it."""
        rows = self.held_by(token)
        return [
            Held(
                handle=row.handle,
                delivery=row.job.delivery,
                id=row.job.id,
                type=row.job.type,
                queue=row.job.queue,
                tenant=row.job.tenant,
                started_at=row.job.started_at,
                attempt=row.job.attempt,
                failures=row.job.failures,
                crashes=row.job.crashes,
                lapses=row.job.lapses,
                max_attempts=row.job.max_attempts,
                cancel_requested=row.job.cancel_requested,
                alone=len(rows) == 1,
                trace=row.job.trace,
            )
            for row in rows
        ]

    def bury(self, token: int, settlements: Sequence[Settlement]) -> int:
        """End a session, and settle or release all it held."""
        for settlement in settlements:
            after(State.RUNNING, settlement.verb)
        del self.leases[token]
        settled = 0
        for row in self.held_by(token):
            for settlement in settlements:
                if row.token and row.reference == (settlement.handle, settlement.delivery):
                    self.settle(row, settlement)
                    settled += 1
        jobs = settled + self.release(self.held_by(token))
        if jobs:
            self.losses = Losses(self.losses.workers + 1, self.losses.jobs + jobs)
        self.commit()
        return jobs

    def rearrange(self, job_ids: Sequence[JobId]) -> None:
        """Let these jobs, which came in one call, have come in this order."""
        rows = [self.rows[job_id] for job_id in job_ids]
        for row, handle in zip(rows, sorted(row.handle for row in rows), strict=True):
            row.handle = handle
        in_order = sorted(self.rows.values(), key=lambda row: row.handle)
        self.rows.clear()
        self.rows.update((row.job.id, row) for row in in_order)

    def is_paused(self, queue: str, type_name: str) -> bool:
        """Whether a pause of the queue, of the type, or of both together holds."""
        return not self.pauses.isdisjoint(
            {(queue, None), (None, type_name), (queue, type_name)}
        )

    def effective(self, queue: str) -> QueueSettings:
        """What holds for a queue."""
        found = self.flows.get(queue)
        return QueueSettings() if found is None else found.effective

    def room(self, queue: str) -> int:
        """How many more jobs of a queue may be claimed."""
        running = sum(row.token > 0 and row.job.queue == queue for row in self.rows.values())
        empty_at = self.queue_buckets.get(queue)
        return room(self.effective(queue), running=running, empty_at=empty_at, now=self.now())

    def took(self, queue: str, jobs: int) -> None:
        """Jobs of a queue were claimed."""
        empty_at = self.queue_buckets.get(queue)
        self.queue_buckets[queue] = took(
            self.effective(queue), empty_at, jobs=jobs, now=self.now()
        )

    def look_in(self, queue: str) -> int:
        """When it pays to ask again for jobs of a queue that were held back."""
        empty_at = self.queue_buckets.get(queue)
        return look_in(self.effective(queue), empty_at, now=self.now())

    def breakers(self) -> dict[str, circuit_breaker.Rules]:
        """What holds for types that have a breaker."""
        held = {
            name: circuit_breaker.rules(it.effective) for name, it in self.breaker_flows.items()
        }
        return {name: rules for name, rules in held.items() if rules is not None}

    def observe(self, type_name: str, outcomes: Sequence[circuit_breaker.Outcome] = ()) -> None:
        """So attempts of a type ended, as far as its breaker is concerned."""
        held = self.breakers().get(type_name)
        if held is not None:
            standing = self.standings.get(type_name, circuit_breaker.Standing())
            after, changes = circuit_breaker.observe(standing, held, outcomes, self.now())
            self.standings[type_name] = after
            self._groups += circuit_breaker.told(type_name, changes)

    def probes(self, type_name: str) -> int | None:
        """How many jobs of a type with a breaker may be claimed; None: any number."""
        self.observe(type_name)
        running = sum(row.token > 0 and row.job.type == type_name for row in self.rows.values())
        held, standing = self.breakers()[type_name], self.standings[type_name]
        return circuit_breaker.room(standing, held, running=running, now=self.now())

    def reset(self, type_name: str) -> None:
        """Close a breaker."""
        before = self.standings.get(type_name, circuit_breaker.Standing())
        self.standings[type_name] = circuit_breaker.reset(before, self.now())
        if before.phase is not Phase.CLOSED:
            self._groups += circuit_breaker.told(type_name, [self.standings[type_name]])

    def emit(self, name: Name, job: Job, **details: object) -> None:
        """Note a transition of a job."""
        where = (job.queue, job.type, job.tenant, job.id)
        self.note(Group(name, *where, [details], trace=job.trace))

    def note(self, group: Group) -> None:
        """Keep events until `commit` writes all of them as one batch."""
        self._groups.append(group)

    def commit(self, *, wakes: bool = True) -> None:
        """End a call: write what happened, and wake whoever waits for work.

        Without `wakes`, only if something happened.
        """
        self.lines.stir()
        wakes |= bool(self._groups)
        if self._groups:
            self.last_position += 1
            self.batches.append(
                EventBatch(self.last_position, self.clock.now(), list(self._groups))
            )
            self._groups.clear()
        for waiting in self.waiting if wakes else ():
            waiting.set()

    def start(self, row: Row) -> None:
        """Record that a claimed job's handler began, once."""
        if row.job.started_at is None:
            row.change(started_at=self.now(), attempt=row.job.attempt + 1)
            self.emit(Name.STARTED, row.job)

    def release(self, rows: Iterable[Row]) -> int:
        """Give claims back, uncharged."""
        released = list(rows)
        for row in released:
            handle, delivery = row.reference
            self.settle(row, Settlement(handle=handle, delivery=delivery, verb=Verb.RELEASE))
        return len(released)

    def settle(self, row: Row, settlement: Settlement) -> None:
        """End a claim."""
        job, now = row.job, self.now()
        if job.cancel_requested:
            settlement = heeding(settlement, job.reason)
        state = after(job.state, settlement.verb)
        is_over = state in TERMINAL
        was_started = job.started_at is not None
        row.token = row.number = 0
        row.change(
            state=state,
            worker=None,
            cancel_requested=False,
            attempt=job.attempt + (settlement.started_at is not None and not was_started),
            failures=job.failures + settlement.charge,
            crashes=job.crashes + settlement.crash,
            lapses=job.lapses + settlement.lapse,
            run_at=now + settlement.delay if state is State.SCHEDULED else job.run_at,
            started_at=job.started_at
            if settlement.started_at is None
            else settlement.started_at,
            finished_at=(settlement.finished_at or now) if is_over else None,
            result=settlement.result,
            failure=settlement.failure or job.failure,
            reason=settlement.reason,
        )
        for name in event.names(settlement, start_is_known=was_started):
            self.emit(name, row.job, **event.details(settlement))
        self._remember(job.worker, row.job, settlement)
        if is_over:
            self.lines.leave(row)

    def _remember(self, worker: str | None, job: Job, settlement: Settlement) -> None:
        self.history[job.id].append(
            Attempt(
                delivery=job.delivery,
                attempt=job.attempt,
                outcome=outcome(settlement),
                worker=worker,
                started_at=job.started_at,
                finished_at=settlement.finished_at or self.now(),
                failure=settlement.failure,
            )
        )

    def forget(self, row: Row, who: str) -> None:
        """Delete a finished job, leaving an event with all that an audit needs."""
        job = row.job
        payload = job.payload.decode(errors="replace")
        self.emit(Name.PURGED, job, payload=payload, reason=job.reason, who=who)
        del self.rows[job.id], self.history[job.id]


def claim_of(row: Row) -> Claim:
    """The claim as its session gets it, the same however often it is asked for."""
    job = row.job
    return Claim(
        handle=row.handle,
        delivery=job.delivery,
        id=job.id,
        type=job.type,
        queue=job.queue,
        tenant=job.tenant,
        payload=job.payload,
        priority=job.priority,
        attempt=job.attempt - (job.started_at is not None),
        failures=job.failures,
        crashes=job.crashes,
        lapses=job.lapses,
        max_attempts=job.max_attempts,
        timeout=job.timeout,
        created_at=job.created_at,
        run_at=job.run_at,
        trace=job.trace,
        tags=job.tags,
    )
