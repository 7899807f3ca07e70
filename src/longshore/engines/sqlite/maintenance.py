"""What schedulers and keepers ask for: promote, reclaim, prune; renew and bury."""

import sqlite3
from collections import Counter
from collections.abc import Sequence

import msgspec

from longshore.contract import Lapsed, Losses, Promoted, Renewed, Retention
from longshore.core.event import Group, Name
from longshore.core.job import Held, JobId, Settlement
from longshore.core.state import State, Verb
from longshore.engines.sqlite import audit_log, fair_claims, ordering_keys, settlement
from longshore.engines.sqlite.claims import held_by
from longshore.engines.sqlite.sql import SQL
from longshore.engines.sqlite.transaction import Transaction
from longshore.errors import LeaseLostError

__all__ = [
    "delete_jobs",
    "end_session",
    "expired_sessions",
    "held",
    "is_set_back",
    "losses",
    "promote",
    "prune",
    "renew",
    "shorten_leases",
]

_json = msgspec.json.Encoder()
_FIRINGS_KEPT_US = 35 * 86_400_000_000
"""Longer than any schedule is set back: a due time that is forgotten could fire again."""
_END_OF_TIME = 2**63 - 1
"""Every lease is over before it."""
_MOST_BYTES = 64 << 20
"""Payloads of the dead that one prune writes into events."""
_LOST_WORKERS, _LOST_JOBS = "lost.workers", "lost.jobs"
"""Names of totals."""


class _Due(msgspec.Struct, array_like=True):
    seq: int
    id: str
    queue: str
    type: str
    tenant: str
    ordering_key: str | None
    trace: str | None


class _Expired(msgspec.Struct, array_like=True):
    seq: int
    id: str
    queue: str
    type: str
    tenant: str
    payload: str
    reason: str | None
    trace: str | None


_due_rows = msgspec.json.Decoder(list[_Due])
_expired_rows = msgspec.json.Decoder(list[_Expired])


def promote(limit: int, transaction: Transaction) -> Promoted:
    """Make due jobs ready."""
    db = transaction.db
    body = db.execute(SQL.due, {"now": transaction.now, "limit": limit}).fetchone()[0]
    rows = _due_rows.decode(body)
    if rows:
        scope = {"seqs": _json.encode([row.seq for row in rows]).decode(), "now": None}
        keyed = [row.seq for row in rows if row.ordering_key is not None]
        if keyed:
            ordering_keys.join_again(transaction, keyed)
        for statement in (SQL.promote, SQL.leave_scheduled):
            db.execute(statement, scope)
        fair_claims.settle_in(transaction, [row.seq for row in rows])
        ids: dict[tuple[tuple[str, str, str], str | None], list[bytes]] = {}
        for row in rows:
            where = (row.queue, row.type, row.tenant)
            ids.setdefault((where, row.trace), []).append(bytes.fromhex(row.id))
        transaction.groups += [
            Group(Name.READY, *where, b"".join(found), trace=trace)
            for (where, trace), found in ids.items()
        ]
        transaction.wakes = True
    opened = ordering_keys.open_due(transaction, limit - len(rows))
    next_due = db.execute(SQL.next_due).fetchone()[0]
    next_due_in = None if next_due is None else max(next_due - transaction.now, 0)
    return Promoted(len(rows) + opened, next_due_in)


def expired_sessions(db: sqlite3.Connection, before: int, limit: int) -> list[Lapsed]:
    """Sessions whose lease ended before `before`, with what they held."""
    sessions = db.execute(SQL.lapsed, {"before": before, "limit": limit}).fetchall()
    return [
        Lapsed(token, worker, [held for held, _ in held_by(db, token)])
        for token, worker in sessions
    ]


def is_set_back(db: sqlite3.Connection, now: int) -> bool:
    """Whether a lease ends so far ahead that the clock must have been set back since."""
    return bool(db.execute(SQL.session_ahead, {"now": now}).fetchone()[0])


def shorten_leases(transaction: Transaction) -> None:
    """After a clock was set back, give every session one full lease and no more."""
    transaction.db.execute(SQL.session_shorten, {"now": transaction.now})


def held(db: sqlite3.Connection, token: int) -> list[Held] | None:
    """What a session holds; None when it has ended."""
    scope = {"token": token, "before": _END_OF_TIME}
    if db.execute(SQL.session_lapsed, scope).fetchone() is None:
        return None
    return [one for one, _ in held_by(db, token)]


def renew(token: int, transaction: Transaction) -> Renewed:
    """Push a live lease's end."""
    db, scope = transaction.db, {"token": token, "now": transaction.now}
    session = db.execute(SQL.session_get, scope).fetchone()
    if session is None:
        raise LeaseLostError(token)
    expires_at = db.execute(SQL.session_renew, scope).fetchone()[0]
    return Renewed(transaction.now, expires_at, is_quiet=bool(session[2]))


