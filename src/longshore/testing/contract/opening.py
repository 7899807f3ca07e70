from typing import Any

from msgspec.structs import replace

from longshore.contract import Engine
from longshore.core.job import NewJob
from longshore.core.limit_settings import Layer, OnDead, QueueSettings
from longshore.records import queue_settings
from longshore.testing.contract.requirements import requires
from longshore.testing.factories import a_job
from longshore.testing.manual import a_worker

lined = requires("ordering_keys")


def _line(size: int, key: str = "anna") -> list[NewJob]:
    return [a_job(ordering_key=key) for _ in range(size)]


async def _say(engine: Engine, layer: Layer = Layer.OVERRIDDEN, **settings: Any) -> None:
    await queue_settings.put(engine, "default", layer, replace(QueueSettings(), **settings))


@lined
async def test_lines_that_wait_open_at_the_next_look_when_more_of_a_key_may_run(
    engine: Engine,
) -> None:
    jobs = _line(5)
    await engine.submit(jobs)
    worker = await a_worker(engine)
    await worker.claim(9)

    await _say(engine, max_running_per_key=3)

    assert (await engine.promote(limit=9)).count == 2
    assert [one.id for one in await worker.claim(9)] == [job.id for job in jobs[1:3]]
    assert (await engine.promote(limit=9)).count == 0


@lined
async def test_lines_that_wait_open_when_an_operator_takes_a_limit_away(engine: Engine) -> None:
    await _say(engine, Layer.DECLARED, max_running_per_key=4)
    await _say(engine, max_running_per_key=1)
    jobs = _line(5)
    await engine.submit(jobs)
    worker = await a_worker(engine)
    assert len(await worker.claim(9)) == 1

    await _say(engine)

    assert (await engine.promote(limit=9)).count == 3
    assert [one.id for one in await worker.claim(9)] == [job.id for job in jobs[1:4]]


@lined
async def test_lines_that_wait_for_the_rate_of_their_key_open_when_it_is_taken_away(
    engine: Engine,
) -> None:
    await _say(engine, max_running_per_key=9, rate_per_key=0.001, burst_per_key=1)
    await engine.submit(_line(4))
    worker = await a_worker(engine)
    assert len(await worker.claim(9)) == 1
    assert (await engine.promote(limit=9)).count == 0

    await _say(engine, max_running_per_key=9)

    assert (await engine.promote(limit=9)).count == 3
    assert len(await worker.claim(9)) == 3
    line = await engine.line("default", "anna")
    assert line is not None
    assert line.opens_at is None


@lined
async def test_each_look_opens_some_of_many_lines_and_none_that_is_blocked(
    engine: Engine,
) -> None:
    await _say(engine, on_dead=OnDead.BLOCK)
    await engine.submit([job for number in range(7) for job in _line(3, f"key{number}")])
    worker = await a_worker(engine)
    claims = await worker.claim(9)
    await worker.kill(claims[0])

    await _say(engine, on_dead=OnDead.BLOCK, max_running_per_key=2)

    assert [(await engine.promote(limit=4)).count for _ in range(3)] == [4, 2, 0]
    assert len(await worker.claim(99)) == 6
    await _say(engine, on_dead=OnDead.BLOCK, max_running_per_key=2)
    assert (await engine.promote(limit=9)).count == 0
