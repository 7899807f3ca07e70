"""What schedulers and keepers ask for: promote, reclaim, prune; renew and bury."""

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from longshore.contract import Lapsed, Promoted, Renewed, Retention
from longshore.core import event
from longshore.core.event import Group, Name
from longshore.core.job import Held, JobId, Settlement
from longshore.core.state import State, Verb, after
from longshore.engines.postgres import audit_log
from longshore.engines.postgres.applied_settlements import apply, read_book
from longshore.engines.postgres.database import Connection, Database
from longshore.engines.postgres.held_claims import Row, of_each
from longshore.engines.postgres.settlement_plan import Plan
from longshore.engines.postgres.span_masks import ordinals, read_mask
from longshore.engines.postgres.sql import SQL
from longshore.errors import LeaseLostError

__all__ = [
    "end_session",
    "expired_sessions",
    "forget",
    "held",
    "promote",
    "prune",
    "renew",
]

_FIRINGS_KEPT_US = 35 * 86_400_000_000
"""Longer than any schedule is set back: a due time that is forgotten could fire again."""
_NO_MATTER_WHEN = -(1 << 62)
"""A grace for which every lease is over."""
_NEVER = -(1 << 62)
"""An instant before which nothing happened."""
MOST_BYTES = 64 << 20
"""Payloads of the dead that one prune writes into events."""

LOST = ("lost.workers", "lost.jobs")
"""Names of totals."""

_READING = (SQL.session_lock, SQL.claims_of, SQL.journal_of, SQL.requests)
"""What it takes to read a session's book."""

_Prune = Callable[[int], Awaitable[int]]
"""Deletes up to so many, and tells how many."""


async def promote(database: Database, *, limit: int) -> Promoted:
    """Make due jobs ready. Looks before it locks."""
    (look,) = await database.fetch(SQL.next_due, database.now())
    if look["due"] is None or look["due"] > look["now"] or limit <= 0:
        return _promoted(0, look)
    return await database.transact(lambda connection: _promote(connection, database, limit))


async def expired_sessions(database: Database, *, grace: int, limit: int) -> list[Lapsed]:
    """Sessions whose lease ended, with what they held."""
    (look,) = await database.fetch(SQL.session_ahead, database.now())
    if look["is_ahead"]:
        await database.fetch(SQL.session_shorten, database.now())
    found: list[Lapsed] = []
    for row in await database.fetch(SQL.lapsed, database.now(), grace, limit):
        token: int = row["token"]
        book = await database.transact(
            lambda connection, token=token: read_book(connection, token)
        )
        found.append(Lapsed(token, row["worker"], book.lost(alone=len(book.held) == 1)))
    return found


async def end_session(
    database: Database, token: int, settlements: Sequence[Settlement], *, grace: int | None
) -> int:
    """End a session, once; with a grace only if its lease ended so long ago."""
    over = _NO_MATTER_WHEN if grace is None else grace

    async def body(connection: Connection) -> int:
        buried = await connection.fetchrow(SQL.session_bury, token, database.now(), over)
        if buried is None:
            return 0
        for one in settlements:
            after(State.RUNNING, one.verb)
        # Read in later statements than the one that waited for the session's last call.
        book = await read_book(connection, token)
        decided = {(one.handle, one.delivery): one for one in settlements}
        every = [
            decided.get((handle, span.delivery))
            or Settlement(handle=handle, delivery=span.delivery, verb=Verb.RELEASE)
            for handle, span in book.held.items()
        ]
        plan = Plan(book, 0.0)
        plan.settle(every)
        await apply(connection, token, buried["worker"], plan, buried["now"])
        await connection.execute(SQL.forget_session, token)
        if every:
            # Last, for all who bury meet at these rows.
            await connection.execute(SQL.losses_add, *LOST, len(every))
        return len(every)

    return await database.transact(body)


async def held(database: Database, token: int) -> list[Held] | None:
    """What a session holds; None when it has ended."""

    async def body(connection: Connection) -> list[Held] | None:
        if not database.connector.is_pooled:
            # Not behind the lock, which a worker that lives would have to wait for.
            for statement in _READING:
                await connection.remember(statement)
        if await connection.fetchval(SQL.session_lock, token) is None:
            return None
        book = await read_book(connection, token)
        return book.lost(alone=len(book.held) == 1)

    return await database.transact(body)


