"""Lines: jobs with an ordering key join one, and leave it when they end."""

import sqlite3
from collections.abc import Iterable, Sequence

import msgspec

from longshore.core import ordering_key
from longshore.core.job import Job, JobId, Settlement
from longshore.core.limit_settings import QueueSettings
from longshore.core.ordering_key import Line, LineName
from longshore.core.state import TERMINAL, State, after
from longshore.engines.sqlite import fair_claims
from longshore.engines.sqlite.queue_limits import said
from longshore.engines.sqlite.sql import SQL
from longshore.engines.sqlite.transaction import Transaction

__all__ = [
    "blocked",
    "get",
    "join",
    "join_again",
    "leave",
    "leave_waiting",
    "look_at",
    "open_due",
    "release",
]

_json = msgspec.json.Encoder()
_unhex = bytes.fromhex
_AT_ONCE = 2_000
"""Lines that are changed in one transaction because of what is said of their queue."""


class _Joining(msgspec.Struct, array_like=True, gc=False):
    seq: int
    id: str
    queue: str
    tenant: str
    key: str
    run_at: int
    delivery: int
    attempt: int

    @property
    def line(self) -> LineName:
        return LineName(self.queue, self.tenant, self.key)


class _Leaving(msgspec.Struct, array_like=True, gc=False):
    seq: int
    id: str
    queue: str
    tenant: str
    key: str

    @property
    def line(self) -> LineName:
        return LineName(self.queue, self.tenant, self.key)


class _Standing(msgspec.Struct):
    """How a line stands."""

    inside: int = 0
    tail: int = 0
    last: str | None = None
    dead: list[str] = []
    has_parked: bool = False
    empty_at: int | None = None
    """What was stored of its bucket, where it has one."""
    entered: int = 0
    """Jobs that are let in by this transaction."""
    opens_at: int | None = None


_joining = msgspec.json.Decoder(list[_Joining])
_leaving = msgspec.json.Decoder(list[_Leaving])
_standings = msgspec.json.Decoder(list[tuple[int, int, int, str | None, list[str], int]])
_Next = tuple[int, int, str, int, int, int]
"""Which line; the job's number, id, due time, delivery and attempt."""
_next = msgspec.json.Decoder(list[_Next])
_hexes = msgspec.json.Decoder(list[str])


def join(transaction: Transaction, newest: int) -> None:
    """Those of the jobs behind `newest` that have keys, and may run at once, come in."""
    body = transaction.db.execute(SQL.joining, {"after": newest}).fetchone()[0]
    _join(transaction, _joining.decode(body))


def join_again(transaction: Transaction, seqs: Sequence[int], *, now: bool = False) -> None:
    """These jobs, which were scheduled or finished, go to the end of their lines.

    Runs before they leave their tables. One that waits for a retry has kept its place; one
    that blocks its line goes back to it. With `now` they are ready since now.
    """
    if seqs:
        scope = {"seqs": _array(seqs), "now": transaction.now if now else None}
        body = transaction.db.execute(SQL.joining_again, scope).fetchone()[0]
        _join(transaction, _joining.decode(body))


def leave(transaction: Transaction, settlements: Iterable[Settlement]) -> None:
    """Claims have ended so; the next jobs go on."""
    ends = {one.handle: after(State.RUNNING, one.verb) for one in settlements}
    over = [seq for seq, state in ends.items() if state in TERMINAL]
    body = transaction.db.execute(SQL.keyed, {"seqs": _array(over)}).fetchone()[0]
    leaving = _leaving.decode(body)
    if leaving:
        _Lines(transaction, [one.line for one in leaving]).leave(
            [(one.line, one.id, ends[one.seq]) for one in leaving]
        )


def leave_waiting(transaction: Transaction, jobs: Iterable[Job]) -> None:
    """These jobs are cancelled, which waited: in their lines or outside of them."""
    leaving = [
        (LineName(job.queue, job.tenant, job.ordering_key), job.id.hex(), State.CANCELLED)
        for job in jobs
        if job.ordering_key is not None
        and ordering_key.is_inside(
            job.state, delivery=job.delivery, is_parked=job.parked is not None
        )
    ]
    if leaving:
        _Lines(transaction, [name for name, _, _ in leaving]).leave(leaving)


