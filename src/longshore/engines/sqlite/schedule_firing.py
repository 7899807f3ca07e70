"""Schedules: which are due, and firing them."""

import sqlite3

from longshore.contract.maintenance import DueRecord, DueSchedules
from longshore.core.event import Group, Name
from longshore.core.job import Submitted
from longshore.core.schedule import Firing
from longshore.engines.sqlite.records import record_of
from longshore.engines.sqlite.sql import SQL
from longshore.engines.sqlite.submission import submit
from longshore.engines.sqlite.transaction import Transaction

__all__ = ["due", "fire"]


def due(db: sqlite3.Connection, now: int, limit: int) -> DueSchedules:
    """Schedules whose time has come, the earliest first."""
    found = db.execute(SQL.schedule_due, {"now": now, "limit": limit})
    return DueSchedules(now, [DueRecord(record_of(row[:-1]), bool(row[-1])) for row in found])


def fire(firing: Firing, transaction: Transaction) -> list[Submitted]:
    """Take the due times that nobody took before, and move the schedule on."""
    db = transaction.db
    scope: dict[str, object] = {"tenant": firing.tenant, "name": firing.name}
    last_due = max((shot.due for shot in firing.shots), default=firing.expected)
    place = {
        "expected": firing.expected,
        "next_due": firing.next_due,
        "last_due": last_due,
        "version": firing.version,
    }
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
