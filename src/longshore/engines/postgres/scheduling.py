"""Schedules: keep them, list what is due, fire."""

from collections.abc import Sequence
from functools import partial

import msgspec

from longshore.core.event import Group, Name
from longshore.core.job import JobId, Submitted
from longshore.core.schedule import DueSchedule, Firing, Schedule, Shot
from longshore.core.view import BrokenRecord
from longshore.engines.postgres.database import Connection, Database
from longshore.engines.postgres.holding import Row
from longshore.engines.postgres.recording import Calls
from longshore.engines.postgres.sql import SQL
from longshore.engines.postgres.submitting import submit_in
from longshore.errors import ScheduleNotFoundError
from longshore.runtime.decoding import RecordName, decode_each, decode_or

__all__ = ["delete", "due", "every", "fire", "put"]

_json = msgspec.json.Encoder()
_definition = msgspec.json.Decoder(Schedule)


async def put(database: Calls, schedule: Schedule, *, seen: Schedule | None) -> bool:
    """Create a schedule, or replace its definition, unless it is not what was seen."""

    async def replaced(connection: Connection) -> bool:
        row = await connection.fetchrow(SQL.schedule_lock, schedule.tenant, schedule.name)
        where = RecordName("schedule", schedule.name, schedule.tenant)
        stored = None if row is None else decode_or(None, partial(_read, row), where)
        if stored != seen:
            return False
        await connection.execute(SQL.schedule_put, *_facts(schedule))
        return True

    if seen is not None:
        return await database.transact(replaced)
    await database.fetch(SQL.schedule_put, *_facts(schedule))
    return True


async def every(
    database: Database, *, tenant: str | None, broken: list[BrokenRecord] | None = None
) -> list[Schedule]:
    """All schedules, by name."""
    return decode_each(await database.fetch(SQL.schedules, tenant), _read, _name, broken)


async def delete(database: Calls, name: str, *, tenant: str) -> None:
    """Remove a schedule, or ScheduleNotFoundError."""
    if not await database.fetch(SQL.schedule_delete, tenant, name):
        raise ScheduleNotFoundError(name)


async def due(database: Database, *, limit: int) -> list[DueSchedule]:
    """What has come due."""

    def read(row: Row) -> DueSchedule:
        return DueSchedule(_read(row), row["now"], row["is_last_job_live"])

    asked = limit
    while True:
        rows = await database.fetch(SQL.schedule_due, database.now(), asked)
        broken: list[BrokenRecord] = []
        found = decode_each(rows, read, _name, broken)
        if len(rows) < asked or len(found) >= limit:
            return found
        # Those that cannot be decoded stay due, and must not crowd out the others.
        asked = limit + len(broken)


async def fire(database: Database, firing: Firing) -> list[Submitted]:
    """Take the due times that nobody took before, and move the schedule on."""
    return await database.transact(lambda connection: _fire(connection, database.now(), firing))


async def _fire(connection: Connection, clock: int | None, firing: Firing) -> list[Submitted]:
    where = (firing.tenant, firing.name)
    last_due = max((shot.due for shot in firing.shots), default=firing.expected)
    place = (firing.expected, firing.next_due, last_due)
    if await connection.fetchrow(SQL.schedule_move, *where, *place) is None:
        return []
    shots = await _take(connection, firing)
    if not shots:
        return []
    jobs = [shot.job for shot in shots if shot.job is not None]
    told = [_told(firing, shot) for shot in shots]
    answers = await submit_in(connection, jobs, clock, wakes=True, extra=told)
    if answers:
        await connection.execute(SQL.schedule_last_job, *where, answers[-1].id)
    return answers


async def _take(connection: Connection, firing: Firing) -> Sequence[Shot]:
    """The shots whose due times were not fired before."""
    dues = [shot.due for shot in firing.shots]
    ids = [shot.job.id if shot.job is not None else None for shot in firing.shots]
    rows = await connection.fetch(SQL.firing_add, firing.tenant, firing.name, dues, ids)
    taken = {row["due"] for row in rows}
    return [shot for shot in firing.shots if shot.due in taken]


def _facts(schedule: Schedule) -> tuple[object, ...]:
    plain = msgspec.structs.replace(schedule, next_due=None, last_due=None, last_job=None)
    definition = _json.encode(plain).decode()
    where = (schedule.tenant, schedule.name)
    return (*where, definition, schedule.is_paused, schedule.next_due)


def _told(firing: Firing, shot: Shot) -> Group:
    details: dict[str, object] = {"schedule": firing.name, "due": shot.due}
    if shot.job is None:
        return Group(Name.SCHEDULE_SKIPPED, "", "", firing.tenant, bytes(16), [details])
    job = shot.job
    where = (job.queue, job.type, firing.tenant, job.id)
    return Group(Name.SCHEDULE_FIRED, *where, [details], trace=job.trace)


def _name(row: Row) -> RecordName:
    return RecordName("schedule", row["name"], row["tenant"])


def _read(row: Row) -> Schedule:
    last_job: bytes | None = row["last_job"]
    return msgspec.structs.replace(
        _definition.decode(row["definition"]),
        is_paused=row["is_paused"],
        next_due=row["next_due"],
        last_due=row["last_due"],
        last_job=JobId(last_job) if last_job is not None else None,
    )