def release(name: LineName, transaction: Transaction) -> bool:
    """Let a line go on without the dead that block it; whether there were any."""
    return _Lines(transaction, [name]).release(name)


def look_at(queue: str, after: tuple[str, str], transaction: Transaction) -> tuple[str, str]:
    """Have promote look at the next lines of a queue; the last of them, `after` if none."""
    tenant, key = after
    scope = {"queue": queue, "tenant": tenant, "key": key, "now": transaction.now}
    found = transaction.db.execute(SQL.lines_look, {**scope, "limit": _AT_ONCE}).fetchall()
    return max(found, default=after)


def open_due(transaction: Transaction, limit: int) -> int:
    """Let in what rates let in by now, of so many lines; how many jobs that are."""
    if not transaction.ruled.by_lines:
        return 0
    scope = {"now": transaction.now, "limit": limit}
    names = [LineName(*row) for row in transaction.db.execute(SQL.lines_due, scope)]
    return _Lines(transaction, names).open() if names else 0


def get(db: sqlite3.Connection, name: LineName) -> Line | None:
    """How a line stands."""
    row = db.execute(SQL.line_get, name._asdict()).fetchone()
    return None if row is None else _line(row)


def blocked(db: sqlite3.Connection, tenant: str | None, limit: int) -> list[Line]:
    """The lines that dead jobs block."""
    scope = {"tenant": tenant, "limit": limit}
    return [_line(row) for row in db.execute(SQL.lines_blocked, scope)]


def _join(transaction: Transaction, jobs: list[_Joining]) -> None:
    if jobs:
        _Lines(transaction, [job.line for job in jobs]).join(jobs)


