"""What submit, claim and settle look at, on empty and on freshly filled tables.

No statistics are taken in between: a plan made for empty tables must do for full ones.
"""

import re
from collections.abc import AsyncIterator, Callable
from itertools import cycle

import asyncpg
import pytest
from msgspec.structs import replace
from plans import Plans, forget_statistics, tell_plans, unbounded

from longshore.core import settle
from longshore.core.job import Claim, Failure, NewJob, Settlement
from longshore.core.priority_rank import first_ranks
from longshore.engines.postgres import segments
from longshore.engines.postgres.array_literals import packed
from longshore.engines.postgres.connection import Connection
from longshore.engines.postgres.held_claims import Book
from longshore.engines.postgres.idempotency import asked, keyed, lined
from longshore.engines.postgres.settlement_plan import Plan
from longshore.engines.postgres.sql import SQL
from longshore.engines.postgres.submission import submit_in
from longshore.testing.factories import a_job

CLAIMED = "select * from longshore.claimed($1, $2) where part > 0"
HELD = "select sum(size) from longshore.claim where token = $1 and number > 2"
SMALL = {"pause_pkey", "waiting_pkey", "breaker_pkey"}
"""Indexes with a row per pause, per worker that waits, or per type with a breaker."""
LIMIT = """insert into longshore.flow (queue, settings)
           values ('default', '{"max_running": 9000, "rate": 1000000}')"""
FAIR = (
    """insert into longshore.flow (queue, settings) values ('default', '{"order": "fair"}')"""
)
KEYS = """
    insert into longshore.idempotency
    select 'x', s::text, 'a', gen_random_uuid(), s, s from generate_series(1, 3000) s;
    insert into longshore.uniqueness
    select 'x', s::text, gen_random_uuid() from generate_series(1, 3000) s;
    insert into longshore.journal
    select 1000 + s, 1, 1, '{1}', '{1}', '{1}', '{1}', '{1}' from generate_series(1, 3000) s;
    insert into longshore.result select s, 0, 'a' from generate_series(1, 3000) s;
    insert into longshore.attempt
    select s, 0, 1, 1, 'failed' from generate_series(1, 3000) s
"""
WHY, TIMES = Failure("ValueError", "no"), {"started_at": 1, "finished_at": 2}
FULL = 3_000
"""Spans of one job that wait, and as many jobs that are held."""


@pytest.fixture(params=["never looked at", "vacuumed"])
async def connection(
    request: pytest.FixtureRequest, empty_postgres_url: str
) -> AsyncIterator[Connection]:
    connection = await asyncpg.connect(empty_postgres_url)
    await forget_statistics(connection, then=request.param)
    await connection.set_type_codec(
        "uuid", schema="pg_catalog", encoder=bytes, decoder=bytes, format="binary"
    )
    yield connection
    await connection.close()


@pytest.fixture
async def plans(connection: Connection) -> Plans:
    await tell_plans(connection)
    return Plans(connection)


async def open_session(connection: Connection) -> tuple[int, int]:
    """Its token, and the era."""
    lease = 60_000_000
    row = await connection.fetchrow(
        SQL.session_open, "w", ["default"], ["noop", "rare"], lease, None, "", 0
    )
    assert row is not None
    return row["token"], row["era"]


def exchange(session: tuple[int, int], number: int, plan: Plan, want: int) -> list[object]:
    plan.finish()
    token, era = session
    wish = [["default"], ["noop", "rare"], want, not plan.is_empty, "w"]
    return [token, number, None, "[]", packed(plan.soft), *wish, *plan.arguments(), era, "{}"]


def alone(job: NewJob) -> list[object]:
    return [None, *segments.alone(job)]


def together(jobs: list[NewJob]) -> list[object]:
    return [None, None, *segments.sent(segments.columns(jobs, wakes=False))]


