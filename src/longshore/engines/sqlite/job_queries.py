"""What people and APIs ask for and order."""

import sqlite3
from collections.abc import Sequence
from typing import Any

import msgspec

from longshore.contract import Fleet, JobChange, JobFilter, Page, SessionView
from longshore.core import audit_record, circuit_breaker, ids
from longshore.core.event import Group, Name
from longshore.core.job import Attempt, Job, JobId
from longshore.core.state import State, check_change
from longshore.core.view import JobOrder
from longshore.engines.sqlite import circuit_breakers, fair_claims, ordering_keys, rows
from longshore.engines.sqlite.audit_records import record_order
from longshore.engines.sqlite.maintenance import delete_jobs, losses
from longshore.engines.sqlite.sql import SQL
from longshore.engines.sqlite.transaction import Transaction
from longshore.errors import IllegalTransitionError, JobNotFoundError
from longshore.runtime.cursor import read_cursor, write_cursor
from longshore.runtime.decoding import RecordName, decode_each

__all__ = [
    "attempts",
    "change",
    "find",
    "get",
    "sessions",
]

_json = msgspec.json.Encoder()
_texts = msgspec.json.Decoder(tuple[str, ...])
_Numbered = tuple[int, Job]
_NEWEST = 2**63 - 1
_IN = {
    None: SQL.in_any,
    State.SCHEDULED: SQL.in_scheduled,
    State.READY: SQL.in_ready,
    State.RUNNING: SQL.in_held,
    State.SUCCEEDED: SQL.in_succeeded,
    State.DEAD: SQL.in_finished,
    State.CANCELLED: SQL.in_finished,
}


def get(db: sqlite3.Connection, job_id: JobId, tenant: str | None) -> Job:
    """The job, or JobNotFoundError."""
    return circuit_breaker.parked(
        [_numbered(db, job_id, tenant)[1]], circuit_breakers.standings(db)
    )[0]


def find(db: sqlite3.Connection, which: JobFilter, limit: int, cursor: str | None) -> Page:
    """Jobs newest first."""
    before = _NEWEST if cursor is None else read_cursor(cursor, which)
    scope = {**msgspec.structs.asdict(which), "before": before, "limit": limit + 1}
    found = db.execute(SQL.job_columns + _IN[which.state] + SQL.job_find, scope).fetchall()
    shown = found[:limit]
    more = write_cursor(shown[-1][0], which) if len(found) > limit and shown else None
    jobs = circuit_breaker.parked(
        [rows.job(row) for row in shown], circuit_breakers.standings(db)
    )
    return Page(jobs, more)


def attempts(db: sqlite3.Connection, job_id: JobId, tenant: str | None) -> list[Attempt]:
    """The deliveries that ended."""
    seq, job = _numbered(db, job_id, tenant)
    history = [rows.attempt(row) for row in db.execute(SQL.attempts, {"seq": seq})]
    if job.state is State.SUCCEEDED:
        worker = db.execute(SQL.last_worker, {"seq": seq}).fetchone()
        history.append(
            Attempt(
                delivery=job.delivery,
                attempt=job.attempt,
                outcome="succeeded",
                worker=worker[0] if worker else None,
                started_at=job.started_at,
                finished_at=job.finished_at,
            )
        )
    return history


def sessions(db: sqlite3.Connection, now: int) -> Fleet:
    """Live leases, and how many workers vanished."""
    rows = db.execute(SQL.sessions, {"now": now})
    found = decode_each(rows, _session, lambda row: RecordName("session", str(row[0])))
    return Fleet(now, found, losses(db))


def change(order: JobOrder, transaction: Transaction) -> list[Job]:
    """Cancel jobs, make them ready, or delete them; those that changed, as they are now."""
    db = transaction.db
    found = _allowed(db, order)
    if found:
        done = [job.id for _, job in found]
        record_order(transaction, audit_record.jobs_changed(order, done))
    match order.change:
        case "cancel":
            _cancel(found, order.reason, transaction)
        case "replay" | "retry":
            _make_ready(found, order.change, transaction)
        case "purge":
            _purge(found, order.actor, transaction)
            purged = {job.id: job for _, job in found}
            return [purged[job_id] for job_id in order.job_ids if job_id in purged]
    changed = {job.id: get(db, job.id, order.tenant) for _, job in found}
    return [changed[job_id] for job_id in order.job_ids if job_id in changed]


