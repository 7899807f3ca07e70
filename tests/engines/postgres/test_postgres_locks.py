"""What calls about jobs lock: what they concern, in an order that is always the same.

So an order about a job waits for nobody who holds another, and of two that concern the same
jobs or lines one waits for the other, never each for the other.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

import asyncpg
import pytest
from calls import until

from longshore.contract import Engine
from longshore.core import settle
from longshore.core.job import Claim, JobId, NewJob, Settlement
from longshore.core.ordering_key import PARKED
from longshore.core.state import State
from longshore.engines.postgres.connection import Connection
from longshore.runtime.clock import ManualClock
from longshore.testing.factories import HOUR, SECOND, a_job
from longshore.testing.manual import ManualWorker, a_worker

_SOON = 5.0
"""Seconds in which a call is over that waits for nobody; one that waits takes longer."""
_WAITS = """
    select exists (select from pg_stat_activity
                    where datname = current_database() and wait_event_type = 'Lock')
"""
_SPAN = """
    select r.ctid, array[r.segment, r.hi] as place
      from longshore.{home} r join longshore.locator l on l.segment = r.segment
     where l.id = encode($1::bytea, 'hex')::uuid and l.ordinal >= r.lo and l.ordinal < r.hi
       and longshore.has(r.mask, l.ordinal)
"""
_PARKED = """
    select r.ctid, array[r.segment, r.ordinal] as place
      from longshore.parked r
      join longshore.locator l on l.segment = r.segment and l.ordinal = r.ordinal
     where l.id = encode($1::bytea, 'hex')::uuid
"""
_HOLDER = """
    select s.ctid, array[s.token] as place
      from longshore.session s join longshore.claim r on r.token = s.token
      join longshore.locator l on l.segment = r.segment
     where l.id = encode($1::bytea, 'hex')::uuid and l.ordinal >= r.lo and l.ordinal < r.hi
       and longshore.has(r.mask, l.ordinal)
