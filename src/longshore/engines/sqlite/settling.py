"""Apply settlements: the part that exchange, reclaim and close share."""

from collections.abc import Callable, Iterable

import msgspec

from longshore.core.event import Group, Name, names
from longshore.core.job import Claim, Held, Settlement
from longshore.core.settle import outcome
from longshore.core.state import SETTLING, TERMINAL, State, Verb, after
from longshore.engine import Reference
from longshore.engines.sqlite.bulk import BulkInsert
from longshore.engines.sqlite.sql import SQL
from longshore.engines.sqlite.writer import Transaction

__all__ = ["Known", "Lookup", "apply"]

_lay_out = BulkInsert(SQL.settling_add)
_json = msgspec.json.Encoder()
_NEXT: dict[Verb, State] = {verb: after(State.RUNNING, verb) for verb in SETTLING}
_DELAYED = {Verb.RETRY, Verb.SNOOZE}


Known = Claim | Held
"""What the events of a settled job are told from."""

Lookup = Callable[[Reference], tuple[Known, bool]]
"""For a claim that is held: its job, and whether its start is on record."""


def apply(
    transaction: Transaction,
    holder: tuple[int, str],
    settlements: Iterable[Settlement],
    lookup: Lookup,
) -> list[Reference]:
    """Settle what the holder (token, worker) still holds; what it does not is returned."""
    pending = {(one.handle, one.delivery): one for one in settlements}
    if not pending:
        return []
    db = transaction.db
    token, worker = holder
    db.execute(SQL.settling_create)
    db.execute(SQL.settling_clear)
    _lay_out.run(db, [_row(one, transaction.now) for one in pending.values()])
    db.execute("savepoint settle")
    stale: list[Reference] = []
    if db.execute(SQL.settle, {"token": token}).rowcount != len(pending):
        db.execute("rollback to settle")
        stale = [
            (seq, delivery)
            for seq, delivery in db.execute(SQL.settling_stale, {"token": token})
        ]
        db.execute(SQL.settling_drop, {"stale": _json.encode(stale).decode()})
        db.execute(SQL.settle, {"token": token})
        for reference in stale:
            del pending[reference]
    db.execute("release settle")
    if any(one.verb is not Verb.SUCCEED for one in pending.values()):
        db.execute(SQL.settled_history, {"worker": worker})
        transaction.wakes |= any(_NEXT[one.verb] is State.READY for one in pending.values())
    transaction.groups += _events(pending, lookup)
    return stale


def _row(one: Settlement, now: int) -> tuple[object, ...]:
    state = _NEXT[one.verb]
    ended_at = one.finished_at if one.finished_at is not None else now
    failure = one.failure
    return (
        one.handle,
        one.delivery,
        state,
        now + one.delay if one.verb in _DELAYED else None,
        one.charge,
        one.crash,
        one.lapse,
        one.started_at,
        ended_at if state in TERMINAL else None,
        ended_at,
        outcome(one),
        one.result,
        _json.encode(failure).decode() if failure is not None else None,
        one.reason,
    )


def _events(pending: dict[Reference, Settlement], lookup: Lookup) -> list[Group]:
    """The events of these settlements. Those that share all but the job share a group.

    Every job's events stand in their order, because a job's later event is in a later group.
    """
    plain: dict[tuple[bool, str, str, str], list[bytes]] = {}
    groups: list[Group] = []
    for reference, one in pending.items():
        job, is_started = lookup(reference)
        if one.verb is Verb.SUCCEED:
            key = (is_started, job.queue, job.type, job.tenant)
            found = plain.get(key)
            if found is None:
                found = plain[key] = []
            found.append(job.id)
            continue
        details = [_details(one)]
        groups += [
            Group(name, job.queue, job.type, job.tenant, job.id, details)
            for name in names(one, start_is_known=is_started)
        ]
    for (is_started, queue, type_name, tenant), found in plain.items():
        ids = b"".join(found)
        if not is_started:
            groups.append(Group(Name.STARTED, queue, type_name, tenant, ids))
        groups.append(Group(Name.SUCCEEDED, queue, type_name, tenant, ids))
    return groups


def _details(one: Settlement) -> dict[str, object]:
    facts: dict[str, object] = {"delivery": one.delivery}
    if one.failure is not None:
        facts["error"] = {"kind": one.failure.kind, "message": one.failure.message}
    if one.reason is not None:
        facts["reason"] = one.reason
    if one.verb in _DELAYED:
        facts["delay_us"] = one.delay
    return facts
