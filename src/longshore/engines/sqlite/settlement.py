"""Apply settlements: the part that exchange, reclaim and close share."""

import sqlite3
from collections.abc import Container, Iterable, Mapping, Sequence

import msgspec

from longshore.contract import Reference
from longshore.core.event import SETTLED, Group, Name, details, names
from longshore.core.job import Claim, Held, Settlement
from longshore.core.settle import heeding, outcome
from longshore.core.state import TERMINAL, State, Verb, after
from longshore.engines.sqlite import circuit_breakers, fair_claims, ordering_keys
from longshore.engines.sqlite.bulk import ABSENT, BulkStatement, blob
from longshore.engines.sqlite.queue_limits import free
from longshore.engines.sqlite.sql import SQL
from longshore.engines.sqlite.transaction import Transaction

__all__ = ["Holding", "apply", "unwanted"]

_succeed = BulkStatement(SQL.settle_succeeded)
_end = BulkStatement(SQL.settle)
_history = BulkStatement(SQL.settled_history)
_json = msgspec.json.Encoder()
_requests = msgspec.json.Decoder(list[tuple[int, int, str]])
_COUNTED = {
    SETTLED[verb]: after(State.RUNNING, verb) for verb in (Verb.SUCCEED, Verb.KILL, Verb.CANCEL)
}
_DELAYED = {Verb.RETRY, Verb.SNOOZE}
_MOVES = {State.READY: SQL.settle_ready, State.SCHEDULED: SQL.settle_scheduled}
_SUCCEED = Verb.SUCCEED
"""A name of the module: looking into the enumeration for every job took 50 ns each time."""


Known = Claim | Held
"""What the events of a settled job are told from."""

Holding = Mapping[Reference, Known]
"""The jobs of claims that are held."""


def apply(
    transaction: Transaction,
    holder: tuple[int, str],
    settlements: Iterable[Settlement],
    holding: Holding,
    started: Container[Reference],
    *,
    is_burial: bool = False,
) -> list[Reference]:
    """Settle what the holder (token, worker) still holds; what it does not is returned.

    `started` are the claims whose start is on record. Breakers hear nothing from a burial.
    """
    pending = {(one.handle, one.delivery): one for one in settlements}
    if not pending:
        return []
    token, _ = holder
    db = transaction.db
    for reference, reason in unwanted(db, token).items():
        if reference in pending:
            pending[reference] = heeding(pending[reference], reason)
    stale: list[Reference] = []
    db.execute("savepoint settle")
    others = [one for one in pending.values() if one.verb is not _SUCCEED]
    # Of two deliveries of one job, one is over: the statements know jobs, and not both of them.
    has_twice = len({seq for seq, _ in pending}) < len(pending)
    if has_twice or _settle(transaction, holder, pending, others) != len(pending):
        db.execute("rollback to settle")
        stale = [reference for reference in pending if not _is_held(db, token, reference)]
        for reference in stale:
            del pending[reference]
        others = [one for one in pending.values() if one.verb is not _SUCCEED]
        _settle(transaction, holder, pending, others)
    db.execute("release settle")
    if others:
        transaction.wakes |= any(
            after(State.RUNNING, one.verb) is State.READY for one in others
        )
    heard = {} if is_burial else pending
    circuit_breakers.observe(
        transaction,
        (
            (holding[reference].type, holding[reference].tenant, one)
            for reference, one in heard.items()
        ),
    )
    free(transaction, (holding[reference].queue for reference in pending))
    if transaction.ruled.by_lines:
        ordering_keys.leave(transaction, pending.values())
    _tell(transaction, _events(pending, holding, started))
    return stale


