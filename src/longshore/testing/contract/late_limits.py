"""A limit counts what runs when it is set, however that came to run, and who comes later."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from longshore.contract import Engine
from longshore.core import settle
from longshore.core.limit_settings import Layer, QueueSettings
from longshore.records import queue_settings
from longshore.testing.factories import a_job
from longshore.testing.manual import ManualWorker, a_worker, heard

_LIMIT = 8


async def _say(engine: Engine, limit: int) -> None:
    await queue_settings.put(
        engine, "default", Layer.OVERRIDDEN, QueueSettings(max_running=limit)
    )


async def _submit(engine: Engine, many: int) -> None:
    await engine.submit([a_job() for _ in range(many)])


async def _running(engine: Engine) -> int:
    (queue,) = await engine.counts()
    return queue.running


async def _began(worker: ManualWorker) -> None:
    """One of three has begun."""
    await _submit(worker.engine, 3)
    first, *_ = await worker.claim(3)
    await worker.start(first)


async def _ended_in_one_of_two_batches(worker: ManualWorker) -> None:
    for _ in range(2):
        await _submit(worker.engine, 2)
    first, *_ = await worker.claim(4)
    await worker.succeed(first)


async def _ended_in_the_first_of_two_claims(worker: ManualWorker) -> None:
    await _submit(worker.engine, 4)
    first, _ = await worker.claim(2)
    await worker.claim(2)
    await worker.succeed(first)


async def _ended_in_the_second_of_two_claims(worker: ManualWorker) -> None:
    await _submit(worker.engine, 4)
    await worker.claim(2)
    first, _ = await worker.claim(2)
    await worker.succeed(first)


async def _ended_between_those_of_another_claim(worker: ManualWorker) -> None:
    """Every other job of a batch came back, and was claimed again beside the rest."""
    await _submit(worker.engine, 6)
    claims = await worker.claim(6)
    await worker.settle(*[settle.released(one) for one in claims[::2]])
    await worker.settle(*[settle.released(one) for one in claims[1::2]])
    again = [*await worker.claim(3), *await worker.claim(3)]
    await worker.succeed(sorted(again, key=lambda one: one.handle)[1])


async def _came_back_and_went_again(worker: ManualWorker) -> None:
    await _submit(worker.engine, 3)
    first, *_ = await worker.claim(3)
    await worker.release(first)
    await worker.claim(1)


_Way = Callable[[ManualWorker], Awaitable[None]]
_WAYS: list[_Way] = [
    _began,
    _ended_in_one_of_two_batches,
    _ended_in_the_first_of_two_claims,
    _ended_in_the_second_of_two_claims,
    _ended_between_those_of_another_claim,
    _came_back_and_went_again,
]


@pytest.mark.parametrize("way", _WAYS, ids=lambda one: one.__name__.strip("_"))
async def test_a_limit_that_is_set_later_leaves_exactly_the_room_that_there_is(
    engine: Engine, way: _Way
) -> None:
    await way(await a_worker(engine))
    before = await _running(engine)
    await _submit(engine, 2 * _LIMIT)
    await _say(engine, _LIMIT)

    claims = await (await a_worker(engine)).claim(2 * _LIMIT)

    assert (len(claims), await _running(engine)) == (_LIMIT - before, _LIMIT)


async def test_whoever_comes_later_counts_as_much_as_those_who_were_there(
    engine: Engine,
) -> None:
    await _say(engine, 4)
    await _submit(engine, 9)
    taken = 0
    for _ in range(3):
        taken += len(await (await a_worker(engine)).claim(1))

    last = await (await a_worker(engine)).claim(9)

    assert (taken, len(last), await _running(engine)) == (3, 1, 4)


async def test_whoever_waits_for_room_is_woken_though_another_holds_less_than_who_makes_it(
    engine: Engine,
) -> None:
    await _say(engine, 4)
    await _submit(engine, 9)
    few, many, waiting = [await a_worker(engine) for _ in range(3)]
    assert len(await few.claim(1)) == 1
    first, *_ = await many.claim(3)
    assert await waiting.claim() == []
    # Who begins to listen, or to wait, is woken once to look at what came meanwhile.
    await waiting.session.wait(0.1)
    await asyncio.sleep(0.05)
    wait = asyncio.ensure_future(waiting.session.wait(20.0))
    await heard(engine)

    await many.succeed(first)
    await asyncio.wait_for(wait, 15.0)

    assert len(await waiting.claim()) == 1
