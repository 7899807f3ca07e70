"""Hand out jobs. What may not be taken is not looked at."""

import sqlite3
from bisect import bisect_right
from collections.abc import Iterable, Sequence, Set
from functools import cache
from itertools import accumulate

import msgspec

from longshore.core.job import Claim, Held, JobId
from longshore.engines.sqlite import fair_claims
from longshore.engines.sqlite.circuit_breakers import Gate
from longshore.engines.sqlite.queue_limits import Limits
from longshore.engines.sqlite.sql import SQL
from longshore.engines.sqlite.transaction import Transaction
from longshore.runtime.decoding import decoded_tags

__all__ = ["Taken", "claim", "claimed", "handed_out", "held_by"]

_json = msgspec.json.Encoder()
_texts = msgspec.json.Decoder(list[str])
_FEW_TYPES = 8
"""Up to here it costs less to look for jobs of each than to ask first which have any."""
_MOST_TYPES = 400
"""SQLite joins at most 500 selects."""
_MANY_QUEUES = 16
"""From here on it pays to ask first which queues have anything at all."""
_MANY_TYPES = 64
"""From here on it pays to ask first which types can be among the first jobs at all."""
_MOST_BYTES = 64 << 20
"""Payloads of one claim. They are read as one text, which SQLite ends at a gigabyte."""


_Past = tuple[int, int, int, int, int]
"""Delivery, attempt, failures, crashes and lapses of a claim."""
_FIRST: _Past = (1, 0, 0, 0, 0)


class Taken(msgspec.Struct, gc=False):
    """What a claim took, as it stood in the queue."""

    run_ats: dict[int, int]
    """Which jobs, in order, and when each was or became due."""
    pasts: dict[int, _Past]
    """Of those that were delivered before."""
    fair: tuple[str, ...] = ()
    """The queues of these whose tenants took turns, by name."""

    def __len__(self) -> int:
        return len(self.run_ats)


class _Facts(msgspec.Struct, array_like=True, gc=False):
    handle: int
    type: str
    queue: str
    tenant: str
    size: int
    priority: int
    max_attempts: int
    timeout: int | None
    created_at: int
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
    trace: str | None


class _Front(msgspec.Struct, gc=False):
    """The first jobs of some types in a queue.

    They are all up to a last one, of each type: what is taken is told by its place alone.
    """

    queue: str
    types: Sequence[str]
    seqs: list[int]
    """In order."""
    run_ats: list[int]
    pasts: list[tuple[int, _Past]]
    """Of those that were delivered before."""
    rank: int
    """Of the last one."""
    weight: int
    """Bytes of payload."""


_facts = msgspec.json.Decoder(list[_Facts])
_held_rows = msgspec.json.Decoder(list[_Held])
_handed_out = msgspec.json.Decoder(list[tuple[str, int, int, int, int, _Past]])
_type_heads = msgspec.json.Decoder(list[tuple[int, int, str]])
_sizes = msgspec.json.Decoder(list[tuple[int, int]])
_numbers = msgspec.json.Decoder(list[int])
_pasts = msgspec.json.Decoder(list[tuple[int, _Past]])
_unhex = bytes.fromhex


def claim(
    transaction: Transaction,
    exchange: tuple[int, int],
    want: int,
    *,
    queues: Sequence[str],
    types: frozenset[str],
) -> tuple[Taken, bool, int | None]:
    """Hand up to `want` jobs to this exchange (token, number).

    Returns which, whether all queues are paused, and, if a limit held jobs back, when it pays
    to ask again. `claimed` reads them.
    """
    db = transaction.db
    paused = _pauses(transaction)
    open_queues = [queue for queue in queues if (queue, "") not in paused]
    if want <= 0 or not open_queues:
        return Taken({}, {}), not open_queues, None
    if len(open_queues) > _MANY_QUEUES:
        busy = set(_texts.decode(db.execute(SQL.queues_ready).fetchone()[0]))
        open_queues = [queue for queue in open_queues if queue in busy]
    limits = Limits(transaction)
    gate = Gate(transaction, types)
    # Probes go alone: what a breaker waits for is few, and comes first.
    takes = [(frozenset({type_name}), room) for type_name, room in gate.probes.items()]
    taken = Taken({}, {})
    for some, room in [*takes, (types - gate.shut, want)]:
        claiming = _Claiming(db, exchange, some, paused, limits, min(room, want))
        for queue in open_queues:
            if not claiming.take(queue):
                break
        taken = claiming.taken
        if taken:
            break
    if transaction.freed:
        transaction.freed -= limits.full
    looks = [limits.look_in, gate.look_in if len(taken) < want else None]
    return taken, False, min((one for one in looks if one is not None), default=None)


def _pauses(transaction: Transaction) -> set[tuple[str, str]]:
    """The queues and types that are paused."""
    if not transaction.ruled.by_pauses:
        return set()
    return {(queue, type_name) for queue, type_name in transaction.db.execute(SQL.pauses)}


