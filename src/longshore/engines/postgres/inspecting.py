"""What people and APIs ask for and order."""

from collections import Counter
from collections.abc import Mapping, Sequence

from longshore.contract import JobFilter, Page, SessionView
from longshore.core import breaker, event, ids
from longshore.core.event import Group, Name
from longshore.core.job import Attempt, Job, JobId
from longshore.core.state import TERMINAL, State, Verb, after
from longshore.engines.postgres import lining, rows, stewarding
from longshore.engines.postgres.breaking import standings
from longshore.engines.postgres.database import Connection, Database, Record
from longshore.engines.postgres.recording import Calls
from longshore.engines.postgres.securing import Part, parts, secure, take
from longshore.engines.postgres.sql import SQL
from longshore.errors import IllegalTransitionError, JobNotFoundError
from longshore.runtime.acting import actor
from longshore.runtime.cursor import read_cursor, write_cursor

__all__ = [
    "attempts",
    "cancel",
    "find",
    "get",
    "purge",
    "quiet",
    "replay",
    "retry_now",
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


async def sessions(database: Database) -> list[SessionView]:
    """Live leases."""
    return [
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


async def cancel(
    database: Calls, job_ids: Sequence[JobId], *, reason: str, tenant: str | None = None
) -> list[Job]:
    """End what waits; ask the holders of what runs."""

    async def body(connection: Connection) -> list[Job]:
        jobs, spans = await secure(connection, job_ids, tenant)
        _allow(jobs, Verb.CANCEL)
        waiting = [job for job in jobs if job["state"] != State.RUNNING]
        asked = [
            job for job in jobs if job["state"] == State.RUNNING and not job["cancel_requested"]
        ]
        now = await _now(connection, database)
        await _end(connection, parts(waiting, spans), now, reason)
        await _ask(connection, asked, reason)
        details: dict[str, object] = {"reason": reason}
        groups = [_event(Name.CANCELLED, job, details) for job in waiting]
        groups += [_event(Name.CANCEL_REQUESTED, job, details) for job in asked]
        return await _told(connection, now, groups, job_ids)

    return await database.transact(body)


async def replay(
    database: Calls, job_ids: Sequence[JobId], *, tenant: str | None = None
) -> list[Job]:
    """Make dead or cancelled jobs ready again, as if they had never failed."""
    return await _make_ready(database, job_ids, tenant, Verb.REPLAY)


async def retry_now(
    database: Calls, job_ids: Sequence[JobId], *, tenant: str | None = None
) -> list[Job]:
    """Make scheduled jobs ready."""
    return await _make_ready(database, job_ids, tenant, Verb.RETRY_NOW)


async def purge(database: Calls, job_ids: Sequence[JobId], *, tenant: str | None = None) -> int:
    """Delete finished jobs, leaving events that hold their payloads and say who it was."""
    who = actor()

    async def body(connection: Connection) -> int:
        jobs, spans = await secure(connection, job_ids, tenant)
        for job in jobs:
            if job["state"] not in TERMINAL:
                raise IllegalTransitionError(State(job["state"]), "purge")
        await take(connection, parts([job for job in jobs if job["home"] != "claim"], spans))
        now = await _now(connection, database)
        await connection.executemany(
            SQL.purged_add,
            [
                (job["token"], job["handle"], job["delivery"], now)
                for job in jobs
                if job["home"] == "claim"
            ],
        )
        await stewarding.forget(connection, [_alone(job) for job in jobs])
        # The others of a segment may live on.
        await connection.executemany(
            SQL.erase, [(job["segment"], job["ordinal"]) for job in jobs]
        )
        groups = [
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
        await _told(connection, now, groups, ())
        return len(jobs)

    return await database.transact(body)


async def quiet(database: Calls, token: int) -> None:
    """Ask a worker to drain."""
    await database.fetch(SQL.session_quiet, token)


async def _end(connection: Connection, waiting: list[Part], now: int, reason: str) -> None:
    """Cancel what no session holds."""
    await take(connection, waiting)
    leaving = lining.leaving([job for part in waiting for job in part.jobs])
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


async def _make_ready(
    database: Calls, job_ids: Sequence[JobId], tenant: str | None, verb: Verb
) -> list[Job]:
    is_replay = verb is Verb.REPLAY

    async def body(connection: Connection) -> list[Job]:
        jobs, spans = await secure(connection, job_ids, tenant)
        _allow(jobs, verb)
        await take(connection, parts(jobs, spans))
        joining = [job for job in jobs if lining.joins(job)]
        others = parts([job for job in jobs if not lining.joins(job)], spans)
        if is_replay:
            await connection.executemany(
                SQL.progress_forget, [(job["segment"], job["ordinal"]) for job in jobs]
            )
        now = await _now(connection, database)
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
            lines = lining.joining((parts([job], spans)[0] for job in joining), now)
            await connection.execute(SQL.line_up, lines, now)
        await connection.execute(SQL.arrange, [job["segment"] for job in jobs])
        if jobs:
            await connection.execute(SQL.wake)
        name = Name.REPLAYED if is_replay else Name.READY
        groups = [_event(name, job, {}) for job in jobs]
        return await _told(connection, now, groups, job_ids)

    return await database.transact(body)


async def _row(database: Database, job_id: JobId, tenant: str | None) -> Record:
    found = await database.fetch(SQL.jobs_by_id, [job_id], tenant)
    if not found:
        raise JobNotFoundError(ids.text(job_id))
    return found[0]


async def _parked(database: Database | Connection, jobs: list[Job]) -> list[Job]:
    if any(job.state is State.READY for job in jobs):
        return breaker.parked(jobs, await standings(database))
    return jobs


async def _now(connection: Connection, database: Calls) -> int:
    return await connection.fetchval(SQL.clock, database.now())


async def _told(
    connection: Connection, now: int, groups: Sequence[Group], job_ids: Sequence[JobId]
) -> list[Job]:
    """The jobs as they are now, once what happened to them is in the outbox."""
    if groups:
        await connection.execute(SQL.outbox_add, now, event.encode(groups))
    if not job_ids:
        return []
    found = await connection.fetch(SQL.jobs_by_id, list(dict.fromkeys(job_ids)), None)
    by_id = {row["id"]: rows.job(row) for row in found}
    return await _parked(connection, [by_id[job_id] for job_id in job_ids])


def _allow(jobs: Sequence[Record], verb: Verb) -> None:
    for job in jobs:
        after(State(job["state"]), verb)


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
