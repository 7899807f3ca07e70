"""A service over HTTP, for whoever would use an engine: each call is one request."""

from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from typing import Any

import msgspec

from longshore.core import ids
from longshore.core.account import ApiKey, NewKey, Tenant, validate_tenant
from longshore.core.instant import micros
from longshore.core.job import Attempt, Held, Job, JobId, NewJob, Settlement, Submitted
from longshore.core.schedule import Schedule
from longshore.core.schedule import validate as validate_schedule
from longshore.core.state import State, after
from longshore.core.submission import check
from longshore.engine import (
    BrokenRecord,
    JobFilter,
    Losses,
    Page,
    Pause,
    QueueCounts,
    Renewed,
    SessionView,
    Traits,
)
from longshore.engines.remote.auditing import RemoteAudit
from longshore.engines.remote.flowing import RemoteFlow
from longshore.engines.remote.line import Line
from longshore.engines.remote.outbox import RemoteOutbox
from longshore.engines.remote.refused import RefusedCalls
from longshore.engines.remote.session import RemoteSession
from longshore.errors import ConfigError, LeaseLostError, SubmitError
from longshore.streaming.telling import JobEvent
from longshore.wire import sessions
from longshore.wire.documents import (
    BuryAnswer,
    BuryBody,
    HeldAnswer,
    OpenBody,
    Opened,
    RenewAnswer,
)
from longshore.wire.methods import METHODS

__all__ = ["RemoteEngine"]

_encode = msgspec.json.Encoder().encode
_decoders = {
    name: msgspec.json.Decoder(method.answer)
    for name, method in METHODS.items()
    if method.answer is not None
}


class _Readiness(msgspec.Struct, frozen=True):
    now: datetime


