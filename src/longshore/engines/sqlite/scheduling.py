"""Schedules: keep them, list what is due, fire."""

import sqlite3
from functools import partial
from typing import Any

import msgspec

from longshore.core.event import Group, Name
from longshore.core.job import JobId, Submitted
from longshore.core.schedule import DueSchedule, Firing, Schedule
from longshore.core.view import BrokenRecord
from longshore.engines.sqlite.sql import SQL
from longshore.engines.sqlite.submitting import submit
from longshore.engines.sqlite.transaction import Transaction
from longshore.errors import ScheduleNotFoundError
from longshore.runtime.decoding import RecordName, decode_each, decode_or

__all__ = ["delete", "due", "every", "fire", "put"]

_json = msgspec.json.Encoder()
_definition = msgspec.json.Decoder(Schedule)
_Row = tuple[str, str, str, int, int | None, int | None, bytes | None]


def put(schedule: Schedule, seen: Schedule | None, transaction: Transaction) -> bool:
    """Create a schedule, or replace its definition, unless it is not what was seen."""
    scope: dict[str, object] = {
        "tenant": schedule.tenant,
        "name": schedule.name,
        "definition": _json.encode(
            msgspec.structs.replace(schedule, next_due=None, last_due=None, last_job=None)
        ).decode(),
        "is_paused": schedule.is_paused,
        "next_due": schedule.next_due,
    }
    if seen is not None:
        where = {"tenant": schedule.tenant, "name": schedule.name}
        row = transaction.db.execute(SQL.schedule_get, where).fetchone()
        stored = None if row is None else decode_or(None, partial(_read, row), _name(row))
        if stored != seen:
            return False
    transaction.db.execute(SQL.schedule_put, scope)
    return True


def every(
    db: sqlite3.Connection, tenant: str | None, broken: list[BrokenRecord] | None = None
) -> list[Schedule]:
    """All schedules, by name."""
    found = db.execute(SQL.schedules, {"tenant": tenant})
    return decode_each(found, _read, _name, broken)


def delete(name: str, tenant: str, transaction: Transaction) -> None:
    """Remove a schedule, or ScheduleNotFoundError."""
    scope = {"name": name, "tenant": tenant}
    if transaction.db.execute(SQL.schedule_delete, scope).rowcount == 0:
        raise ScheduleNotFoundError(name)


def due(db: sqlite3.Connection, now: int, limit: int) -> list[DueSchedule]:
    """What has come due."""

    def read(row: tuple[Any, ...]) -> DueSchedule:
        return DueSchedule(_read(row[:7]), now, bool(row[7]))

    asked = limit
    while True:
        rows = db.execute(SQL.schedule_due, {"now": now, "limit": asked}).fetchall()
        broken: list[BrokenRecord] = []
        found = decode_each(rows, read, _name, broken)
        if len(rows) < asked or len(found) >= limit:
            return found
        # Those that cannot be decoded stay due, and must not crowd out the others.
        asked = limit + len(broken)


def fire(firing: Firing, transaction: Transaction) -> list[Submitted]:
    """Take the due times that nobody took before, and move the schedule on."""
    db = transaction.db
    scope: dict[str, object] = {"tenant": firing.tenant, "name": firing.name}
    last_due = max((shot.due for shot in firing.shots), default=firing.expected)
    place = {"expected": firing.expected, "next_due": firing.next_due, "last_due": last_due}
    if db.execute(SQL.schedule_move, {**scope, **place}).rowcount == 0:
        return []
    answers: list[Submitted] = []
    for shot in firing.shots:
        job_id = shot.job.id if shot.job else None
        taken = db.execute(SQL.firing_add, {**scope, "due": shot.due, "id": job_id}).rowcount
        if taken and shot.job is not None:
            (answer,) = submit(transaction, [shot.job])
            answers.append(answer)
            db.execute(SQL.schedule_last_job, {**scope, "id": answer.id})
        name = Name.SCHEDULE_FIRED if shot.job else Name.SCHEDULE_SKIPPED
        if taken:
            details: dict[str, object] = {"schedule": firing.name, "due": shot.due}
            where = (shot.job.queue, shot.job.type) if shot.job else ("", "")
            trace = shot.job.trace if shot.job else None
            transaction.groups.append(
                Group(name, *where, firing.tenant, job_id or bytes(16), [details], trace=trace)
            )
    return answers


def _name(row: tuple[Any, ...]) -> RecordName:
    return RecordName("schedule", row[1], row[0])


def _read(row: _Row) -> Schedule:
    _, _, definition, is_paused, next_due, last_due, last_job = row
    return msgspec.structs.replace(
        _definition.decode(definition),
        is_paused=bool(is_paused),
        next_due=next_due,
        last_due=last_due,
        last_job=JobId(last_job) if last_job is not None else None,
    )