class _Claiming:
    """A claim that goes from queue to queue."""

    def __init__(
        self,
        db: sqlite3.Connection,
        exchange: tuple[int, int],
        types: frozenset[str],
        paused: Set[tuple[str, str]],
        limits: Limits,
        want: int,
    ) -> None:
        self._db = db
        self._exchange = exchange
        self._types = types
        self._paused = paused
        self._limits = limits
        self._want = want
        self._weight = 0
        self.taken = Taken({}, {})

    def take(self, queue: str) -> bool:
        """Take what may be taken of a queue; whether there is room for more of others."""
        offered = self._offered(queue, self._types)
        if len(offered) > _FEW_TYPES:
            offered = self._ready(queue)
        left = self._want - len(self.taken)
        fair_at = self._limits.fair_at(queue)
        if fair_at is not None:
            return self._take_turns(queue, fair_at, offered, left)
        if len(offered) > _MOST_TYPES:
            left = min(left, _MOST_TYPES)
        room = min(left, self._limits.room(queue))
        front = _front(self._db, queue, offered, room) if offered and room else None
        if front is not None and not self._take(front, left):
            return False
        if room < left and self._ready(queue):
            self._limits.hold_back(queue)
        return True

    def _take_turns(self, queue: str, at: int, offered: list[str], left: int) -> bool:
        room = min(left, self._limits.room(queue))
        most = _MOST_BYTES - self._weight
        taken = Taken({}, {})
        if offered and room and most > 0:
            where = (queue, at, offered)
            share = fair_claims.take(self._db, self._exchange, where, room, most)
            taken = Taken(share.run_ats, share.pasts)
            self._weight += share.weight
            self._limits.took(queue, len(taken))
            self.taken.run_ats.update(taken.run_ats)
            self.taken.pasts.update(taken.pasts)
            if taken:
                self.taken.fair = tuple(sorted((*self.taken.fair, queue)))
        if room < left and self._ready(queue):
            self._limits.hold_back(queue)
        return len(taken) < left and self._weight < _MOST_BYTES

    def _take(self, front: _Front, left: int) -> bool:
        db, taken = self._db, self.taken
        is_whole = self._weight + front.weight <= _MOST_BYTES
        if not is_whole:
            most = _MOST_BYTES - self._weight
            front = _within_weight(db, front, most, least=not taken)
        _take(db, self._exchange, front)
        self._limits.took(front.queue, len(front.seqs))
        taken.run_ats.update(zip(front.seqs, front.run_ats, strict=True))
        taken.pasts.update(front.pasts)
        self._weight += front.weight
        return is_whole and len(front.seqs) < left

    def _ready(self, queue: str) -> list[str]:
        """Those of the types of the queue's ready jobs that this session may take."""
        body = self._db.execute(SQL.types_ready, {"queue": queue}).fetchone()[0]
        present = _texts.decode(body)
        return self._offered(queue, [name for name in present if name in self._types])

    def _offered(self, queue: str, types: Iterable[str]) -> list[str]:
        """Those of the types that are not paused."""
        paused = self._paused
        return [
            name for name in types if ("", name) not in paused and (queue, name) not in paused
        ]


def handed_out(
    db: sqlite3.Connection, exchange: tuple[int, int], queues: Sequence[str]
) -> Taken:
    """What this exchange handed out and is still held, in the order of its claim."""
    token, number = exchange
    body = db.execute(SQL.handed_out, {"token": token, "number": number}).fetchone()[0]
    places = {queue: place for place, queue in enumerate(queues)}
    found = sorted(
        (places.get(queue, 0), place, rank, seq, run_at, past)
        for queue, place, rank, seq, run_at, past in _handed_out.decode(body)
    )
    return Taken(
        {seq: run_at for *_, seq, run_at, _ in found},
        {seq: past for *_, seq, _, past in found},
    )


def claimed(db: sqlite3.Connection, taken: Taken) -> list[Claim]:
    """The jobs, in their order."""
    seqs = _json.encode(list(taken.run_ats)).decode()
    ids, payloads, body = db.execute(SQL.claimed, {"seqs": seqs}).fetchone()
    claims: list[Claim] = []
    at = 0
    for place, row in enumerate(_facts.decode(body)):
        end = at + row.size
        seq = row.handle
        delivery, attempt, failures, crashes, lapses = taken.pasts.get(seq, _FIRST)
        claims.append(
            Claim(
                seq,
                delivery,
                JobId(ids[place * 16 : place * 16 + 16]),
                row.type,
                row.queue,
                row.tenant,
                payloads[at:end],
                row.priority,
                attempt,
                failures,
                crashes,
                lapses,
                row.max_attempts,
                row.timeout,
                row.created_at,
                taken.run_ats[seq],
                row.trace,
                decoded_tags(row.tags)[0] if row.tags else (),
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
                row.trace,
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
    found = db.execute(_merged(len(types)), [*parameters, want]).fetchone()
    seqs, run_ats = _numbers.decode(found[0]), _numbers.decode(found[1])
    if not seqs:
        return None
    return _Front(queue, types, seqs, run_ats, _pasts.decode(found[2]), *found[3:])


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
    seqs = front.seqs[:count]
    return msgspec.structs.replace(
        front,
        seqs=seqs,
        run_ats=front.run_ats[:count],
        pasts=[past for past in front.pasts if past[0] in seqs],
        rank=found[count - 1][1],
        weight=weights[count - 1] if count else 0,
    )


@cache
def _merged(types: int) -> str:
    """The claim's statement for that many types."""
    union = "\nunion all\n".join([SQL.claimable] * types)
    return f"{SQL.front}(\n{union}\n{SQL.claimable_end})"
