"""Hand out jobs. What may not be taken is not looked at."""

import sqlite3
from bisect import bisect_right
from collections.abc import Sequence
from functools import cache
from itertools import accumulate

import msgspec

from longshore.core.job import Claim, Held, JobId
from longshore.engines.sqlite.sql import SQL

__all__ = ["claim", "claimed", "handed_out", "held_by"]

_json = msgspec.json.Encoder()
_texts = msgspec.json.Decoder(list[str])
_tags = msgspec.json.Decoder(tuple[str, ...])
_MOST_TYPES = 400
"""SQLite joins at most 500 selects."""
_MANY_QUEUES = 16
"""From here on it pays to ask first which queues have anything at all."""
_MANY_TYPES = 64
"""From here on it pays to ask first which types can be among the first jobs at all."""
_MOST_BYTES = 64 << 20
"""Payloads of one claim. They are read as one text, which SQLite ends at a gigabyte."""


class _Claimed(msgspec.Struct, array_like=True, gc=False):
    handle: int
    delivery: int
    type: str
    queue: str
    tenant: str
    size: int
    priority: int
    attempt: int
    failures: int
    crashes: int
    lapses: int
    max_attempts: int
    timeout: int | None
    created_at: int
    run_at: int
    trace: str | None
    tags: str | None


class _Held(msgspec.Struct, array_like=True, gc=False):
    handle: int
    delivery: int
    id: str
    type: str
    queue: str
    tenant: str
    started_at: int | None
    attempt: int
    failures: int
    crashes: int
    lapses: int
    max_attempts: int
    cancel_requested: bool
    alone: bool
    claimed_by: int


class _Front(msgspec.Struct, gc=False):
    """The first jobs of some types in a queue.

    They are all up to a last one, of each type: what is taken is told by its place alone.
    """

    queue: str
    types: Sequence[str]
    seqs: list[int]
    """In order."""
    rank: int
    """Of the last one."""
    weight: int
    """Bytes of payload."""


_claimed_rows = msgspec.json.Decoder(list[_Claimed])
_held_rows = msgspec.json.Decoder(list[_Held])
_handed_out = msgspec.json.Decoder(list[tuple[str, int, int]])
_type_heads = msgspec.json.Decoder(list[tuple[int, int, str]])
_sizes = msgspec.json.Decoder(list[tuple[int, int]])
_seqs = msgspec.json.Decoder(list[int])
_unhex = bytes.fromhex


def claim(
    db: sqlite3.Connection,
    exchange: tuple[int, int],
    want: int,
    *,
    queues: Sequence[str],
    types: frozenset[str],
) -> tuple[list[int], bool]:
    """Hand up to `want` jobs to this exchange (token, number).

    Returns which, in order, and whether all queues are paused. `claimed` reads them.
    """
    paused = {(queue, type_name) for queue, type_name in db.execute(SQL.pauses)}
    open_queues = [queue for queue in queues if (queue, "") not in paused]
    if want <= 0 or not open_queues:
        return [], not open_queues
    if len(open_queues) > _MANY_QUEUES:
        busy = set(_texts.decode(db.execute(SQL.queues_ready).fetchone()[0]))
        open_queues = [queue for queue in open_queues if queue in busy]
    taken: list[int] = []
    weight = 0
    for queue in open_queues:
        present = _texts.decode(db.execute(SQL.types_ready, {"queue": queue}).fetchone()[0])
        offered = [
            type_name
            for type_name in present
            if type_name in types
            and ("", type_name) not in paused
            and (queue, type_name) not in paused
        ]
        room = want - len(taken)
        if len(offered) > _MOST_TYPES:
            room = min(room, _MOST_TYPES)
        front = _front(db, queue, offered, room) if offered else None
        if front is None:
            continue
        is_whole = weight + front.weight <= _MOST_BYTES
        if not is_whole:
            front = _within_weight(db, front, _MOST_BYTES - weight, least=not taken)
        _take(db, exchange, front)
        taken += front.seqs
        weight += front.weight
        if not is_whole or len(front.seqs) == room:
            break
    return taken, False


def handed_out(
    db: sqlite3.Connection, exchange: tuple[int, int], queues: Sequence[str]
) -> list[int]:
    """What this exchange handed out and is still held, in the order of its claim."""
    token, number = exchange
    body = db.execute(SQL.handed_out, {"token": token, "number": number}).fetchone()[0]
    places = {queue: place for place, queue in enumerate(queues)}
    found = sorted(
        (places.get(queue, 0), rank, seq) for queue, rank, seq in _handed_out.decode(body)
    )
    return [seq for _, _, seq in found]


