"""What people and APIs ask for and order."""

from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import NamedTuple

from longshore.contract import Fleet, JobFilter, Losses, Page, SessionView
from longshore.core import audit_record, circuit_breaker, event, ids
from longshore.core.event import Group, Name
from longshore.core.job import Attempt, Job, JobId
from longshore.core.state import State, allows, check_change
from longshore.core.view import JobOrder
from longshore.engines.postgres import maintenance, ordering_keys, rows
from longshore.engines.postgres.audit_records import record_order
from longshore.engines.postgres.circuit_breakers import standings
from longshore.engines.postgres.database import Connection, Database, Record
from longshore.engines.postgres.job_locks import Part, Span, parts, secure, take
from longshore.engines.postgres.sql import SQL
from longshore.errors import JobNotFoundError
from longshore.runtime.actor import signed
from longshore.runtime.cursor import read_cursor, write_cursor

__all__ = [
    "attempts",
    "change",
    "drain_session",
    "find",
    "get",
    "sessions",
]

_NEWEST = 2**63 - 1
_FIRST_LOOK, _LONGEST_LOOK = 512, 16_384
"""Spans that one look of a listing goes through, at first and when it finds little."""


async def get(database: Database, job_id: JobId, *, tenant: str | None = None) -> Job:
    """The job, or JobNotFoundError."""
    job = rows.job(await _row(database, job_id, tenant))
    return (await _parked(database, [job]))[0]


async def find(
    database: Database, which: JobFilter, *, limit: int, cursor: str | None = None
) -> Page:
    """Jobs newest first. Each look is short, however many jobs there are."""
    before: int | None = _NEWEST if cursor is None else read_cursor(cursor, which)
    scope = (which.state, which.queue, which.type, which.tenant, which.tag)
    found: list[Record] = []
    look = _FIRST_LOOK
    while before is not None and len(found) <= limit:
        want = limit + 1 - len(found)
        answer = await database.fetch(SQL.job_find, *scope, before, want, look)
        found += [row for row in answer if row["handle"] is not None]
        beyond: int | None = answer[0]["beyond"]
        before = None if beyond is None else (beyond + 1) << 12
        look = min(look * 2, _LONGEST_LOOK)
    shown = found[:limit]
    more = write_cursor(shown[-1]["handle"], which) if len(found) > limit and shown else None
    return Page(await _parked(database, [rows.job(row) for row in shown]), more)


async def attempts(
    database: Database, job_id: JobId, *, tenant: str | None = None
) -> list[Attempt]:
    """The deliveries that ended."""
    row = await _row(database, job_id, tenant)
    told = await database.fetch(SQL.attempts, row["segment"], row["ordinal"])
    history = [rows.attempt(one) for one in told]
    if row["state"] == State.SUCCEEDED:
        history.append(
            Attempt(
                delivery=row["delivery"],
                attempt=row["attempt"],
                outcome="succeeded",
                worker=row["last_worker"],
                started_at=row["started_at"],
                finished_at=row["finished_at"],
            )
        )
    return history


async def sessions(database: Database) -> Fleet:
    """Live leases, and how many workers vanished."""
    (total,) = await database.fetch(SQL.losses, *maintenance.LOST, database.now())
    found = [
        SessionView(
            token=row["token"],
            worker=row["worker"],
            queues=tuple(row["queues"]),
            types=tuple(row["types"]),
            opened_at=row["opened_at"],
            renewed_at=row["renewed_at"],
            expires_at=row["expires_at"],
            is_quiet=row["is_quiet"],
            holding=row["holding"],
        )
        for row in await database.fetch(SQL.sessions, database.now())
    ]
    return Fleet(total["now"], found, Losses(total["workers"], total["jobs"]))


async def change(database: Database, order: JobOrder) -> list[Job]:
    """Cancel jobs, make them ready, or delete them; those that changed, as they are now."""
    return await database.transact(partial(_change, order, database.now()))


async def drain_session(database: Database, token: int) -> None:
    """Ask a worker to drain."""
    order = signed(audit_record.worker_drained(token))

    async def body(connection: Connection) -> None:
        if await connection.fetch(SQL.session_quiet, token):
            await record_order(connection, database.now(), order)

    await database.transact(body)


class _Change(NamedTuple):
    """Jobs that nobody else moves until the transaction ends."""

    connection: Connection
    jobs: list[Record]
    spans: dict[Span, Record]
    now: int


async def _change(order: JobOrder, clock: int | None, connection: Connection) -> list[Job]:
    jobs, spans = await secure(
        connection, order.job_ids, order.tenant, independent=order.independent
    )
    jobs = _allowed(order, jobs)
    if not jobs:
        return []
    now = await connection.fetchval(SQL.clock, clock)
    it, changed = _Change(connection, jobs, spans, now), [JobId(job["id"]) for job in jobs]
    match order.change:
        case "cancel":
            groups = await _cancel(it, order.reason)
        case "replay" | "retry":
            groups = await _make_ready(it, is_replay=order.change == "replay")
        case "purge":
            groups = await _purge(it, order.actor)
    await record_order(connection, now, audit_record.jobs_changed(order, changed))
    if groups:
        await connection.execute(SQL.outbox_add, now, event.encode(groups))
    if order.change != "purge":
        jobs = await connection.fetch(SQL.jobs_by_id, changed, None)
    by_id = {row["id"]: rows.job(row) for row in jobs}
    return await _parked(
        connection, [by_id[job_id] for job_id in order.job_ids if job_id in by_id]
    )