class RemoteEngine(RemoteFlow, RemoteOutbox, RemoteAudit, RefusedCalls):
    """The store behind a Longshore API service, as far as the API key reaches."""

    def __init__(self, line: Line) -> None:
        self._line = line

    @property
    def traits(self) -> Traits:
        """What can be promised through HTTP; the rest the service's own store promises."""
        return Traits(
            transactional_submit=False,
            transactional_completion=False,
            pushes_wakeups=True,
            claims_at_wakeup=False,
            ordering_keys=True,
            survives_power_loss=False,
            own_clock=True,
            shared_between_processes=True,
            maintenance=False,
        )

    @property
    def url(self) -> str:
        """Where the service is, without the key."""
        return self._line.url

    # Producer

    async def submit(
        self, jobs: Sequence[NewJob], *, apart: bool = False, patience: float | None = None
    ) -> list[Submitted]:
        """Store the jobs durably, and answer for each."""
        check(jobs)
        if not jobs:
            return []
        return await self._ask("submit", jobs=list(jobs), apart=apart, patience=patience)

    # Worker

    async def open_session(
        self,
        *,
        worker: str,
        queues: Sequence[str],
        types: Sequence[str],
        lease: int,
        owner: str = "",
    ) -> RemoteSession:
        """Take a lease. It belongs to the API key, whatever else is given."""
        if owner:
            raise ConfigError("over HTTP a session belongs to the API key that opens it")
        body = OpenBody(worker=worker, queues=list(queues), types=list(types), lease_us=lease)
        answer = await self._line.call("POST", "/v1/sessions", _written(body), again=True)
        return self._session(answer)

    async def attach_session(self, token: int) -> RemoteSession:
        """A session that was opened with the same API key."""
        return self._session(await self._line.call("GET", _path(token), again=True))

    # Keeper

    async def renew(self, token: int) -> Renewed:
        """Push a session's end."""
        answer = await self._line.call("POST", f"{_path(token)}:keep", again=True)
        return sessions.renewed(msgspec.json.decode(answer, type=RenewAnswer))

    async def held(self, token: int) -> list[Held] | None:
        """What a session holds."""
        try:
            answer = await self._line.call("POST", f"{_path(token)}:held", again=True)
        except LeaseLostError:
            return None
        return msgspec.json.decode(answer, type=HeldAnswer).held

    async def bury(self, token: int, settlements: Sequence[Settlement]) -> int:
        """End a dead worker's session, once."""
        for one in settlements:
            after(State.RUNNING, one.verb)
        body = BuryBody([sessions.settlement_body(one) for one in settlements])
        try:
            answer = await self._line.call("POST", f"{_path(token)}:bury", _encode(body))
        except LeaseLostError:
            return 0
        return msgspec.json.decode(answer, type=BuryAnswer).settled

    # Inspector

    async def get(self, job_id: JobId, *, tenant: str | None = None) -> Job:
        """The job, or JobNotFoundError."""
        return await self._ask("get", job_id=job_id, tenant=tenant)

    async def find(self, which: JobFilter, *, limit: int, cursor: str | None = None) -> Page:
        """Jobs newest first."""
        return await self._ask("find", which=which, limit=limit, cursor=cursor)

    async def attempts(self, job_id: JobId, *, tenant: str | None = None) -> list[Attempt]:
        """The deliveries that ended."""
        return await self._ask("attempts", job_id=job_id, tenant=tenant)

    async def counts(
        self, *, tenant: str | None = None, may_estimate: bool = False
    ) -> list[QueueCounts]:
        """Every queue at a glance."""
        return await self._ask("counts", tenant=tenant, may_estimate=may_estimate)

    async def sessions(self) -> list[SessionView]:
        """Live leases."""
        return await self._ask("sessions")

    async def losses(self) -> Losses:
        """How many workers vanished with jobs."""
        return await self._ask("losses")

    async def cancel(
        self, job_ids: Sequence[JobId], *, reason: str, tenant: str | None = None
    ) -> list[Job]:
        """End what waits; ask the holders of what runs."""
        return await self._ask("cancel", job_ids=list(job_ids), reason=reason, tenant=tenant)

    async def replay(self, job_ids: Sequence[JobId], *, tenant: str | None = None) -> list[Job]:
        """Make dead or cancelled jobs ready again."""
        return await self._ask("replay", job_ids=list(job_ids), tenant=tenant)

    async def retry_now(
        self, job_ids: Sequence[JobId], *, tenant: str | None = None
    ) -> list[Job]:
        """Make scheduled jobs ready."""
        return await self._ask("retry_now", job_ids=list(job_ids), tenant=tenant)

    async def purge(self, job_ids: Sequence[JobId], *, tenant: str | None = None) -> int:
        """Delete finished jobs."""
        return await self._ask("purge", job_ids=list(job_ids), tenant=tenant)

    async def pause(self, *, queue: str | None = None, type: str | None = None) -> None:
        """Stop handing out."""
        await self._ask("pause", queue=queue, type=type)

    async def resume(self, *, queue: str | None = None, type: str | None = None) -> None:
        """Hand out again."""
        await self._ask("resume", queue=queue, type=type)

    async def pauses(self) -> list[Pause]:
        """What is not handed out."""
        return await self._ask("pauses")

    async def broken_records(self) -> list[BrokenRecord]:
        """What is stored and cannot be decoded."""
        return await self._ask("broken_records")

    async def quiet(self, token: int) -> None:
        """Ask a worker to drain."""
        await self._ask("quiet", token=token)

    async def put_schedule(self, schedule: Schedule, *, seen: Schedule | None = None) -> bool:
        """Create a schedule, or replace its definition."""
        validate_schedule(schedule)
        return await self._ask("put_schedule", schedule=schedule, seen=seen)

    async def schedules(self, *, tenant: str | None = None) -> list[Schedule]:
        """All schedules, by name."""
        return await self._ask("schedules", tenant=tenant)

    async def delete_schedule(self, name: str, *, tenant: str = "default") -> None:
        """Remove a schedule."""
        await self._ask("delete_schedule", name=name, tenant=tenant)

    def follow(self, job_id: JobId, *, seconds: float | None) -> AsyncIterator[JobEvent]:
        """How the job stands, and then what happens to it, by the service's stream."""
        return self._line.follow(f"/v1/jobs/{ids.text(job_id)}/stream", seconds)

    # Accounts

    async def put_tenant(self, tenant: Tenant, *, seen: Tenant | None = None) -> bool:
        """Create a tenant, or replace it."""
        validate_tenant(tenant)  # here already: a document cannot carry every number
        return await self._ask("put_tenant", tenant=tenant, seen=seen)

    async def get_tenant(self, name: str) -> Tenant:
        """The tenant, or TenantNotFoundError."""
        return await self._ask("get_tenant", name=name)

    async def tenants(self) -> list[Tenant]:
        """Every tenant."""
        return await self._ask("tenants")

    async def delete_tenant(self, name: str) -> None:
        """Remove a tenant with its keys."""
        await self._ask("delete_tenant", name=name)

    async def add_key(self, key: NewKey) -> ApiKey:
        """Store a key."""
        return await self._ask("add_key", key=key)

    async def keys(self, *, tenant: str | None = None) -> list[ApiKey]:
        """Every key."""
        return await self._ask("keys", tenant=tenant)

    async def rotate_key(self, key_id: str, digest: bytes, *, grace: int) -> ApiKey:
        """Give a key a new secret."""
        return await self._ask("rotate_key", key_id=key_id, digest=digest, grace=grace)

    async def revoke_key(self, key_id: str) -> ApiKey:
        """End a key."""
        return await self._ask("revoke_key", key_id=key_id)

    # Life

    async def now(self) -> int:
        """The store's clock."""
        answer = await self._line.call("GET", "/readyz", again=True)
        return micros(msgspec.json.decode(answer, type=_Readiness).now)

    async def migrate(self, *, patience: float = 60.0) -> list[str]:
        """Nothing, if the schema fits; else SchemaError: it is migrated beside its store."""
        await self.ping()
        return []

    async def ping(self) -> None:
        """Return if the service can write to its store."""
        await self._line.call("GET", "/readyz", again=True)

    async def close(self) -> None:
        """Let go of every connection."""
        await self._line.close()

    async def _ask(self, name: str, /, **arguments: Any) -> Any:
        method = METHODS[name]
        body = _written(method.request(**arguments))
        answer = await self._line.call("POST", method.path, body, again=method.is_repeatable)
        return _decoders[name].decode(answer) if name in _decoders else None

    def _session(self, answer: bytes) -> RemoteSession:
        opened = msgspec.json.decode(answer, type=Opened)
        return RemoteSession(self._line, token=opened.token, lease=opened.lease_us)


def _path(token: int) -> str:
    return f"/v1/sessions/{sessions.session_id(token)}"


def _written(body: msgspec.Struct) -> bytes:
    try:
        return _encode(body)
    except UnicodeEncodeError as error:
        raise SubmitError("text has half a character in it, which is no text") from error