def _cancel(found: Sequence[_Numbered], reason: str, transaction: Transaction) -> None:
    """End what waits; ask the holders of what runs."""
    db = transaction.db
    waiting = [seq for seq, job in found if job.state is not State.RUNNING]
    running = [(seq, job) for seq, job in found if job.state is State.RUNNING]
    scope = {"seqs": _array(waiting), "now": transaction.now, "reason": reason}
    for statement in (SQL.cancel, SQL.leave_ready, SQL.leave_parked, SQL.leave_scheduled):
        db.execute(statement, scope)
    scope = {"seqs": _array([seq for seq, _ in running]), "reason": reason}
    db.execute(SQL.cancel_request, scope)
    ended = [job for _, job in found if job.state is not State.RUNNING]
    asked = [job for _, job in running if not job.cancel_requested]
    ordering_keys.leave_waiting(transaction, ended)
    details: dict[str, object] = {"reason": reason}
    transaction.groups += [_event(Name.CANCELLED, job, details) for job in ended]
    for job in ended:
        _leave(transaction, job)
        transaction.count(job.tenant, job.queue, State.CANCELLED, 1)
    transaction.groups += [_event(Name.CANCEL_REQUESTED, job, details) for job in asked]
    transaction.calls |= bool(running)


def _make_ready(
    found: Sequence[_Numbered], change: JobChange, transaction: Transaction
) -> None:
    """Replay dead or cancelled jobs, or run scheduled ones now."""
    db = transaction.db
    scope = {"seqs": _array([seq for seq, _ in found]), "now": transaction.now}
    if change == "replay":
        name, statements = Name.REPLAYED, (SQL.replay, SQL.leave_finished, SQL.delete_progress)
    else:
        name, statements = Name.READY, (SQL.promote, SQL.leave_scheduled)
    ordering_keys.join_again(
        transaction, [seq for seq, job in found if job.ordering_key], now=True
    )
    for statement in statements:
        db.execute(statement, scope)
    fair_claims.settle_in(transaction, [seq for seq, _ in found])
    for _, job in found:
        transaction.groups.append(_event(name, job, {}))
        _leave(transaction, job)
    transaction.wakes |= bool(found)


def _purge(found: Sequence[_Numbered], who: str, transaction: Transaction) -> None:
    """Delete finished jobs, leaving events that hold their payloads."""
    delete_jobs(transaction.db, [seq for seq, _ in found])
    for _, job in found:
        _leave(transaction, job)
        details: dict[str, object] = {
            "payload": job.payload.decode(errors="replace"),
            "reason": job.reason,
            "who": who,
        }
        transaction.groups.append(_event(Name.PURGED, job, details))


def _session(row: tuple[Any, ...]) -> SessionView:
    return SessionView(
        token=row[0],
        worker=row[1],
        queues=_texts.decode(row[2]),
        types=_texts.decode(row[3]),
        opened_at=row[4],
        renewed_at=row[5],
        expires_at=row[6],
        is_quiet=bool(row[7]),
        holding=row[8],
    )


def _numbered(db: sqlite3.Connection, job_id: JobId, tenant: str | None) -> _Numbered:
    scope = {"id": job_id, "tenant": tenant}
    row = db.execute(SQL.job_columns + SQL.job_by_id, scope).fetchone()
    if row is None:
        raise JobNotFoundError(ids.text(job_id))
    return row[0], rows.job(row)


def _allowed(db: sqlite3.Connection, order: JobOrder) -> list[_Numbered]:
    """The jobs, each once, if all can be changed so; with `independent` those that can."""
    found: list[_Numbered] = []
    for job_id in dict.fromkeys(order.job_ids):
        try:
            seq, job = _numbered(db, job_id, order.tenant)
            check_change(job.state, order.change)
        except (JobNotFoundError, IllegalTransitionError):
            if order.independent:
                continue
            raise
        found.append((seq, job))
    return found


def _leave(transaction: Transaction, job: Job) -> None:
    transaction.count(job.tenant, job.queue, job.state, -1)


def _event(name: Name, job: Job, details: dict[str, object]) -> Group:
    where = (job.queue, job.type, job.tenant, job.id)
    return Group(name, *where, [details] if details else [], trace=job.trace)


def _array(seqs: list[int]) -> str:
    return _json.encode(seqs).decode()