class _Lines:
    """Some lines, as they stand and as they are left."""

    def __init__(self, transaction: Transaction, names: Iterable[LineName]) -> None:
        self._transaction = transaction
        self._db = transaction.db
        self._settings = said(transaction)
        unique = list(dict.fromkeys(names))
        self._lines = {name: _Standing() for name in unique}
        body = self._db.execute(SQL.lines, {"names": _array(unique)}).fetchone()[0]
        for number, inside, tail, last, dead, has_parked in _standings.decode(body):
            it = _Standing(inside, tail, last, dead, bool(has_parked))
            self._lines[unique[number]] = it
        self._paced = {name for name in unique if ordering_key.bucket_limit(self._said(name))}
        for name in self._paced:
            row = self._db.execute(SQL.bucket_get, {"name": name.bucket}).fetchone()
            self._lines[name].empty_at = row[0] if row else None
        self._ready: list[tuple[int, int, int, int]] = []

    def join(self, jobs: Sequence[_Joining]) -> None:
        """These go to the ends of their lines, in this order; those that block one, back."""
        parked: list[tuple[object, ...]] = []
        back = [job for job in jobs if job.id in self._lines[job.line].dead]
        for job in back:
            it = self._lines[job.line]
            it.dead = [one for one in it.dead if one != job.id]
            self._let_in(it, job.id, job.seq, job.run_at, job.delivery, job.attempt)
        for job in jobs if not back else [job for job in jobs if job not in back]:
            it = self._lines[job.line]
            if not it.has_parked and self._room(job.line, it):
                it.entered += 1
                self._let_in(it, job.id, job.seq, job.run_at, job.delivery, job.attempt)
            else:
                it.has_parked = True
                it.tail += 1
                counters = job.run_at, job.delivery, job.attempt
                parked.append((*job.line, it.tail, job.seq, *counters))
        if parked:
            self._db.execute(SQL.park, {"jobs": _array(parked)})
        self._move_up()

    def leave(self, jobs: Iterable[tuple[LineName, str, State]]) -> None:
        """These were inside, and have ended so."""
        for name, job_id, state in jobs:
            it = self._lines[name]
            it.inside = max(it.inside - 1, 0)
            if ordering_key.blocks(self._said(name), state):
                it.dead = [*it.dead, job_id.upper()]
        self._move_up()

    def release(self, name: LineName) -> bool:
        """Forget the dead that block a line; whether there were any."""
        it = self._lines[name]
        if not it.dead:
            return False
        it.dead = []
        self._move_up()
        return True

    def open(self) -> int:
        """Let in as many as may; how many these are."""
        self._move_up()
        return len(self._ready)

    def _move_up(self) -> None:
        """Let in as many as may, and write down how the lines stand."""
        rooms = {
            name: room
            for name, it in self._lines.items()
            if it.has_parked and (room := self._room(name, it))
        }
        if rooms:
            names, found = list(rooms), self._next(rooms)
            for number, seq, job_id, *counters in found:
                it = self._lines[names[number]]
                it.entered += 1
                self._let_in(it, job_id, seq, *counters)
            self._db.execute(SQL.leave_parked, {"seqs": _array([one[1] for one in found])})
        if self._ready:
            self._db.execute(SQL.let_in, {"jobs": _array(self._ready)})
            fair_claims.settle_in(self._transaction, [seq for seq, *_ in self._ready])
            self._transaction.wakes = True
        self._borrow()
        self._pace()
        kept = [
            (*name, it.inside, it.tail, it.last, it.dead, it.opens_at)
            for name, it in self._lines.items()
            if it.inside or it.dead or it.opens_at is not None
        ]
        gone = [
            name
            for name, it in self._lines.items()
            if not (it.inside or it.dead or it.opens_at is not None)
        ]
        if kept:
            self._db.execute(SQL.line_put, {"lines": _array(kept)})
        if gone:
            self._db.execute(SQL.line_delete, {"names": _array(gone)})
        self._transaction.forget_rules()

    def _next(self, rooms: dict[LineName, int]) -> list[_Next]:
        """The first jobs of lines, as many as there is room for."""
        if max(rooms.values()) == 1:
            scope = {"lines": _array(list(rooms))}
            return _next.decode(self._db.execute(SQL.parked_first, scope).fetchone()[0])
        found: list[_Next] = []
        for number, (name, room) in enumerate(rooms.items()):
            scope = {**name._asdict(), "limit": room, "number": number}
            found += _next.decode(self._db.execute(SQL.parked_next, scope).fetchone()[0])
        return found

    def _let_in(self, it: _Standing, job_id: str, seq: int, *counters: int) -> None:
        run_at, delivery, attempt = counters
        it.inside += 1
        it.last = job_id
        self._ready.append((seq, run_at, delivery, attempt))

    def _borrow(self) -> None:
        """Store the buckets of lines that let jobs in."""
        for name in self._paced:
            limit = ordering_key.bucket_limit(self._said(name))
            empty_at = self._empty_at(name)
            if limit is not None and empty_at is not None and self._lines[name].entered:
                full_at = limit.full_at(empty_at)
                scope = {"name": name.bucket, "empty_at": empty_at, "full_at": full_at}
                self._db.execute(SQL.bucket_put, scope)

    def _pace(self) -> None:
        """Say when lines open by themselves, of those that have somebody waiting."""
        for name in self._paced:
            it = self._lines[name]
            (has_parked,) = self._db.execute(SQL.parked_any, name._asdict()).fetchone()
            if has_parked:
                it.opens_at = ordering_key.opens_at(
                    self._said(name),
                    inside=it.inside,
                    is_blocked=bool(it.dead),
                    empty_at=self._empty_at(name),
                    now=self._transaction.now,
                )

    def _room(self, name: LineName, it: _Standing) -> int:
        """How many more may be let in.

        Those who are let in already borrow together with them, so room is as it was before.
        """
        room = ordering_key.room(
            self._said(name),
            inside=it.inside - it.entered,
            is_blocked=bool(it.dead),
            empty_at=it.empty_at,
            now=self._transaction.now,
        )
        return max(room - it.entered, 0)

    def _empty_at(self, name: LineName) -> int | None:
        """What is to be stored of a line's bucket, with what those took who were let in."""
        it, now = self._lines[name], self._transaction.now
        return ordering_key.took(self._said(name), it.empty_at, jobs=it.entered, now=now)

    def _said(self, name: LineName) -> QueueSettings:
        return self._settings.get(name.queue, QueueSettings())


def _line(row: tuple[str, str, str, int, int, str | None, str, int | None]) -> Line:
    queue, key, tenant, inside, parked, last, dead, opens_at = row
    return Line(
        queue=queue,
        key=key,
        tenant=tenant,
        inside=inside,
        parked=parked,
        last=None if last is None else JobId(_unhex(last)),
        dead=tuple(JobId(_unhex(one)) for one in _hexes.decode(dead)),
        opens_at=opens_at,
    )


def _array(values: Sequence[object]) -> str:
    return _json.encode(values).decode()