def end_session(
    token: int, settlements: Sequence[Settlement], grace: int | None, transaction: Transaction
) -> int:
    """End a session, once; with a grace only if its lease ended so long ago."""
    db = transaction.db
    before = _END_OF_TIME if grace is None else transaction.now - grace
    session = db.execute(SQL.session_lapsed, {"token": token, "before": before}).fetchone()
    if session is None:
        return 0
    held = {(one.handle, one.delivery): one for one, _ in held_by(db, token)}
    decided = {(one.handle, one.delivery): one for one in settlements}
    every = [
        decided.get(reference)
        or Settlement(handle=reference[0], delivery=reference[1], verb=Verb.RELEASE)
        for reference in held
    ]
    settlement.apply(
        transaction,
        (token, session[0]),
        every,
        held,
        {reference for reference, one in held.items() if one.started_at is not None},
        is_burial=True,
    )
    db.execute(SQL.session_close, {"token": token, "now": transaction.now})
    if every:
        for name, number in ((_LOST_WORKERS, 1), (_LOST_JOBS, len(every))):
            db.execute(SQL.total_add, {"name": name, "number": number})
    return len(every)


def losses(db: sqlite3.Connection) -> Losses:
    """How many workers vanished with jobs."""
    names = {"workers": _LOST_WORKERS, "jobs": _LOST_JOBS}
    return Losses(*db.execute(SQL.losses, names).fetchone())


def prune(retention: Retention, limit: int, who: str, transaction: Transaction) -> int:
    """Delete what is past its retention."""
    db, now = transaction.db, transaction.now
    count = 0
    gone: Counter[str] = Counter()
    for state, keep in (
        (State.SUCCEEDED, retention.succeeded),
        (State.CANCELLED, retention.cancelled),
        (State.DEAD, retention.dead),
    ):
        if count < limit:
            count += _prune_jobs(transaction, gone, state, now - keep, limit - count)
    db.execute(SQL.consumers_gone, {"now": now, "before": now - retention.consumer})
    (floor,) = db.execute(SQL.consumers_floor).fetchone()
    for statement, keep in (
        (SQL.prune_idempotency, retention.idempotency),
        (SQL.prune_outbox if floor is None else SQL.prune_passed, retention.outbox),
        (SQL.quarantine_prune, retention.dead),
        # A success is told by its job row, and its worker by the session.
        (SQL.prune_sessions, max(retention.succeeded, retention.dead)),
        (SQL.firing_prune, _FIRINGS_KEPT_US),
        (SQL.bucket_prune, 0),
    ):
        if count < limit:
            scope = {"before": now - keep, "limit": limit - count, "floor": floor}
            count += db.execute(statement, scope).rowcount
    if count < limit:
        before = now - retention.audit
        count += audit_log.cut(transaction, who, before=before, limit=limit - count)
    db.execute(SQL.count_prune, {"limit": limit})
    _count_pruned(db, gone)
    return count


def _count_pruned(db: sqlite3.Connection, gone: Counter[str]) -> None:
    for queue, jobs in gone.items():
        db.execute(SQL.total_add, {"name": f"pruned/{queue}", "number": jobs})
    db.execute(SQL.pruned_forget, {"queues": _json.encode(list(gone)).decode()})


def _prune_jobs(
    transaction: Transaction, gone: Counter[str], state: State, before: int, limit: int
) -> int:
    """Forget them; how many there were, and in `gone` of which queues."""
    scope = {"state": state, "before": before, "limit": limit, "weight": _MOST_BYTES}
    rows = _expired_rows.decode(transaction.db.execute(SQL.expired, scope).fetchone()[0])
    if rows:
        delete_jobs(transaction.db, [row.seq for row in rows])
    for row in rows:
        transaction.count(row.tenant, row.queue, state, -1)
        gone[row.queue] += 1
    if state is State.DEAD:
        transaction.groups += [_purged(row) for row in rows]
    return len(rows)


def delete_jobs(db: sqlite3.Connection, seqs: Sequence[int]) -> None:
    """Remove jobs with all that belongs to them."""
    scope = {"seqs": _json.encode(seqs).decode()}
    for statement in (
        SQL.delete_unique,
        SQL.delete_attempts,
        SQL.delete_progress,
        SQL.leave_finished,
        SQL.delete_jobs,
    ):
        db.execute(statement, scope)


def _purged(row: _Expired) -> Group:
    details: dict[str, object] = {
        "payload": bytes.fromhex(row.payload).decode(errors="replace"),
        "reason": row.reason,
        "who": "retention",
    }
    where = (row.queue, row.type, row.tenant)
    job_id = JobId(bytes.fromhex(row.id))
    return Group(Name.PURGED, *where, job_id, [details], trace=row.trace)
