import asyncio
from typing import Any

from msgspec.structs import replace

from longshore.contract import Engine
from longshore.core import settle
from longshore.core.job import Claim, JobId, NewJob
from longshore.core.limit_settings import Layer, OnDead, QueueSettings
from longshore.core.ordering_key import PARKED
from longshore.core.state import State
from longshore.records import queue_settings
from longshore.runtime.clock import ManualClock
from longshore.testing.contract.requirements import requires
from longshore.testing.factories import HOUR, SECOND, a_job
from longshore.testing.manual import LEASE, ManualWorker, a_worker, heard, reclaim_lapsed

lined = requires("ordering_keys")


def _line(size: int, key: str = "anna", **options: Any) -> list[NewJob]:
    return [a_job(ordering_key=key, **options) for _ in range(size)]


async def _say(engine: Engine, **settings: Any) -> None:
    await queue_settings.put(
        engine, "default", Layer.OVERRIDDEN, replace(QueueSettings(), **settings)
    )


async def _one(worker: ManualWorker) -> Claim:
    (claim,) = await worker.claim(9)
    return claim


async def _run_all(worker: ManualWorker) -> list[JobId]:
    """Claim and end jobs, each by an exchange that claims the next, till there are none."""
    order: list[JobId] = []
    claims = await worker.claim(9)
    while claims:
        order += [claim.id for claim in claims]
        now = await worker.engine.now()
        ends = [settle.succeeded(one, started_at=now, finished_at=now) for one in claims]
        claims = (await worker.exchange(settlements=ends, want=9)).claims
    return order


async def _states(engine: Engine, jobs: list[NewJob]) -> list[tuple[State, str | None]]:
    found = [await engine.get(job.id) for job in jobs]
    return [(job.state, job.parked) for job in found]


@lined
async def test_jobs_of_an_ordering_key_run_one_at_a_time_in_order(engine: Engine) -> None:
    anna, other = _line(3), a_job()
    await engine.submit([anna[0], anna[1], other])
    await engine.submit([anna[2], a_job(ordering_key="anna", queue="elsewhere")])
    await engine.submit([*_line(1, "bert"), *_line(1, tenant="acme")])
    one, two = await a_worker(engine), await a_worker(engine)

    first = await one.claim(9)
    again = await two.claim(9)

    assert len(first) == 4, "the first of each line, and the one without a key"
    assert anna[0].id in {claim.id for claim in first}
    assert again == []
    assert await _states(engine, anna[1:]) == [(State.READY, PARKED)] * 2
    counts = next(it for it in await engine.counts() if it.queue == "default")
    assert (counts.ready, counts.parked, counts.running) == (2, 2, 4)
    (mine,) = [claim for claim in first if claim.id == anna[0].id]
    await one.succeed(mine)
    assert await _run_all(two) == [anna[1].id, anna[2].id]


@lined
async def test_the_order_of_a_call_is_the_order_of_its_lines_whatever_else_differs(
    engine: Engine,
) -> None:
    jobs = [
        a_job(ordering_key="anna", priority=priority, type=name, max_attempts=attempts)
        for priority, name, attempts in (
            (9, "noop", 5),
            (1, "b", 2),
            (5, "noop", 2),
            (1, "b", 5),
        )
    ]
    await engine.submit(jobs)
    worker = await a_worker(engine, types=("noop", "b"))

    assert await _run_all(worker) == [job.id for job in jobs]


@lined
async def test_a_job_that_waits_for_its_retry_keeps_its_place_at_the_gate(
    engine: Engine, clock: ManualClock
) -> None:
    jobs = _line(3, max_attempts=2)
    await engine.submit(jobs)
    one, two = await a_worker(engine), await a_worker(engine)

    await one.fail(await _one(one))
    assert await two.claim(9) == []
    clock.advance(2 * SECOND)
    await engine.promote(limit=9)
    again = await _one(two)
    assert again.id == jobs[0].id
    await two.snooze(again, SECOND)
    assert await one.claim(9) == []
    await engine.change("retry", [jobs[0].id])
    released = await _one(one)
    assert released.id == jobs[0].id
    await one.release(released)
    last = await _one(two)
    assert last.id == jobs[0].id
    await two.fail(last)

    assert (await engine.get(jobs[0].id)).state is State.DEAD
    assert await _run_all(one) == [jobs[1].id, jobs[2].id]


