"""Lines: jobs with an ordering key join one, and leave it when they end."""

from collections.abc import Iterable
from contextlib import suppress

import msgspec

from longshore.core import ordering_key
from longshore.core.audit_record import AuditRecord
from longshore.core.job import JobId
from longshore.core.ordering_key import Line
from longshore.core.state import State
from longshore.engines.postgres.audit_records import record_order
from longshore.engines.postgres.database import Connection, Database, Record
from longshore.engines.postgres.job_locks import Part
from longshore.engines.postgres.sql import SQL
from longshore.errors import EngineBusyError

__all__ = ["blocked", "get", "joining", "joins", "leaving", "look_at", "release"]

_json = msgspec.json.Encoder()
_AT_ONCE = 1_000
"""Lines that are changed in one transaction because of what is said of their queue."""
_PATIENCE = "2s"


async def get(database: Database, queue: str, tenant: str, key: str) -> Line | None:
    """How a line stands."""
    found = await database.fetch(SQL.line_get, queue, tenant, key)
    return _line(found[0]) if found else None


async def blocked(database: Database, tenant: str | None, limit: int) -> list[Line]:
    """The lines that dead jobs block."""
    return [_line(row) for row in await database.fetch(SQL.lines_blocked, tenant, limit)]


async def release(
    database: Database, queue: str, tenant: str, key: str, order: AuditRecord
) -> bool:
    """Let a blocked line go on; whether it was."""

    async def body(connection: Connection) -> bool:
        ordering_key = (queue, tenant, key, database.now())
        was_blocked: bool = await connection.fetchval(SQL.release_line, *ordering_key)
        if was_blocked:
            await record_order(connection, database.now(), order)
        return was_blocked

    return await database.transact(body)


async def look_at(database: Database, queue: str) -> None:
    """Have promote look at all lines of a queue, a part at a time: there may be many.

    Whoever holds a line may have decided by what was said before, so that it is waited for, but
    not for long: it may be a caller's open transaction. Such a line goes on when it changes.
    """
    at, held = ("", ""), list[tuple[str, str]]()
    while found := await database.fetch(SQL.lines_look, queue, *at, _AT_ONCE, database.now()):
        held += [(row["tenant"], row["key"]) for row in found if row["is_held"]]
        at = found[-1]["tenant"], found[-1]["key"]

    async def wait(connection: Connection, tenant: str, key: str) -> None:
        await connection.execute(SQL.lock_patience, _PATIENCE)
        await connection.execute(SQL.line_look, queue, tenant, key, database.now())

    for name in held:
        with suppress(EngineBusyError):
            await database.transact(lambda connection, name=name: wait(connection, *name))


def leaving(jobs: Iterable[Record]) -> str | None:
    """The argument of `leave_lines` for waiting jobs that are cancelled, if it is due."""
    found = [
        {
            "queue": job["queue"],
            "tenant": job["tenant"],
            "key": job["ordering_key"],
            "id": job["id"].hex(),
            "state": State.CANCELLED,
        }
        for job in jobs
        if job["ordering_key"] is not None
        and ordering_key.is_inside(
            State(job["state"]),
            delivery=job["delivery"],
            is_parked=job["home"] == "parked",
        )
    ]
    return _json.encode(found).decode() if found else None


def joins(job: Record) -> bool:
    """Whether a job that is made ready joins a line. A retry has kept its place."""
    is_finished = job["home"] == "finished"
    return job["ordering_key"] is not None and (is_finished or job["delivery"] == 0)


def joining(parts: Iterable[Part], now: int) -> str:
    """The argument of `line_up` for single jobs, ready since now; none of them has failed."""
    found = [
        {
            "segment": part.span["segment"],
            "ordinal": part.jobs[0]["ordinal"],
            "run_at": now,
            "rank": part.span["rank"],
            "delivery": part.jobs[0]["delivery"],
            "attempt": part.jobs[0]["attempt"],
            "is_replayed": part.span["home"] == "finished",
        }
        for part in parts
    ]
    return _json.encode(found).decode()


def _line(row: Record) -> Line:
    return Line(
        queue=row["queue"],
        key=row["key"],
        tenant=row["tenant"],
        inside=row["inside"],
        parked=row["parked"],
        last=None if row["last"] is None else JobId(row["last"]),
        dead=tuple(JobId(one) for one in row["dead"]),
        opens_at=row["opens_at"],
    )