async def fill(connection: Connection) -> None:
    for _ in range(FULL // 500):
        kinds = [a_job(max_attempts=1 + number % 25) for number in range(500)]
        await connection.fetch(SQL.submit, *together(kinds))
    await connection.execute("""
        insert into longshore.ready
            (queue, type, rank, segment, lo, hi, size, weight, run_at, delivery)
        select 'default', 'rare', r.rank + g, r.segment + g, 0, 1, 1, 2, 1, 0
          from longshore.ready r, generate_series(1, 200) g""")
    token, _ = await open_session(connection)
    await connection.execute(
        """insert into longshore.claim
           select $1, g, 1, g, 0, 1, 1, 2, null, 1, 1, 1, 0, 0, 0, 0
             from generate_series(1, 3000) g""",
        token,
    )


def whole_tables(plan: str) -> list[str]:
    # The tally is for folding now and then, and a fold has a limit; an era is one row, and flow
    # has one per queue with settings.
    return re.findall(r"Seq Scan on (?!unnest|tally|era|flow)\w+|Bitmap .*", plan)


async def test_submits_read_no_whole_table(connection: Connection, plans: Plans) -> None:
    few, one = [a_job(unique_key="k"), a_job(type="rare", delay=5)], a_job()
    empty = await plans.of(SQL.submit, *together(few))
    empty += await plans.of(SQL.submit_one, *alone(one))
    await fill(connection)

    many = [a_job(unique_key="k"), *(a_job() for _ in range(99))]
    filled = await plans.of(SQL.submit, *together(many))
    filled += await plans.of(SQL.submit_one, *alone(a_job()))

    for plan in (empty, filled):
        assert whole_tables(plan) == []
        assert set(unbounded(plan)) <= SMALL
        assert "segment_pkey" in plan


async def test_what_is_sent_again_is_looked_up_for_all_of_it_at_once(
    connection: Connection, plans: Plans
) -> None:
    first = [a_job(idempotency_key=f"k{n}", fingerprint=b"f") for n in range(50)]
    await submit_in(connection, first, None, wakes=False)
    again = [a_job(idempotency_key=one.idempotency_key, fingerprint=b"f") for one in first]
    keyless = [replace(one, idempotency_key=None) for one in first]

    for jobs in (first, again, keyless):
        few = await plans.of(SQL.admit, None, *asked(jobs[:2]))
        many = await plans.of(SQL.admit, None, *asked(jobs))

        assert many.count("Query Text") == few.count("Query Text")
        assert "idempotency_pkey" in many
        assert whole_tables(many) == []
        assert set(unbounded(many)) <= SMALL | {"segment_pkey"}


async def test_claims_and_settles_read_no_whole_table(
    connection: Connection, plans: Plans
) -> None:
    session = await open_session(connection)
    empty = await plans.of(SQL.exchange, *exchange(session, 1, Plan(Book(), 0.0), 10))
    await fill(connection)
    book = Book()

    plan = Plan(book, 0.0)
    told = await plans.of(SQL.exchange, *exchange(session, 2, plan, 700))
    rows = await connection.fetch(CLAIMED, session[0], 2)
    claims = book.add(2, rows, 0.0)
    plan = Plan(book, 0.0)
    plan.settle(settle.succeeded(one, started_at=1, finished_at=2) for one in claims)
    told += await plans.of(SQL.exchange, *exchange(session, 3, plan, 700))
    told += await plans.of(CLAIMED, session[0], 2)
    await connection.execute(LIMIT)
    limited = await plans.of(SQL.exchange, *exchange(session, 4, Plan(book, 0.0), 700))

    assert len(claims) == 700
    assert await connection.fetchval(HELD, session[0]) == 1_400
    assert whole_tables(limited) == []
    assert set(unbounded(limited)) <= {*SMALL, "session_pkey"}
    assert whole_tables(empty) == []
    assert whole_tables(told) == []
    assert set(unbounded(empty + told)) <= SMALL
    assert {"ready_head", "claim_pkey"} <= set(re.findall(r"Scan using (\w+)", told))


ENDS: tuple[Callable[[Claim], Settlement], ...] = (
    lambda one: settle.failed(one, WHY, delay=1_000_000, **TIMES),
    settle.released,
    lambda one: settle.killed(one, WHY, "no use", **TIMES),
    lambda one: settle.snoozed(one, 5_000_000, **TIMES),
    lambda one: settle.succeeded(one, result=b"1", **TIMES),
)


async def claimed(
    connection: Connection, session: tuple[int, int], book: Book, number: int
) -> list[Claim]:
    await connection.fetch(SQL.exchange, *exchange(session, number, Plan(book, 0.0), 60))
    rows = await connection.fetch(CLAIMED, session[0], number)
    return book.add(number, rows, 0.0)


async def settled_in_every_way(
    connection: Connection, plans: Plans, session: tuple[int, int], number: int
) -> str:
    """A third of the claims at a time: told of by the journal, trimmed, let go, forgotten."""
    book, told = Book(), ""
    claims = await claimed(connection, session, book, number)
    ends = [end(one) for end, one in zip(cycle(ENDS), claims, strict=False)]
    turns = [(0.0, ends[::3]), (9.0, ends[1::3]), (9.0, ends[2::3]), (9.0, [])]
    for turn, (moment, some) in enumerate(turns, start=number + 1):
        plan = Plan(book, moment)
        plan.start([(one.handle, one.delivery) for one in claims[-5:]])
        plan.settle(some)
        told += await plans.of(SQL.exchange, *exchange(session, turn, plan, 0))
        plan.commit(1)
    return told


async def test_settles_in_every_way_read_no_whole_table(
    connection: Connection, plans: Plans
) -> None:
    session = await open_session(connection)
    await connection.fetch(SQL.submit, *together([a_job() for _ in range(30)]))
    empty = await settled_in_every_way(connection, plans, session, 1)
    await fill(connection)
    await connection.execute(KEYS)

    filled = await settled_in_every_way(connection, plans, session, 6)

    for plan in (empty, filled):
        assert whole_tables(plan) == []
        assert set(unbounded(plan)) <= SMALL
        for name in ("scheduled", "ready", "finished", "attempt", "journal", "result"):
            assert f"Insert on {name}" in plan
        for change in ("Update on claim", "Delete on claim", "Delete on journal"):
            assert change in plan


async def test_submits_with_keys_read_no_whole_table(
    connection: Connection, plans: Plans
) -> None:
    async def told(name: str) -> str:
        some = {"idempotency_key": name, "fingerprint": b"f"}, {"unique_key": name}, {}
        jobs = [a_job(**one) for one in some]
        plan = await plans.of(SQL.submit_keyed, *keyed(jobs), *together(jobs)[1:])
        jobs = [a_job(ordering_key="k", **one) for one in ({}, {"unique_key": f"{name}2"})]
        given = [*keyed(jobs), *together(jobs)[1:], *lined(jobs)]
        return plan + await plans.of(SQL.submit_lined, *given)

    empty = await told("first")
    await fill(connection)
    await connection.execute(KEYS)

    for plan in (empty, await told("second")):
        assert whole_tables(plan) == []
        assert set(unbounded(plan)) <= SMALL
        for name in ("idempotency", "uniqueness", "segment", "line"):
            assert f"Insert on {name}" in plan


async def test_a_completion_reads_no_whole_table(connection: Connection, plans: Plans) -> None:
    session = await open_session(connection)

    async def told(number: int) -> str:
        (claim, *_) = await claimed(connection, session, Book(), number)
        job = (claim.handle, claim.delivery, 1, b"result", b"event", session[1])
        return await plans.of(SQL.complete, session[0], None, number, *job)

    await connection.fetch(SQL.submit, *together([a_job()]))
    empty = await told(1)
    await fill(connection)
    await connection.execute(KEYS)
    filled = await told(2)
    filled += await plans.of(SQL.completed, session[0], 2)

    for plan in (empty, filled):
        assert whole_tables(plan) == []
        assert set(unbounded(plan)) <= SMALL
        assert "Insert on journal" in plan
        assert "Insert on result" in plan


async def test_an_estimate_of_depths_reads_the_fronts(
    connection: Connection, plans: Plans
) -> None:
    await fill(connection)

    plan = await plans.of(SQL.counts_bounded, 5_000, 100, first_ranks())

    # What is held is read whole, and of what is put off no more than the bound.
    looked_at = set(re.findall(r"Seq Scan on (\w+)", plan))
    assert looked_at <= {"journal", "claim", "tally", "scheduled", "parked", "total"}
    assert {"ready_head", "segment_pkey"} <= set(re.findall(r"using (\w+)", plan))


async def test_the_claim_of_a_session_that_was_woken_is_three_statements(
    connection: Connection, plans: Plans
) -> None:
    session, woken = await open_session(connection), ""
    wish = [None, ["default"], ["noop", "rare"], 10, session[1]]
    # One that took long, as when it is planned on a busy machine, goes the long way.
    for number in range(1, 80, 2):
        await connection.fetch(SQL.exchange, *exchange(session, number, Plan(Book(), 0.0), 10))
        await connection.fetch(SQL.submit_one, *alone(a_job()))
        woken = await plans.of(SQL.pick_up, session[0], number + 1, *wish)
        assert whole_tables(woken) == []
        assert set(unbounded(woken)) <= SMALL | {"flow_pkey"}
        if "longshore.exchange(" not in woken:
            break

    assert "longshore.exchange(" not in woken
    await fill(connection)
    many = await plans.of(SQL.pick_up, session[0], 99, *wish)
    assert "longshore.exchange(" in many
    assert whole_tables(many) == []


async def test_claims_do_not_see_what_is_parked_and_a_line_is_read_at_its_front(
    connection: Connection, plans: Plans
) -> None:
    session, book = await open_session(connection), Book()
    jobs = [a_job(ordering_key="k") for _ in range(3)]
    await submit_in(connection, jobs, None, wakes=False)
    await connection.execute("""
        insert into longshore.parked
        select 'default', 'default', 'k', 9 + g, 9 + g, 0, 'noop', 2, 1, 1, 0, 0, false
          from generate_series(1, 200000) g""")

    claimed = await plans.of(SQL.exchange, *exchange(session, 2, Plan(book, 0.0), 10))
    (claim,) = book.add(2, await connection.fetch(CLAIMED, session[0], 2), 0.0)
    plan = Plan(book, 0.0)
    plan.settle([settle.succeeded(claim, started_at=1, finished_at=2)])
    settled = await plans.of(SQL.exchange, *exchange(session, 3, plan, 0))
    joined = await plans.of(SQL.line_up_new, 1, 1, [jobs[0].id], [None], [0], False)

    assert claim.id == jobs[0].id
    assert "parked" not in claimed
    assert {"parked_pkey", "line_pkey"} <= set(re.findall(r"Scan using (\w+)", settled))
    for one in (settled, joined):
        assert whole_tables(one) == []
        assert set(unbounded(one)) <= SMALL


async def test_claims_from_a_fair_queue_read_lanes_and_no_more(
    connection: Connection, plans: Plans
) -> None:
    session = await open_session(connection)
    await connection.execute(FAIR)
    empty = await plans.of(SQL.exchange, *exchange(session, 1, Plan(Book(), 0.0), 10))
    await fill(connection)
    await connection.execute("update longshore.ready set lane = 't' || segment % 3")

    told = await plans.of(SQL.exchange, *exchange(session, 2, Plan(Book(), 0.0), 300))

    assert await connection.fetchval(HELD.replace("> 2", "= 2"), session[0]) >= 300
    for plan in (empty, told):
        assert whole_tables(plan) == []
        assert set(unbounded(plan)) <= {*SMALL, "session_pkey", "fair_pkey"}
    assert "ready_lane" in told
    assert told.count("using ready_head") == 1, "but for a look whether there is anything"


async def test_looks_and_orders_read_no_whole_table(
    connection: Connection, plans: Plans
) -> None:
    job = a_job()
    looks = [
        ("select * from longshore.look($1, null)", [job.id]),
        ("select * from longshore.hold($1)", [job.id]),
        ("select * from longshore.find(null, $1, null, null, null, $2, 9, 99)", "q", 1 << 60),
    ]
    empty = "".join([await plans.of(look, *given) for look, *given in looks])
    await connection.fetch(SQL.submit, *together([job]))
    await fill(connection)

    filled = "".join([await plans.of(look, *given) for look, *given in looks])

    for plan in (empty, filled):
        assert whole_tables(plan) == []
        assert set(unbounded(plan)) <= SMALL