@lined
async def test_a_line_survives_its_workers(engine: Engine, clock: ManualClock) -> None:
    jobs = _line(3)
    await engine.submit(jobs)
    lost, buried, closing = [await a_worker(engine) for _ in range(3)]

    assert (await _one(lost)).id == jobs[0].id
    clock.advance(LEASE + 1)
    await reclaim_lapsed(engine)
    buried, closing = await a_worker(engine), await a_worker(engine)
    claim = await _one(buried)
    assert claim.id == jobs[0].id
    now = await engine.now()
    end = settle.succeeded(claim, started_at=now, finished_at=now)
    await engine.end_session(buried.session.token, [end])
    assert (await _one(closing)).id == jobs[1].id
    await closing.session.close()

    assert await _run_all(await a_worker(engine)) == [jobs[1].id, jobs[2].id]


@lined
async def test_a_repeated_exchange_lets_nobody_in_twice(engine: Engine) -> None:
    jobs = _line(4)
    await engine.submit(jobs)
    one, two = await a_worker(engine), await a_worker(engine)
    claim = await _one(one)
    now = await engine.now()
    end = settle.succeeded(claim, started_at=now, finished_at=now)

    first = await one.exchange(settlements=[end], want=9)
    repeated = await one.repeat()

    assert [it.id for it in first.claims] == [jobs[1].id]
    assert repeated.claims == first.claims
    assert await two.claim(9) == []
    assert (await one.exchange(settlements=[end], want=9)).claims == []


@lined
async def test_whoever_waits_is_woken_by_the_end_of_the_job_before(engine: Engine) -> None:
    await engine.submit(_line(2))
    one, two = await a_worker(engine), await a_worker(engine)
    claim = await _one(one)
    assert await two.claim() == []
    waiting = asyncio.ensure_future(two.session.wait(20.0))
    await heard(engine)

    await one.succeed(claim)
    await asyncio.wait_for(waiting, 15.0)

    assert len(await two.claim()) == 1


@lined
async def test_cancelling_takes_a_job_out_of_its_line(
    engine: Engine, clock: ManualClock
) -> None:
    jobs = _line(5)
    await engine.submit(jobs)
    worker = await a_worker(engine)

    await engine.change("cancel", [jobs[1].id], reason="not this one")
    assert await _states(engine, jobs[1:3]) == [(State.CANCELLED, None), (State.READY, PARKED)]
    await engine.change("cancel", [jobs[0].id, jobs[2].id], reason="nor these")
    claim = await _one(worker)
    assert claim.id == jobs[3].id
    await worker.fail(claim)
    await engine.change("cancel", [jobs[3].id], reason="while it waits for its retry")

    assert await _run_all(worker) == [jobs[4].id]
    assert await engine.line("default", "anna") is None


@lined
async def test_jobs_of_many_lines_are_cancelled_and_replayed_together(engine: Engine) -> None:
    first, second, plain = _line(2, "anna"), _line(2, "bert"), [a_job(), a_job()]
    jobs = [plain[0], first[0], second[0], plain[1]]
    await engine.submit([*jobs, first[1], second[1]])
    names = [job.id for job in jobs]
    await engine.change("cancel", names, reason="changed my mind")

    replayed = await engine.change("replay", names)

    assert [job.id for job in replayed] == names
    order = await _run_all(await a_worker(engine))
    assert sorted(order) == sorted([*names, first[1].id, second[1].id])
    for ahead, behind in (first, second):
        assert order.index(behind.id) < order.index(ahead.id)