def claimed(
    db: sqlite3.Connection, exchange: tuple[int, int], seqs: Sequence[int]
) -> list[Claim]:
    """Those of the jobs that this exchange still holds, in their order."""
    token, number = exchange
    scope = {"token": token, "number": number, "seqs": _json.encode(seqs).decode()}
    ids, payloads, body = db.execute(SQL.claimed, scope).fetchone()
    claims: list[Claim] = []
    at = 0
    for place, row in enumerate(_claimed_rows.decode(body)):
        end = at + row.size
        claims.append(
            Claim(
                row.handle,
                row.delivery,
                JobId(ids[place * 16 : place * 16 + 16]),
                row.type,
                row.queue,
                row.tenant,
                payloads[at:end],
                row.priority,
                row.attempt,
                row.failures,
                row.crashes,
                row.lapses,
                row.max_attempts,
                row.timeout,
                row.created_at,
                row.run_at,
                row.trace,
                _tags.decode(row.tags) if row.tags else (),
            )
        )
        at = end
    return claims


def held_by(db: sqlite3.Connection, token: int) -> list[tuple[Held, int]]:
    """Everything a session holds, each with the number of the exchange that handed it out."""
    body = db.execute(SQL.held, {"token": token}).fetchone()[0]
    return [
        (
            Held(
                row.handle,
                row.delivery,
                JobId(_unhex(row.id)),
                row.type,
                row.queue,
                row.tenant,
                row.started_at,
                row.attempt,
                row.failures,
                row.crashes,
                row.lapses,
                row.max_attempts,
                row.cancel_requested,
                row.alone,
            ),
            row.claimed_by,
        )
        for row in _held_rows.decode(body)
    ]


def _front(
    db: sqlite3.Connection, queue: str, types: Sequence[str], want: int
) -> _Front | None:
    """The first jobs of a queue, of all these types together."""
    if len(types) > max(want, _MANY_TYPES):
        types = _foremost(db, queue, types)[:want]
    parameters: list[object] = []
    for type_name in types:
        parameters += (queue, type_name)
    body, rank, weight = db.execute(_merged(len(types)), [*parameters, want]).fetchone()
    seqs = _seqs.decode(body)
    return _Front(queue, types, seqs, rank, weight) if seqs else None


def _take(db: sqlite3.Connection, exchange: tuple[int, int], front: _Front) -> None:
    if not front.seqs:
        return
    token, number = exchange
    where: dict[str, object] = {
        "queue": front.queue,
        "types": _json.encode(front.types).decode(),
        "rank": front.rank,
        "seq": front.seqs[-1],
    }
    db.execute(SQL.claim, {"token": token, "number": number, **where})
    db.execute(SQL.claim_ready, where)


def _foremost(db: sqlite3.Connection, queue: str, types: Sequence[str]) -> list[str]:
    """The types by their first jobs. The first n jobs are of the first n of these."""
    scope = {"queue": queue, "types": _json.encode(types).decode()}
    heads = _type_heads.decode(db.execute(SQL.type_heads, scope).fetchone()[0])
    return [type_name for _, _, type_name in sorted(heads)]


def _within_weight(db: sqlite3.Connection, front: _Front, most: int, *, least: bool) -> _Front:
    """As many of them, in order, as weigh no more than `most`; with `least` one passes."""
    found = _sizes.decode(
        db.execute(SQL.sizes, {"seqs": _json.encode(front.seqs).decode()}).fetchone()[0]
    )
    weights = list(accumulate(size for size, _ in found))
    count = max(bisect_right(weights, most), int(least))
    if not count:
        return msgspec.structs.replace(front, seqs=[], weight=0)
    return msgspec.structs.replace(
        front, seqs=front.seqs[:count], rank=found[count - 1][1], weight=weights[count - 1]
    )


@cache
def _merged(types: int) -> str:
    """The claim's statement for that many types: which jobs, the last rank, the weight."""
    union = "\nunion all\n".join([SQL.claimable] * types)
    jobs = f"\n{union}\n{SQL.claimable_end}"
    return f"select json_group_array(seq), max(rank), sum(size) from ({jobs})"