async def renew(database: Database, token: int) -> Renewed:
    """Push a live lease's end."""
    rows = await database.fetch(SQL.session_renew, token, database.now())
    if not rows:
        raise LeaseLostError(token)
    return Renewed(rows[0]["now"], rows[0]["expires_at"], is_quiet=rows[0]["is_quiet"])


async def prune(database: Database, retention: Retention, *, limit: int) -> int:
    """Delete what is past its retention."""
    count = await database.transact(
        lambda connection: _prune(connection, database.now(), retention, limit)
    )
    if count < limit:
        # Apart: it holds sessions, whose exchanges shall not wait for all the rest.
        count += await database.transact(
            lambda connection: _prune_told(
                connection, database.now(), retention.succeeded, limit - count
            )
        )
    return count


async def forget(connection: Connection, spans: Sequence[Row]) -> None:
    """Remove all that is left of jobs whose finished spans the caller has deleted.

    A span has `segment`, `lo`, `hi` and `mask`.
    """
    columns = [[span[name] for span in spans] for name in ("segment", "lo", "hi", "mask")]
    await connection.execute(SQL.forget, *columns)


async def _promote(connection: Connection, database: Database, limit: int) -> Promoted:
    spans = await connection.fetch(SQL.promote, database.now(), limit)
    if spans:
        body = event.encode(_ready(spans))
        await connection.execute(SQL.promoted, database.now(), body)
    count = sum(span["size"] for span in spans)
    count += await connection.fetchval(SQL.open_lines, database.now(), limit - count)
    look = await connection.fetchrow(SQL.next_due, database.now())
    assert look is not None
    return _promoted(count, look)


def _promoted(count: int, look: Row) -> Promoted:
    due = look["due"]
    return Promoted(count, None if due is None else max(due - look["now"], 0))


def _ready(spans: Sequence[Row]) -> list[Group]:
    ids: dict[tuple[tuple[str, str, str], str | None], list[bytes]] = {}
    for span in spans:
        traces, lo = of_each(span, "trace") or {}, span["lo"]
        for place, job_id in zip(_places(span), _own_ids(span), strict=True):
            key = (_where(span, place), traces.get(lo + place))
            ids.setdefault(key, []).append(job_id)
    return [
        Group(Name.READY, *where, b"".join(found), trace=trace)
        for (where, trace), found in ids.items()
    ]


def _where(span: Row, place: int) -> tuple[str, str, str]:
    """Queue, type and tenant of one job, counted from `lo`."""
    types, tenants = span["types"], span["tenants"]
    return (
        span["queue"],
        span["type"] if types is None else types[place],
        span["tenant"] if tenants is None else tenants[place],
    )


def _places(span: Row) -> list[int]:
    """Where the span's jobs stand, counted from `lo`."""
    lo: int = span["lo"]
    return [place - lo for place in ordinals(read_mask(span["mask"], lo, span["hi"]))]


def _own_ids(span: Row) -> list[bytes]:
    ids: bytes = span["ids"]
    return [ids[place * 16 : place * 16 + 16] for place in _places(span)]