@lined
async def test_what_is_replayed_joins_at_the_end(engine: Engine) -> None:
    jobs = _line(3)
    await engine.submit(jobs)
    worker = await a_worker(engine)
    await worker.kill(await _one(worker))

    (replayed,) = await engine.change("replay", [jobs[0].id])

    assert (replayed.state, replayed.parked) == (State.READY, PARKED)
    assert await _run_all(worker) == [jobs[1].id, jobs[2].id, jobs[0].id]


@lined
async def test_what_is_to_run_later_joins_when_it_is_due(
    engine: Engine, clock: ManualClock
) -> None:
    late, later, asked = (_line(1, delay=delay)[0] for delay in (SECOND, 2 * SECOND, HOUR))
    now = _line(2)
    await engine.submit([late, later, asked, *now])
    worker = await a_worker(engine)

    claim = await _one(worker)
    assert claim.id == now[0].id
    clock.advance(3 * SECOND)
    await engine.promote(limit=9)
    await engine.change("retry", [asked.id])
    assert await _states(engine, [late, later, asked]) == [(State.READY, PARKED)] * 3
    await worker.succeed(claim)

    order = [now[1].id, late.id, later.id, asked.id]
    assert await _run_all(worker) == order


@lined
async def test_a_dead_job_blocks_its_line_where_the_queue_says_so(engine: Engine) -> None:
    await _say(engine, on_dead=OnDead.BLOCK)
    jobs = _line(3)
    await engine.submit([*jobs, *_line(1, "bert")])
    worker = await a_worker(engine)
    mine, _ = await worker.claim(9)
    await worker.kill(mine)
    assert await worker.claim(9) == []
    assert await engine.submit(_line(1, "cleo")), "other lines go on"

    (line,) = await engine.blocked_lines(limit=9)

    assert (line.queue, line.key, line.tenant) == ("default", "anna", "default")
    assert (line.inside, line.parked, line.dead) == (0, 2, (jobs[0].id,))
    assert await engine.blocked_lines(limit=9, tenant="acme") == []
    assert not await engine.release_line("default", "anna", tenant="acme")
    assert await engine.release_line("default", "anna")
    assert not await engine.release_line("default", "anna")
    assert await engine.blocked_lines(limit=9) == []
    assert (await _one_of(worker, "cleo", jobs[1].id)).id == jobs[1].id


async def _one_of(worker: ManualWorker, other: str, job_id: JobId) -> Claim:
    claims = await worker.claim(9)
    assert len(claims) == 2, f"one of {other} too"
    return next(claim for claim in claims if claim.id == job_id)


@lined
async def test_a_dead_job_that_blocks_its_line_is_replayed_in_its_place(
    engine: Engine,
) -> None:
    await _say(engine, on_dead=OnDead.BLOCK)
    jobs = _line(2)
    await engine.submit(jobs)
    worker = await a_worker(engine)
    await worker.kill(await _one(worker))
    assert await worker.claim(9) == []

    (replayed,) = await engine.change("replay", [jobs[0].id])

    assert (replayed.state, replayed.parked) == (State.READY, None)
    assert await engine.blocked_lines(limit=9) == []
    assert await _run_all(worker) == [job.id for job in jobs]


@lined
async def test_no_more_jobs_of_a_key_run_than_may(engine: Engine) -> None:
    await _say(engine, max_running_per_key=3)
    jobs = _line(7)
    await engine.submit([*jobs, *_line(1, "bert")])
    one, two = await a_worker(engine), await a_worker(engine)

    first = await one.claim(9)
    assert len(first) == 4
    assert await two.claim(9) == []
    line = await engine.line("default", "anna")
    assert line is not None
    assert (line.inside, line.parked, line.last) == (3, 4, jobs[2].id)
    mine = [claim for claim in first if claim.id in {job.id for job in jobs}]
    await one.succeed(mine[0])
    await one.fail(mine[1])

    assert [claim.id for claim in await two.claim(9)] == [jobs[3].id]
    await _say(engine, max_running_per_key=5)
    await one.succeed(mine[2])
    assert len(await two.claim(9)) == 3