def _allowed(order: JobOrder, jobs: list[Record]) -> list[Record]:
    """The jobs, if all can be changed so; with `independent` those that can."""
    if order.independent:
        return [job for job in jobs if allows(State(job["state"]), order.change)]
    for job in jobs:
        check_change(State(job["state"]), order.change)
    return jobs


async def _cancel(it: _Change, reason: str) -> list[Group]:
    """End what waits; ask the holders of what runs."""
    waiting = [job for job in it.jobs if job["state"] != State.RUNNING]
    asked = [
        job for job in it.jobs if job["state"] == State.RUNNING and not job["cancel_requested"]
    ]
    await _end(it.connection, parts(waiting, it.spans), it.now, reason)
    await _ask(it.connection, asked, reason)
    details: dict[str, object] = {"reason": reason}
    groups = [_event(Name.CANCELLED, job, details) for job in waiting]
    return groups + [_event(Name.CANCEL_REQUESTED, job, details) for job in asked]


async def _purge(it: _Change, who: str) -> list[Group]:
    """Delete finished jobs; the events hold their payloads and say who it was."""
    connection, jobs = it.connection, it.jobs
    await take(connection, parts([job for job in jobs if job["home"] != "claim"], it.spans))
    held = [job for job in jobs if job["home"] == "claim"]
    await connection.executemany(
        SQL.purged_add,
        [(job["token"], job["handle"], job["delivery"], it.now) for job in held],
    )
    await maintenance.forget(connection, [_alone(job) for job in jobs])
    # The others of a segment may live on.
    await connection.executemany(SQL.erase, [(job["segment"], job["ordinal"]) for job in jobs])
    return [
        _event(
            Name.PURGED,
            job,
            {
                "payload": job["payload"].decode(errors="replace"),
                "reason": job["reason"],
                "who": who,
            },
        )
        for job in jobs
    ]


async def _make_ready(it: _Change, *, is_replay: bool) -> list[Group]:
    """Make jobs ready: scheduled ones now, or ended ones as if they had never failed."""
    connection, jobs, now = it.connection, it.jobs, it.now
    await take(connection, parts(jobs, it.spans))
    joining = [job for job in jobs if ordering_keys.joins(job)]
    others = parts([job for job in jobs if not ordering_keys.joins(job)], it.spans)
    if is_replay:
        places = [(job["segment"], job["ordinal"]) for job in jobs]
        await connection.executemany(SQL.progress_forget, places)
    await connection.executemany(
        SQL.ready_add,
        [
            (
                *part.placed(),
                now,
                part.span["rank"],
                *_counters(part, is_replay=is_replay),
                is_replay or part.span["is_replayed"],
                sorted({job["type"] for job in part.jobs}),
            )
            for part in others
        ],
    )
    if joining:
        lines = ordering_keys.joining((parts([job], it.spans)[0] for job in joining), now)
        await connection.execute(SQL.line_up, lines, now)
    await connection.execute(SQL.arrange, [job["segment"] for job in jobs])
    await connection.execute(SQL.wake)
    name = Name.REPLAYED if is_replay else Name.READY
    return [_event(name, job, {}) for job in jobs]


async def _end(connection: Connection, waiting: list[Part], now: int, reason: str) -> None:
    """Cancel what no session holds."""
    await take(connection, waiting)
    leaving = ordering_keys.leaving([job for part in waiting for job in part.jobs])
    if leaving:
        await connection.execute(SQL.leave_lines, leaving, now)
    finished = Counter(
        (job["queue"], job["tenant"], State.CANCELLED) for part in waiting for job in part.jobs
    )
    if finished:
        columns = [list(column) for column in zip(*finished, strict=True)]
        await connection.execute(SQL.tally_add, *columns, list(finished.values()))
    await connection.executemany(
        SQL.cancelled_add,
        [
            (
                *part.placed(),
                part.span["run_at"],
                part.span["rank"],
                *_counters(part),
                [job["started_at"] for job in part.jobs],
                now,
                reason,
            )
            for part in waiting
        ],
    )


async def _ask(connection: Connection, running: list[Record], reason: str) -> None:
    """Leave requests to stop for the holders, who wait too and must hear of it soon."""
    if running:
        await connection.executemany(
            SQL.request_add,
            [(job["token"], job["handle"], job["delivery"], reason) for job in running],
        )
        await connection.execute(SQL.call_holders, [job["token"] for job in running])


async def _row(database: Database, job_id: JobId, tenant: str | None) -> Record:
    found = await database.fetch(SQL.jobs_by_id, [job_id], tenant)
    if not found:
        raise JobNotFoundError(ids.text(job_id))
    return found[0]


async def _parked(database: Database | Connection, jobs: list[Job]) -> list[Job]:
    if any(job.state is State.READY for job in jobs):
        return circuit_breaker.parked(jobs, await standings(database))
    return jobs


def _counters(part: Part, *, is_replay: bool = False) -> tuple[int, ...]:
    one = part.jobs[0]
    burdens = (0, 0, 0) if is_replay else (one["failures"], one["crashes"], one["lapses"])
    return one["delivery"], one["attempt"], *burdens


def _alone(job: Record) -> Mapping[str, object]:
    place = job["ordinal"]
    return {"segment": job["segment"], "lo": place, "hi": place + 1, "mask": None}


def _event(name: Name, job: Record, details: dict[str, object]) -> Group:
    where = (job["queue"], job["type"], job["tenant"], job["id"])
    return Group(name, *where, [details] if details else [], trace=job["trace"])
