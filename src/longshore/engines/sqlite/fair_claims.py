"""Hand out jobs of fair queues: tenants take turns."""

import sqlite3
from collections.abc import Sequence
from functools import cache
from itertools import accumulate

import msgspec

from longshore.core.fair_queueing import Turns
from longshore.engines.sqlite.sql import SQL
from longshore.engines.sqlite.transaction import Transaction

__all__ = ["Share", "settle_in", "take"]

_json = msgspec.json.Encoder()
_texts = msgspec.json.Decoder(list[str])
_FEW_TYPES = 8
"""Up to here it costs less to look for jobs of each than to ask first which have any."""
_MOST_TYPES = 400
"""SQLite joins at most 500 selects."""

Past = tuple[int, int, int, int, int]
"""Delivery, attempt, failures, crashes and lapses of a claim."""


class _Ready(msgspec.Struct, array_like=True, gc=False):
    seq: int
    type: str
    rank: int
    size: int
    run_at: int
    delivery: int
    attempt: int
    failures: int
    crashes: int
    lapses: int

    @property
    def past(self) -> Past:
        return (self.delivery, self.attempt, self.failures, self.crashes, self.lapses)


class Share(msgspec.Struct, gc=False):
    """What was taken of a fair queue, in order."""

    run_ats: dict[int, int]
    """Which jobs, and when each was or became due."""
    pasts: dict[int, Past]
    """Of those that were delivered before."""
    weight: int
    """Bytes of payload."""


_rows = msgspec.json.Decoder(list[_Ready])
_lanes = msgspec.json.Decoder(list[tuple[str, int | None, int]])


def take(
    db: sqlite3.Connection,
    exchange: tuple[int, int],
    where: tuple[str, int, Sequence[str]],
    want: int,
    most_bytes: int,
) -> Share:
    """Hand up to `want` jobs of a fair queue (its name, how far it is, types) to an exchange.

    They weigh no more than `most_bytes`, but one passes.
    """
    queue, at, types = where
    found = _lanes.decode(db.execute(SQL.lanes, {"queue": queue}).fetchone()[0])
    times = {name: vtime for name, vtime, _ in found if vtime is not None}
    turns = Turns(at, times, {name: weight for name, _, weight in found})
    lanes = {name: _Lane(db, queue, name, types) for name, *_ in found}
    taken: list[_Ready] = []
    weight = 0
    while len(taken) < want and weight < most_bytes and (turn := turns.next()):
        name, most = turn
        asked = min(most, want - len(taken))
        part = lanes[name].take(asked)
        weights = list(accumulate((row.size for row in part), initial=weight))
        while part and weights[-1] > most_bytes and len(taken) + len(part) > 1:
            part.pop()
            weights.pop()
            most_bytes = min(most_bytes, weights[-1])
        turns.took(name, len(part), has_more=len(part) == asked)
        taken += part
        weight = weights[-1]
    if taken:
        _hand_over(db, exchange, queue, taken)
        _note(db, queue, at, turns)
    return Share(
        {row.seq: row.run_at for row in taken},
        {row.seq: row.past for row in taken if row.delivery > 1},
        weight,
    )


def settle_in(transaction: Transaction, seqs: Sequence[int]) -> None:
    """Jobs became ready: let those of fair queues be in their lanes."""
    if transaction.ruled.by_lanes:
        transaction.db.execute(SQL.lane_put, {"seqs": _json.encode(seqs).decode()})


class _Lane:
    """The ready jobs of one tenant, read as far as they are needed."""

    def __init__(
        self, db: sqlite3.Connection, queue: str, name: str, types: Sequence[str]
    ) -> None:
        self._db = db
        self._queue = queue
        self._name = name
        self._types = types
        self._rows: list[_Ready] = []
        self._taken = 0
        self._is_whole = False

    def take(self, count: int) -> list[_Ready]:
        """The next ones."""
        end = self._taken + count
        if end > len(self._rows) and not self._is_whole:
            if not self._rows and len(self._types) > _FEW_TYPES:
                self._types = self._present()
            # Whoever comes back is likely to come back once more.
            limit = end + self._taken
            self._rows = self._read(limit) if self._types else []
            self._is_whole = len(self._rows) < limit
        part = self._rows[self._taken : end]
        self._taken += len(part)
        return part

    def _present(self) -> list[str]:
        scope = {"queue": self._queue, "lane": self._name}
        present = _texts.decode(self._db.execute(SQL.lane_types, scope).fetchone()[0])
        served = set(self._types)
        return [name for name in present if name in served][:_MOST_TYPES]

    def _read(self, limit: int) -> list[_Ready]:
        parameters: list[object] = []
        for name in self._types:
            parameters += (self._queue, self._name, name)
        row = self._db.execute(merged(len(self._types)), [*parameters, limit]).fetchone()
        return _rows.decode(row[0])


def _hand_over(
    db: sqlite3.Connection, exchange: tuple[int, int], queue: str, taken: Sequence[_Ready]
) -> None:
    token, number = exchange
    jobs = _json.encode([(row.type, row.rank, row.seq) for row in taken]).decode()
    scope = {"token": token, "number": number, "queue": queue, "jobs": jobs}
    db.execute(SQL.claim_places, scope)
    db.execute(SQL.leave_ready, {"seqs": _json.encode([row.seq for row in taken]).decode()})


def _note(db: sqlite3.Connection, queue: str, before: int, turns: Turns) -> None:
    times = {name: at for name, at in turns.changed.items() if at > turns.at}
    db.execute(SQL.fair_put, {"queue": queue, "times": _json.encode(times).decode()})
    if turns.at > before:
        db.execute(SQL.flow_move, {"queue": queue, "at": turns.at})
        db.execute(SQL.fair_prune, {"queue": queue, "at": turns.at})


@cache
def merged(types: int) -> str:
    """The statement that reads a lane's first jobs, of that many types."""
    union = "\nunion all\n".join([SQL.lane_claimable] * types)
    return f"{SQL.lane_front}(\n{union}\n{SQL.claimable_end})"
