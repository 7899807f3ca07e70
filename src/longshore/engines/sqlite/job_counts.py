"""How many jobs there are, by queue and state: counted, or estimated where counting takes long.

An estimate reads the front of each type up to a bound. Where that is not all, it looks what
became of some jobs, evenly spread over the numbers from the foremost that waits to the newest.
"""

import sqlite3
from collections import Counter
from collections.abc import Collection

import msgspec

from longshore.core.priority_rank import first_ranks
from longshore.core.state import State
from longshore.core.view import QueueCounts
from longshore.engines.sqlite.sql import SQL

__all__ = ["counts", "estimate"]

_BOUND = 10_000
"""Jobs that are counted one by one, of all ready ones and of each other kind."""
_LEAST = 100
"""Of each type, however many types there are."""
_SAMPLE = 2_000
"""Jobs. With so many, an estimate of a quarter of them is within a tenth in 19 of 20 cases."""
_json = msgspec.json.Encoder()
_texts = msgspec.json.Decoder(list[str])
_RANKS = _json.encode(first_ranks()).decode()
_WAITING = (State.READY.value, State.SCHEDULED.value, "parked")

_Facts = dict[str, dict[str, int | None]]
"""By queue, the fields of its counts."""


def counts(db: sqlite3.Connection, tenant: str | None) -> list[QueueCounts]:
    """Every queue at a glance."""
    found: _Facts = {}
    statement = SQL.counts if tenant is None else SQL.counts_of_tenant
    for queue, state, count, unstarted, oldest in db.execute(statement, {"tenant": tenant}):
        facts = found.setdefault(queue, {})
        if state == State.READY:
            facts["oldest_ready_at"] = oldest
        if state == State.RUNNING:
            facts["buffered"] = unstarted
        facts[state] = count
    return _shown(db, found, ())


def estimate(db: sqlite3.Connection) -> list[QueueCounts]:
    """The same, where what waits may be an estimate: a matter of a moment at any depth."""
    found: _Facts = {}
    for queue, state, count, unstarted in db.execute(SQL.counts_settled):
        facts = found.setdefault(queue, {})
        if state == State.RUNNING:
            facts["buffered"] = unstarted
        facts[state] = count
    over, low = _fronts(db, found)
    totals: Counter[str] = Counter()
    for queue, state, count in db.execute(SQL.counts_waiting, {"limit": _BOUND}):
        found.setdefault(queue, {})[state] = count
        totals[state] += count
    many = {state for state, total in totals.items() if total >= _BOUND}
    if over or many:
        over |= _sample(db, found, (over, many), low)
    return _shown(db, found, over)


def _fronts(db: sqlite3.Connection, found: _Facts) -> tuple[set[str], int | None]:
    """Count what is ready, up to the bound; the queues that have more, and where they begin."""
    queues = _texts.decode(db.execute(SQL.queues_ready).fetchone()[0])
    pairs = [
        {"queue": queue, "type": type_name}
        for queue in queues
        for type_name in _texts.decode(
            db.execute(SQL.types_ready, {"queue": queue}).fetchone()[0]
        )
    ]
    limit = max(_BOUND // max(len(pairs), 1), _LEAST)
    over: set[str] = set()
    first: list[int] = []
    for pair in pairs:
        count, oldest, low = db.execute(SQL.counts_front, pair | {"limit": limit}).fetchone()
        if count >= limit:
            over.add(pair["queue"])
            heads = db.execute(SQL.counts_heads, pair | {"ranks": _RANKS}).fetchone()
            oldest, low = min(oldest, heads[0] or oldest), min(low, heads[1] or low)
            first.append(low)
        facts = found.setdefault(pair["queue"], {})
        facts["ready"] = (facts.get("ready") or 0) + count
        before = facts.get("oldest_ready_at")
        facts["oldest_ready_at"] = oldest if before is None else min(before, oldest)
    return over, min(first, default=None)


def _sample(
    db: sqlite3.Connection,
    found: _Facts,
    wanting: tuple[set[str], set[str]],
    low: int | None,
) -> set[str]:
    """Replace what was not counted whole, of these queues and states; the queues it was of."""
    over, many = wanting
    scheduled, high = db.execute(SQL.counts_range).fetchone()
    if many:
        low = min(low if low is not None else high, scheduled or high)
    if low is None or high is None:
        return set()
    step = max(-(-(high - low + 1) // _SAMPLE), 1)
    scope = {"low": low, "step": step, "size": -(-(high - low + 1) // step)}
    told: set[str] = set()
    for queue, *hits in db.execute(SQL.counts_sampled, scope):
        facts = found.setdefault(queue, {})
        for state, hit in zip(_WAITING, hits, strict=True):
            if state in many or (state == State.READY and queue in over):
                facts[state] = max(hit * step, facts.get(state) or 0)
                told.add(queue)
    return told


def _shown(db: sqlite3.Connection, found: _Facts, over: Collection[str]) -> list[QueueCounts]:
    for facts in found.values():
        if parked := facts.get("parked"):
            # They are counted apart; they are ready all the same.
            facts["ready"] = (facts.get("ready") or 0) + parked
    known = {queue for queue, facts in found.items() if facts.keys() != {"pruned"}}
    paused = {queue for queue, type_name in db.execute(SQL.pauses) if queue and not type_name}
    said = {queue for queue, *_ in db.execute(SQL.flows)}
    return [
        QueueCounts(
            queue=queue,
            is_paused=queue in paused,
            is_estimate=queue in over,
            **found.get(queue, {}),  # pyright: ignore[reportArgumentType]  # states are its fields
        )
        for queue in sorted(known | paused | said)
    ]