def _tell(transaction: Transaction, groups: list[Group]) -> None:
    transaction.groups += groups
    for group in groups:
        if group.name in _COUNTED:
            where = (group.tenant, group.queue, _COUNTED[group.name])
            transaction.count(*where, len(group.ids) // 16)


def unwanted(db: sqlite3.Connection, token: int) -> dict[Reference, str]:
    """The claims held under this token whose jobs were asked to stop, each with the reason."""
    row = db.execute(SQL.unwanted, {"token": token}).fetchone()
    return {(seq, delivery): reason for seq, delivery, reason in _requests.decode(row[0])}


def _settle(
    transaction: Transaction,
    holder: tuple[int, str],
    pending: dict[Reference, Settlement],
    others: list[Settlement],
) -> int:
    """Write the ends; how many claims were still held. `others` are no successes."""
    (token, _), db, now = holder, transaction.db, transaction.now
    succeeded = [
        (
            one.handle,
            one.delivery,
            ABSENT if one.started_at is None else one.started_at,
            one.finished_at or now,
            ABSENT if one.result is None else blob(one.result),
        )
        for one in pending.values()
        if one.verb is _SUCCEED
    ]
    ended = _succeed.run(db, succeeded, token)
    if others:
        ended += _settle_others(transaction, holder, others)
    db.execute(SQL.let_go, {"token": token, "seqs": _array([seq for seq, _ in pending])})
    return ended


def _settle_others(
    transaction: Transaction, holder: tuple[int, str], others: list[Settlement]
) -> int:
    """Write down what was no success, and move the jobs to where they go."""
    (token, worker), db, now = holder, transaction.db, transaction.now
    states = [(one, after(State.RUNNING, one.verb)) for one in others]
    ended = _end.run(db, [_row(one, now) for one in others], token)
    _history.run(db, [_past(one, worker, now) for one in others], token)
    for target, statement in _MOVES.items():
        seqs = [one.handle for one, state in states if state is target]
        if seqs:
            db.execute(statement, {"token": token, "seqs": _array(seqs)})
            if target is State.READY:
                fair_claims.settle_in(transaction, seqs)
    ends = [
        (one.handle, state, _ended_at(one, now), one.reason)
        for one, state in states
        if state in TERMINAL
    ]
    if ends:
        db.execute(SQL.settle_finished, {"token": token, "ends": _array(ends)})
    return ended


def _is_held(db: sqlite3.Connection, token: int, reference: Reference) -> bool:
    scope = {"token": token, "handle": reference[0], "delivery": reference[1]}
    return db.execute(SQL.is_held, scope).fetchone() is not None


def _row(one: Settlement, now: int) -> tuple[object, ...]:
    return (
        one.handle,
        one.delivery,
        now + one.delay if one.verb in _DELAYED else ABSENT,
        one.charge,
        one.crash,
        one.lapse,
        ABSENT if one.started_at is None else one.started_at,
    )


def _past(one: Settlement, worker: str, now: int) -> tuple[object, ...]:
    ended_at = _ended_at(one, now)
    return one.handle, one.delivery, outcome(one), ended_at, _failure(one), worker


def _ended_at(one: Settlement, now: int) -> int:
    return one.finished_at if one.finished_at is not None else now


def _array(values: Sequence[object]) -> str:
    return _json.encode(values).decode()


def _failure(one: Settlement) -> str | int:
    return _json.encode(one.failure).decode() if one.failure is not None else ABSENT


def _events(
    pending: dict[Reference, Settlement], holding: Holding, started: Container[Reference]
) -> list[Group]:
    """The events of these settlements. Those that share all but the job share a group.

    Every job's events stand in their order, because a job's later event is in a later group.
    """
    plain: dict[tuple[bool, str, str, str, str | None], list[bytes]] = {}
    groups: list[Group] = []
    for reference, one in pending.items():
        job, is_started = holding[reference], reference in started
        if one.verb is _SUCCEED:
            key = (is_started, job.queue, job.type, job.tenant, job.trace)
            found = plain.get(key)
            if found is None:
                found = plain[key] = []
            found.append(job.id)
            continue
        facts = [details(one)]
        groups += [
            Group(name, job.queue, job.type, job.tenant, job.id, facts, trace=job.trace)
            for name in names(one, start_is_known=is_started)
        ]
    for (is_started, queue, type_name, tenant, trace), found in plain.items():
        ids, where = b"".join(found), (queue, type_name, tenant)
        if not is_started:
            groups.append(Group(Name.STARTED, *where, ids, trace=trace))
        groups.append(Group(Name.SUCCEEDED, *where, ids, trace=trace))
    return groups