"""
_HOMES = {
    "ready": ("ready", _SPAN.format(home="ready")),
    "scheduled": ("scheduled", _SPAN.format(home="scheduled")),
    "finished": ("finished", _SPAN.format(home="finished")),
    "claim": ("session", _HOLDER),
    "parked": ("parked", _PARKED),
}
"""For each home of a job the table in which it is locked, and its row with its turn."""


class _Row(NamedTuple):
    """A row that is locked on the way to a job."""

    turn: Sequence[object]
    """Rows of one table are locked in this order."""
    table: str
    place: object


async def _row(db: Connection, home: str, job_id: JobId) -> _Row:
    table, statement = _HOMES[home]
    found = await db.fetchrow(statement, job_id)
    assert found is not None, f"it is not in {home}"
    return _Row(found["place"], table, found["ctid"])


async def _line(db: Connection, job: NewJob) -> _Row:
    name = [job.queue, job.tenant, job.ordering_key]
    found = await db.fetchval(
        "select ctid from longshore.line where queue = $1 and tenant = $2 and key = $3", *name
    )
    assert found is not None, "it has no line"
    return _Row(name, "line", found)


async def _lock(db: Connection, row: _Row, *, nowait: bool = False) -> None:
    """Hold it until the transaction ends, as any change to it would."""
    wait = "nowait" if nowait else ""
    await db.execute(
        f"select from longshore.{row.table} where ctid = $1 for no key update {wait}", row.place
    )


async def _takes_them_in_turn(
    other: Connection, db: Connection, rows: list[_Row], call: Awaitable[object]
) -> bool:
    """Whether a call that waits for the first of two rows has not locked the second."""
    first, second = sorted(rows)
    async with other.transaction():
        await _lock(other, first)
        calling = asyncio.ensure_future(call)
        await until(db, _WAITS)
        try:
            async with db.transaction():
                await _lock(db, second, nowait=True)
            is_free = True
        except asyncpg.LockNotAvailableError:
            is_free = False
    await calling
    return is_free


def _snoozed(claim: Claim) -> Settlement:
    return settle.snoozed(claim, HOUR, started_at=1, finished_at=1)


async def _in_two_spans(worker: ManualWorker, end: Callable[[Claim], Settlement]) -> None:
    """Of three jobs the second gets a row of its own, and the others share one."""
    first, second, third = await worker.claim(3)
    await worker.settle(end(first), end(third))
    await worker.settle(end(second))


async def _three_in(home: str, engine: Engine, queue: str = "default") -> list[JobId]:
    """Three jobs of one batch that are there, the second in a row of its own."""
    keys = [f"k{place}" if home == "parked" else None for place in range(3)]
    if home == "parked":
        await engine.submit([a_job(queue=queue, ordering_key=key) for key in keys])
    jobs = [a_job(queue=queue, ordering_key=key) for key in keys]
    await engine.submit(jobs)
    worker = await a_worker(engine, queues=[queue])
    if home in ("ready", "claim"):
        await _in_two_spans(worker, settle.released)
    elif home == "scheduled":
        await _in_two_spans(worker, _snoozed)
    elif home == "finished":
        for claim in await worker.claim(3):
            await worker.kill(claim)
    if home == "claim":
        for want in (1, 2):
            assert len(await (await a_worker(engine, queues=[queue])).claim(want)) == want
    return [job.id for job in jobs]


async def _order(engine: Engine, home: str, ids: Sequence[JobId]) -> object:
    """Something that is allowed there."""
    if home == "finished":
        return await engine.change("replay", ids)
    return await engine.change("cancel", ids, reason="no longer needed")


@pytest.mark.parametrize("home", _HOMES)
@pytest.mark.parametrize(("wanted", "held"), [(0, 1), (1, 0), (2, 1)])
async def test_an_order_waits_for_nobody_who_holds_another_job_of_the_batch(
    engine: Engine, db: Connection, other: Connection, home: str, wanted: int, held: int
) -> None:
    ids = await _three_in(home, engine)
    async with other.transaction():
        await _lock(other, await _row(db, home, ids[held]))

        async with asyncio.timeout(_SOON):
            await _order(engine, home, [ids[wanted]])


@pytest.mark.parametrize("home", _HOMES)
@pytest.mark.parametrize("batches", [1, 2])
async def test_orders_about_the_same_jobs_lock_them_in_the_same_order(
    engine: Engine, db: Connection, other: Connection, home: str, batches: int
) -> None:
    first = await _three_in(home, engine)
    second = first if batches == 1 else await _three_in(home, engine, "elsewhere")
    # The third of a batch shares its row with the first of it.
    pair = [first[1], second[2]]
    rows = [await _row(db, home, one) for one in pair]
    assert rows[0].turn[0] != rows[1].turn[0] or batches == 1

    in_turn = await _takes_them_in_turn(other, db, rows, _order(engine, home, pair))

    assert in_turn


_ANNA = {"queue": "mail", "tenant": "acme", "ordering_key": "anna"}
_OTHERS = [{"queue": "post"}, {"tenant": "bcme"}, {"ordering_key": "bert"}]


@pytest.mark.parametrize("difference", _OTHERS, ids=lambda one: next(iter(one)))
async def test_an_order_waits_for_nobody_who_holds_the_line_of_another_job(
    engine: Engine, db: Connection, other: Connection, difference: dict[str, str]
) -> None:
    one, another = a_job(**_ANNA), a_job(**{**_ANNA, **difference})
    await engine.submit([one])
    await engine.submit([another])
    async with other.transaction():
        await _lock(other, await _line(db, another))

        async with asyncio.timeout(_SOON):
            await engine.change("cancel", [one.id], reason="no longer needed")


@pytest.mark.parametrize("difference", _OTHERS, ids=lambda one: next(iter(one)))
@pytest.mark.parametrize("call", ["submit", "settle", "cancel"])
async def test_calls_about_the_same_lines_lock_them_in_the_same_order(
    engine: Engine,
    db: Connection,
    other: Connection,
    call: str,
    difference: dict[str, str],
) -> None:
    jobs = [a_job(**{**_ANNA, **difference}), a_job(**_ANNA)]
    await engine.submit([jobs[0]])
    await engine.submit([jobs[1]])
    worker = await a_worker(engine, queues=["mail", "post"])
    calling: Awaitable[object]
    if call == "submit":
        calling = engine.submit([a_job(**{**_ANNA, **difference}), a_job(**_ANNA)])
    elif call == "cancel":
        calling = engine.change("cancel", [job.id for job in jobs], reason="no longer needed")
    else:
        claims = await worker.claim(2)
        ends = [settle.succeeded(one, started_at=1, finished_at=1) for one in claims]
        calling = worker.settle(*sorted(ends, key=lambda one: one.handle))
    rows = [await _line(db, job) for job in jobs]

    in_turn = await _takes_them_in_turn(other, db, rows, calling)

    assert in_turn


async def test_a_due_job_whose_line_someone_holds_waits_and_the_others_do_not(
    engine: Engine, clock: ManualClock, db: Connection, other: Connection
) -> None:
    first, late, plain = (
        a_job(ordering_key="k"),
        a_job(ordering_key="k", delay=1),
        a_job(delay=1),
    )
    await engine.submit([first])
    await engine.submit([late, plain])
    clock.advance(SECOND)
    async with other.transaction():
        await _lock(other, await _line(db, first))

        early = await engine.promote(limit=9)

    states = [(await engine.get(job.id)).state for job in (late, plain)]
    again = await engine.promote(limit=9)
    found = await engine.get(late.id)
    assert (early.count, states) == (1, [State.SCHEDULED, State.READY])
    assert (again.count, found.state, found.parked) == (1, State.READY, PARKED)


@pytest.mark.parametrize("kind", ["unique", "line"])
@pytest.mark.parametrize("difference", _OTHERS, ids=lambda one: next(iter(one)))
async def test_a_key_counts_as_held_only_where_someone_holds_that_very_key(
    engine: Engine, db: Connection, other: Connection, kind: str, difference: dict[str, str]
) -> None:
    held = dict(_ANNA)
    if kind == "unique":
        held["unique_key"] = held.pop("ordering_key")
        difference = {
            {"ordering_key": "unique_key"}.get(name, name): value
            for name, value in difference.items()
        }
    job, another = a_job(**held), a_job(**{**held, **difference})
    await engine.submit([job])
    async with other.transaction():
        await other.execute("select from longshore.uniqueness for update")
        await other.execute("select from longshore.line for update")

        places = [
            [
                row[0]
                for row in await db.fetch(
                    "select longshore.keys_held($1, $2, $3, $4)",
                    [one.tenant],
                    [kind],
                    [one.unique_key or one.ordering_key],
                    [one.queue],
                )
            ]
            for one in (job, another)
        ]

    is_same = kind == "unique" and "queue" in difference
    assert places == [[1], [1] if is_same else []]