async def _prune(
    connection: Connection, clock: int | None, retention: Retention, limit: int
) -> int:
    """What is usually little has an eighth of the limit each, the succeeded have the rest."""
    now: int = await connection.fetchval(SQL.clock, clock)
    keys, events = now - retention.idempotency, now - retention.outbox
    await connection.execute(SQL.consumers_gone, now, now - retention.consumer)
    purged: list[Group] = []
    gone: Counter[str] = Counter()
    few: list[_Prune] = [
        partial(_prune_jobs, connection, gone, State.CANCELLED, now - retention.cancelled),
        partial(_prune_dead, connection, gone, now - retention.dead, purged),
        partial(_prune_old, connection, keys, _NEVER, _NEVER),
        partial(_prune_old, connection, _NEVER, events, now - _FIRINGS_KEPT_US),
        partial(connection.fetchval, SQL.bucket_prune, now),
    ]
    many = partial(_prune_jobs, connection, gone, State.SUCCEEDED, now - retention.succeeded)
    share, count = limit // 8, 0
    more: list[_Prune] = []
    for kind in few:
        found = await kind(share) if share else 0
        count += found
        if found >= share:
            more.append(kind)
    for kind in (many, *more):
        if count < limit:
            count += await kind(limit - count)
    if count < limit:
        pruned = await connection.execute(
            SQL.quarantine_prune, now - retention.dead, limit - count
        )
        count += int(pruned.rpartition(" ")[2])
    if count < limit:
        before = now - retention.audit
        count += await audit_log.cut(connection, now=now, before=before, limit=limit - count)
    if purged:
        # Behind the pruning of the outbox, which must leave them for someone to read.
        await connection.execute(SQL.outbox_add, now, event.encode(purged))
    # Last, since others who prune wait for it.
    await _count_pruned(connection, gone, is_all=count < limit)
    return count


async def _count_pruned(connection: Connection, gone: Counter[str], *, is_all: bool) -> None:
    if gone:
        await connection.execute(SQL.pruned_add, list(gone), list(gone.values()))
    if is_all:
        await connection.execute(SQL.pruned_forget, list(gone))


async def _prune_jobs(
    connection: Connection, gone: Counter[str], state: State, before: int, limit: int
) -> int:
    spans = await connection.fetch(SQL.expire, state, before, limit)
    return await _pruned(connection, gone, spans)


async def _prune_told(connection: Connection, clock: int | None, keep: int, limit: int) -> int:
    """What succeeded in spans of which something still runs: only a journal knows of it."""
    now: int = await connection.fetchval(SQL.clock, clock)
    holders = [row["token"] for row in await connection.fetch(SQL.hold_tellers, now - keep)]
    if not holders:
        return 0
    jobs = await connection.fetch(SQL.expire_told, holders, now - keep, limit)
    gone: Counter[str] = Counter()
    count = await _pruned(connection, gone, jobs)
    named = [(job["token"], job["handle"], job["delivery"], now) for job in jobs]
    await connection.executemany(SQL.purged_add, named)
    await _count_pruned(connection, gone, is_all=False)
    return count


async def _prune_dead(
    connection: Connection, gone: Counter[str], before: int, purged: list[Group], limit: int
) -> int:
    """How many there were; `purged` gets the events that tell of them."""
    spans = await connection.fetch(SQL.expire_dead, before, limit, MOST_BYTES)
    count = await _pruned(connection, gone, spans)
    purged += [group for span in spans for group in _purged(span)]
    return count


async def _pruned(connection: Connection, gone: Counter[str], spans: Sequence[Row]) -> int:
    """Forget them; how many jobs they had, and in `gone` of which queues."""
    if spans:
        sizes = [span["size"] for span in spans]
        segments = [span["segment"] for span in spans]
        for row in await connection.fetch(SQL.pruned_queues, segments, sizes):
            gone[row["queue"]] += row["jobs"]
        await forget(connection, spans)
    return sum(span["size"] for span in spans)


async def _prune_old(
    connection: Connection, keys: int, events: int, firings: int, limit: int
) -> int:
    """Rows that are not jobs, each kind up to its instant."""
    return await connection.fetchval(SQL.prune_old, keys, events, firings, limit)


def _payload(span: Row, place: int) -> bytes:
    bounds: list[int] = span["bounds"]
    return span["payloads"][bounds[place] - bounds[0] : bounds[place + 1] - bounds[0]]


def _purged(span: Row) -> list[Group]:
    told: list[Group] = []
    traces, lo = of_each(span, "trace") or {}, span["lo"]
    for place, job_id in zip(_places(span), _own_ids(span), strict=True):
        details: dict[str, object] = {
            "payload": _payload(span, place).decode(errors="replace"),
            "reason": span["reason"],
            "who": "retention",
        }
        where = (*_where(span, place), JobId(job_id))
        told.append(Group(Name.PURGED, *where, [details], trace=traces.get(lo + place)))
    return told
