"""Schedules: which are due, and firing them."""

from collections.abc import Sequence

from longshore.contract.maintenance import DueRecord, DueSchedules
from longshore.core.event import Group, Name
from longshore.core.job import Submitted
from longshore.core.schedule import Firing, Shot
from longshore.engines.postgres.database import Connection, Database
from longshore.engines.postgres.records import record_of
from longshore.engines.postgres.sql import SQL
from longshore.engines.postgres.submission import submit_in

__all__ = ["due", "fire"]


async def due(database: Database, *, limit: int) -> DueSchedules:
    """Schedules whose time has come, the earliest first."""
    rows = await database.fetch(SQL.schedule_due, database.now(), limit)
    found = [
        DueRecord(record_of(row), row["is_last_job_live"])
        for row in rows
        if row["kind"] is not None
    ]
    return DueSchedules(rows[0]["now"], found)


async def fire(database: Database, firing: Firing) -> list[Submitted]:
    """Take the due times that nobody took before, and move the schedule on."""
    return await database.transact(lambda connection: _fire(connection, database.now(), firing))


async def _fire(connection: Connection, clock: int | None, firing: Firing) -> list[Submitted]:
    where = (firing.name, firing.tenant)
    last_due = max((shot.due for shot in firing.shots), default=firing.expected)
    place = (firing.expected, firing.next_due, last_due, firing.version)
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


def _told(firing: Firing, shot: Shot) -> Group:
    details: dict[str, object] = {"schedule": firing.name, "due": shot.due}
    if shot.job is None:
        return Group(Name.SCHEDULE_SKIPPED, "", "", firing.tenant, bytes(16), [details])
    job = shot.job
    where = (job.queue, job.type, firing.tenant, job.id)
    return Group(Name.SCHEDULE_FIRED, *where, [details], trace=job.trace)
