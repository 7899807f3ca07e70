"""Rates per ordering key: so many jobs of a key start in a second, whoever claims them."""

from typing import Any

from msgspec.structs import replace

from longshore.contract import Engine, Retention
from longshore.core.job import JobId, NewJob
from longshore.core.limit_settings import Layer, OnDead, QueueSettings
from longshore.core.ordering_key import PARKED
from longshore.records import queue_settings
from longshore.runtime.clock import ManualClock
from longshore.testing.contract.requirements import requires
from longshore.testing.factories import SECOND, a_job
from longshore.testing.manual import ManualWorker, a_worker

lined = requires("ordering_keys")


def _line(size: int, key: str = "anna", **options: Any) -> list[NewJob]:
    return [a_job(ordering_key=key, **options) for _ in range(size)]


async def _say(engine: Engine, **settings: Any) -> None:
    await queue_settings.put(
        engine, "default", Layer.OVERRIDDEN, replace(QueueSettings(), **settings)
    )


async def _run(worker: ManualWorker) -> list[JobId]:
    """Claim and end all that may start, until nothing may."""
    order: list[JobId] = []
    while claims := await worker.claim(9):
        order += [claim.id for claim in claims]
        for claim in claims:
            await worker.succeed(claim)
    return order


@lined
async def test_a_key_starts_a_burst_and_then_as_many_as_its_rate_brings(
    engine: Engine, clock: ManualClock
) -> None:
    await _say(engine, rate_per_key=2.0, burst_per_key=3)
    anna, bert = _line(8), _line(1, "bert")
    await engine.submit([*anna, *bert])
    worker = await a_worker(engine)

    first = await _run(worker)
    line = await engine.line("default", "anna")
    parked = await engine.get(anna[3].id)
    too_early = await engine.promote(limit=9)
    clock.advance(SECOND // 2)
    opened = await engine.promote(limit=9)
    second = await _run(worker)
    clock.advance(2 * SECOND)
    await engine.promote(limit=9)
    third = await _run(worker)

    assert set(first) == {bert[0].id, *(job.id for job in anna[:3])}
    assert line is not None
    assert (line.inside, line.parked, parked.parked) == (0, 5, PARKED)
    assert line.opens_at == await engine.now() - 2 * SECOND
    assert (too_early.count, too_early.next_due_in) == (0, SECOND // 2)
    assert opened.count == 1
    assert second == [anna[3].id]
    assert third == [job.id for job in anna[4:7]]


@lined
async def test_a_rate_per_key_lets_several_run_at_once_if_they_may(
    engine: Engine, clock: ManualClock
) -> None:
    await _say(engine, rate_per_key=1.0, burst_per_key=2, max_running_per_key=5)
    jobs = _line(5)
    await engine.submit(jobs)
    worker = await a_worker(engine)

    first = await worker.claim(9)
    clock.advance(SECOND)
    opened = await engine.promote(limit=9)
    second = await worker.claim(9)

    assert [claim.id for claim in first] == [job.id for job in jobs[:2]]
    assert opened.next_due_in == SECOND
    assert [claim.id for claim in second] == [jobs[2].id]


@lined
async def test_a_burst_of_a_key_is_let_in_whole_whatever_its_rate(engine: Engine) -> None:
    """Tokens of such a rate take no whole number of nanoseconds."""
    await _say(engine, rate_per_key=33.333, burst_per_key=5, max_running_per_key=5)
    worker = await a_worker(engine)

    await engine.submit(_line(5))

    assert len(await worker.claim(9)) == 5


@lined
async def test_a_key_that_was_empty_meanwhile_has_saved_up_no_more_than_time_brought(
    engine: Engine, clock: ManualClock
) -> None:
    """Though nothing is left of its line, and prune has been there."""
    await _say(engine, rate_per_key=1.0, burst_per_key=2)
    await engine.submit(_line(2))
    worker = await a_worker(engine)
    assert len(await _run(worker)) == 2
    clock.advance(SECOND)
    assert await engine.line("default", "anna") is None
    await engine.prune(Retention(), limit=99)

    await engine.submit(_line(3))

    assert len(await _run(worker)) == 1


@lined
async def test_a_retry_takes_no_token_of_its_key(engine: Engine, clock: ManualClock) -> None:
    await _say(engine, rate_per_key=0.001, burst_per_key=1)
    jobs = _line(2)
    await engine.submit(jobs)
    worker = await a_worker(engine)
    (claim,) = await worker.claim(9)
    await worker.fail(claim)
    clock.advance(5 * SECOND)
    await engine.promote(limit=9)

    (again,) = await worker.claim(9)

    assert (again.id, again.failures) == (jobs[0].id, 1)


@lined
async def test_a_blocked_line_does_not_open_by_time(engine: Engine, clock: ManualClock) -> None:
    await _say(engine, rate_per_key=1.0, burst_per_key=1, on_dead=OnDead.BLOCK)
    jobs = _line(2)
    await engine.submit(jobs)
    worker = await a_worker(engine)
    (claim,) = await worker.claim(9)
    await worker.kill(claim)
    clock.advance(5 * SECOND)

    assert (await engine.promote(limit=9)).count == 0
    assert await worker.claim(9) == []
    assert await engine.release_line("default", "anna")
    assert [claim.id for claim in await worker.claim(9)] == [jobs[1].id]


@lined
async def test_a_due_job_of_a_key_waits_for_a_token_too(
    engine: Engine, clock: ManualClock
) -> None:
    await _say(engine, rate_per_key=1.0, burst_per_key=1)
    jobs = _line(1) + _line(1, delay=SECOND // 4)
    await engine.submit(jobs)
    worker = await a_worker(engine)
    assert await _run(worker) == [jobs[0].id]
    clock.advance(SECOND // 4)

    due = await engine.promote(limit=9)
    too_early = await _run(worker)
    clock.advance(SECOND - SECOND // 4)
    await engine.promote(limit=9)

    assert (due.count, due.next_due_in, too_early) == (1, SECOND - SECOND // 4, [])
    assert await _run(worker) == [jobs[1].id]


@lined
async def test_the_keys_that_opened_first_are_let_in_first(
    engine: Engine, clock: ManualClock
) -> None:
    await _say(engine, rate_per_key=1.0, burst_per_key=1)
    worker = await a_worker(engine)
    waiting: list[NewJob] = []
    for key in ("carl", "anna", "bert"):
        jobs = _line(2, key)
        await engine.submit(jobs)
        waiting.append(jobs[1])
        clock.advance(SECOND // 4)
    await _run(worker)
    clock.advance(SECOND)

    opened: list[JobId] = []
    for _ in waiting:
        await engine.promote(limit=1)
        opened += await _run(worker)

    assert opened == [job.id for job in waiting]
