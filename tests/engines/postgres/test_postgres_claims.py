"""Claims beside others: what is locked is passed over, and no more is locked than is taken."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
from calls import until

from longshore.contract import Engine
from longshore.core.job import JobId, NewJob
from longshore.core.limit_settings import Layer, Order, QueueSettings
from longshore.engines.postgres.connection import Connection
from longshore.records import queue_settings
from longshore.testing.factories import a_job
from longshore.testing.manual import ManualWorker, a_worker

MEGABYTE = 1 << 20
HIDING = 9_000_000_000_000_000_000
"""A rank behind that of every job."""

FIRST = (
    "select from longshore.ready where queue = $1 order by rank, segment limit $2 for update"
)
CLAIM = """
    select taken
      from longshore.claim(99, 1, 1767225600000000, '{default}', '{noop}', 1, null, '{}')
"""


LOCKED = """
    select count(*) from pg_stat_activity
     where datname = current_database() and wait_event_type = 'Lock'
       and pg_stat_clear_snapshot() is not null
"""


@pytest.fixture(params=[Order.STRICT, Order.FAIR])
async def order(request: pytest.FixtureRequest, engine: Engine) -> Order:
    """Of the queue `default`: turns of tenants take another way than a common order."""
    order: Order = request.param
    await queue_settings.put(engine, "default", Layer.OVERRIDDEN, QueueSettings(order=order))
    return order


@pytest.fixture
async def worker(engine: Engine) -> ManualWorker:
    return await a_worker(engine, queues=("default", "other"))


async def submitted(engine: Engine, count: int, *, queue: str = "default") -> list[NewJob]:
    """So many jobs, each in a span of its own."""
    jobs = [a_job(queue=queue) for _ in range(count)]
    for job in jobs:
        await engine.submit([job])
    return jobs


async def claimed(worker: ManualWorker, want: int, *queues: str) -> list[JobId]:
    async with asyncio.timeout(5):
        claims = await worker.claim(want, queues=queues or ("default",))
    return [one.id for one in claims]


@asynccontextmanager
async def held(
    connection: Connection, first: int, queue: str = "default"
) -> AsyncGenerator[None]:
    """Someone is just taking the first spans of a queue."""
    async with connection.transaction():
        await connection.execute(FIRST, queue, first)
        yield


async def test_a_claim_takes_what_is_behind_the_spans_that_others_hold(
    engine: Engine, worker: ManualWorker, db: Connection, order: Order
) -> None:
    jobs = [job.id for job in await submitted(engine, 5)]

    async with held(db, 3):
        behind = await claimed(worker, 5)

    assert behind == jobs[3:]
    assert await claimed(worker, 5) == jobs[:3]


async def test_a_claim_of_one_takes_the_first_that_nobody_holds(
    engine: Engine, worker: ManualWorker, db: Connection, order: Order
) -> None:
    await submitted(engine, 2, queue="other")
    jobs = [job.id for job in await submitted(engine, 90)]

    async with held(db, 70):
        taken = await claimed(worker, 1)
        more = await claimed(worker, 3)

    assert taken == [jobs[70]]
    assert more == jobs[71:74]


async def test_a_claim_gives_up_when_others_hold_everything(
    engine: Engine, worker: ManualWorker, db: Connection, order: Order
) -> None:
    jobs = [job.id for job in await submitted(engine, 5)]

    async with held(db, 5):
        nothing = await claimed(worker, 1)

    assert nothing == []
    assert await claimed(worker, 5) == jobs


@pytest.mark.parametrize("types", [("noop",), ("noop", "mail")], ids=["one type", "two types"])
async def test_a_claim_waits_a_moment_for_the_only_span_when_someone_is_just_taking_it(
    worker: ManualWorker,
    db: Connection,
    other: Connection,
    observer: Connection,
    order: Order,
    types: tuple[str, ...],
) -> None:
    jobs = [a_job(type=name) for name in types]
    await worker.engine.submit(jobs)
    await submitted(worker.engine, 1, queue="other")

    taken: list[JobId] = []
    async with held(db, 1, "other"):
        for _ in range(20):  # until the other gives up soon enough
            async with held(other, 1):
                taking = asyncio.create_task(claimed(worker, 2))
                while not taking.done() and not await observer.fetchval(LOCKED):
                    pass
            if taken := await taking:
                break

    assert taken == [jobs[0].id]


async def test_jobs_of_several_types_that_others_hold_are_passed_over(
    engine: Engine, worker: ManualWorker, db: Connection, order: Order
) -> None:
    mixed = [a_job(), a_job(type="mail"), a_job()]
    await engine.submit(mixed)
    behind = [job.id for job in await submitted(engine, 2)]

    async with held(db, 1):
        taken = await claimed(worker, 5)

    assert taken == behind
    assert await claimed(worker, 5) == [mixed[0].id, mixed[2].id]


async def test_what_someone_parts_while_a_claim_looks_for_it_is_claimed(
    engine: Engine, worker: ManualWorker, db: Connection, other: Connection
) -> None:
    jobs = [a_job(), a_job(type="mail")]
    await engine.submit(jobs)

    async with other.transaction():
        # The claim has seen the one span, and goes on when it is two.
        await other.execute("lock table longshore.claim in share mode")
        await other.execute("select longshore.part(array(select ctid from longshore.ready))")
        taking = asyncio.create_task(claimed(worker, 2))
        await until(db, LOCKED)

    assert await taking == [jobs[0].id]


@pytest.mark.parametrize("passed_over", [0, 1])
async def test_a_claim_locks_no_more_than_it_takes(
    engine: Engine, worker: ManualWorker, db: Connection, other: Connection, passed_over: int
) -> None:
    jobs = [job.id for job in await submitted(engine, 4)]

    async with held(other, passed_over), db.transaction():
        its = await db.fetchval(CLAIM)
        ours = await claimed(worker, 1)

    assert its == 1
    assert ours == jobs[passed_over + 1 : passed_over + 2]


async def test_one_answer_has_no_more_payload_than_a_worker_can_bear(
    engine: Engine, worker: ManualWorker, db: Connection, order: Order
) -> None:
    jobs = await submitted(engine, 8)
    jobs += await submitted(engine, 4)
    tail = await submitted(engine, 1, queue="other")
    await db.execute("update longshore.ready set weight = $1", 5 * MEGABYTE)
    await db.execute(
        "update longshore.ready set weight = $1 where segment in"
        " (select segment from longshore.ready where queue = 'default'"
        "   order by rank, segment offset 8)",
        30 * MEGABYTE,
    )

    answers = [await claimed(worker, 20, "default", "other") for _ in range(3)]

    ids = [job.id for job in [*jobs, *tail]]
    assert answers == [ids[:9], ids[9:12], ids[12:]]


async def test_the_only_span_of_a_queue_and_the_front_of_one_count_too(
    engine: Engine, db: Connection, order: Order
) -> None:
    queues = ["first", "default", "last"]
    worker = await a_worker(engine, queues=queues)
    settings = QueueSettings(order=order, max_running=4)
    await queue_settings.put(engine, "default", Layer.OVERRIDDEN, settings)
    # One span each: a whole one, one of which the limit leaves some, and another.
    for queue, count in zip(queues, (1, 6, 1), strict=True):
        await engine.submit([a_job(queue=queue) for _ in range(count)])
    await db.execute("update longshore.ready set weight = $1", 15 * MEGABYTE)

    first = await worker.claim(20)
    rest = await worker.claim(20)

    assert [one.queue for one in first] == ["first", *["default"] * 4]
    assert [one.queue for one in rest] == ["last"]


async def test_large_payloads_of_one_queue_leave_less_room_for_those_of_the_next(
    engine: Engine, worker: ManualWorker, db: Connection, order: Order
) -> None:
    first = await submitted(engine, 4, queue="other")
    jobs = [a_job(tenant=name) for name in ("ann", "bob", "cleo", "dan")]
    for job in jobs:
        await engine.submit([job])
    await db.execute("update longshore.ready set weight = $1", 40 * MEGABYTE)
    await db.execute(
        "update longshore.ready set weight = $1 where segment in (select segment"
        "  from longshore.ready where queue = 'other' order by segment offset 2)",
        15 * MEGABYTE,
    )

    answers = [await claimed(worker, 20, "other", "default") for _ in range(4)]

    ids = [job.id for job in [*first, *jobs]]
    assert answers == [ids[:2], ids[2:5], ids[5:7], ids[7:]]


async def test_notes_of_another_queue_or_type_or_of_before_hide_nothing(
    engine: Engine, db: Connection
) -> None:
    worker = await a_worker(engine, types=("noop", "mail"))
    jobs = await submitted(engine, 3)
    await db.executemany(
        "insert into longshore.horizon values ($1, $2, $3, $4, now() + $5::text::interval)",
        [
            ("another", "noop", HIDING, HIDING + 1, "1 hour"),
            ("default", "mail", HIDING, HIDING + 1, "1 hour"),
            ("default", "noop", HIDING, HIDING + 1, "-1 hour"),
        ],
    )

    assert await claimed(worker, 5) == [job.id for job in jobs]


async def test_notes_of_another_lane_or_of_before_hide_nothing(
    engine: Engine, db: Connection, worker: ManualWorker
) -> None:
    await queue_settings.put(
        engine, "default", Layer.OVERRIDDEN, QueueSettings(order=Order.FAIR)
    )
    jobs = [a_job(tenant=name) for name in ("ann", "bob", "cleo")]
    for job in jobs:
        await engine.submit([job])
    await db.executemany(
        "insert into longshore.lane_horizon values"
        " ($1, $2, '{noop}', array[$3::bigint], array[$3 + 1], now() + $4::text::interval)",
        [
            ("another", "ann", HIDING, "1 hour"),
            ("another", "zoe", HIDING, "1 hour"),
            ("default", "ann", HIDING, "-1 hour"),
        ],
    )

    assert await claimed(worker, 5) == [job.id for job in jobs]


NOTES = "insert into longshore.horizon values ('default', 'noop', $1, $2, now() + '1 hour')"
LANES = (
    "insert into longshore.lane_horizon values ('default', $1, $2, $3, $4, now() + '1 hour')"
)


async def test_what_is_noted_by_priority_is_found_over_several_looks(
    engine: Engine, db: Connection, worker: ManualWorker, order: Order
) -> None:
    jobs = [a_job(priority=priority) for priority in (5, *[1] * 12)]
    for job in jobs:
        await engine.submit([job])
    ranks = await db.fetch("select rank from longshore.ready order by segment")
    usual, urgent = ranks[0]["rank"], ranks[1]["rank"]
    if order is Order.FAIR:
        await db.execute(LANES, "default", ["noop"], [urgent, usual], [usual, HIDING])
    else:
        await db.executemany(
            NOTES,
            [(urgent, usual), (usual, HIDING)],
        )

    claims = await claimed(worker, 20)

    assert claims == [job.id for job in (*jobs[1:], jobs[0])]


async def test_each_lane_is_looked_through_by_its_own_notes_and_in_its_turn(
    engine: Engine, db: Connection, worker: ManualWorker
) -> None:
    await queue_settings.put(
        engine, "default", Layer.OVERRIDDEN, QueueSettings(order=Order.FAIR)
    )
    jobs = [a_job(tenant=name) for name in ("cleo", "bob", "bob")]
    for job in jobs:
        await engine.submit([job])
    await db.execute(LANES, "ann", ["noop"], [HIDING], [HIDING + 1])
    await db.execute(LANES, "bob", ["noop"], [-1], [HIDING])
    await db.execute(LANES, "cleo", ["noop"], [-1], [HIDING])

    found = [await claimed(worker, want) for want in (1, 5)]

    assert found == [[jobs[1].id], [jobs[0].id, jobs[2].id]]


@pytest.mark.parametrize("is_mixed", [False, True])
async def test_notes_of_a_lane_bring_all_types_that_are_served_and_no_others(
    engine: Engine, db: Connection, worker: ManualWorker, is_mixed: bool
) -> None:
    await queue_settings.put(
        engine, "default", Layer.OVERRIDDEN, QueueSettings(order=Order.FAIR)
    )
    jobs = [a_job(type="rare"), a_job(), a_job(type="rare"), a_job()]
    for batch in (jobs[:2], jobs[2:]) if is_mixed else [[job] for job in jobs]:
        await engine.submit(batch)
    await db.execute(LANES, "default", ["", "noop", "rare"], [-1], [HIDING])

    assert await claimed(worker, 9) == [jobs[1].id, jobs[3].id]


async def test_a_session_that_finds_nothing_beside_notes_is_told_of_what_comes(
    engine: Engine, db: Connection, worker: ManualWorker
) -> None:
    await db.execute(NOTES, -1, HIDING)

    assert await claimed(worker, 5) == []

    waiting = await db.fetchval("select token from longshore.waiting")
    assert waiting == worker.session.token
