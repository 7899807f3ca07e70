"""In which order jobs are claimed, in however many pieces they came or came back."""

import random

import pytest

from longshore.contract import Engine
from longshore.core import settle
from longshore.core.fair_queueing import QUANTUM
from longshore.core.job import JobId, NewJob
from longshore.core.limit_settings import Layer, Order, QueueSettings
from longshore.records import queue_settings
from longshore.runtime.clock import ManualClock
from longshore.testing.factories import SECOND, a_job
from longshore.testing.manual import ManualWorker, a_worker

_TYPES = ("noop", "mail")
_PAIRS = 20
"""Of each type: more than an engine looks at in one go."""


async def _order(engine: Engine, order: Order, *queues: str) -> None:
    for queue in queues or ("default",):
        await queue_settings.put(engine, queue, Layer.OVERRIDDEN, QueueSettings(order=order))


async def _ids(worker: ManualWorker, want: int) -> list[JobId]:
    return [claim.id for claim in await worker.claim(want)]


def _pairs() -> list[list[NewJob]]:
    """All pairs of one type are ahead of those of the other."""
    return [[a_job(type=name), a_job(type=name)] for name in _TYPES for _ in range(_PAIRS)]


@pytest.mark.parametrize("order", [Order.STRICT, Order.FAIR])
@pytest.mark.parametrize("came", ["back", "at once", "one after the other"])
async def test_what_came_in_many_pieces_is_claimed_in_the_order_of_its_arrival(
    engine: Engine, clock: ManualClock, came: str, order: Order
) -> None:
    await _order(engine, order)
    pairs = _pairs()
    jobs = [job.id for pair in pairs for job in pair]
    worker = await a_worker(engine, types=_TYPES)
    if came == "back":
        await engine.submit([job for pair in pairs for job in pair])
        claims = await worker.claim(len(jobs))
        places = list(range(0, len(claims), 2))
        random.Random(7).shuffle(places)
        for place in places:
            await worker.settle(*map(settle.released, claims[place : place + 2]))
    else:
        for pair in pairs:
            await engine.submit(pair)
            clock.advance(SECOND // 10 if came == "one after the other" else 0)

    # All that is there, in wants that end inside of a pair and behind one.
    found = [await _ids(worker, want) for want in (1, 2, 3, 20, 4, 100)]

    assert [one for ids in found for one in ids] == jobs
    assert [len(ids) for ids in found] == [1, 2, 3, 20, 4, len(jobs) - 30]


@pytest.mark.parametrize("order", [Order.STRICT, Order.FAIR])
async def test_the_most_urgent_job_goes_first_whatever_the_name_of_its_type(
    engine: Engine, order: Order
) -> None:
    await _order(engine, order)
    jobs = [a_job(type=name, priority=number) for number, name in enumerate("bca", 1)]
    for job in reversed(jobs):
        await engine.submit([job])
    worker = await a_worker(engine, types="abc")

    found = [await _ids(worker, want) for want in (1, 5)]

    assert found == [[jobs[0].id], [job.id for job in jobs[1:]]]


@pytest.mark.parametrize("order", [Order.STRICT, Order.FAIR])
async def test_each_worker_gets_its_types_of_what_is_left_of_a_batch(
    engine: Engine, order: Order
) -> None:
    await _order(engine, order, "default", "others")
    others = [a_job(queue="others", type=name) for name in _TYPES * 2]
    batches = [[a_job(type=name) for name in _TYPES * 6] for _ in range(2)]
    for batch in (others, *batches):
        await engine.submit(batch)
    both = await a_worker(engine, types=_TYPES)
    claims = await both.claim(18)
    # Back go some from the middle of the one batch, and all that was claimed of the other.
    back = [*claims[2:5], claims[7], claims[8], *claims[12:]]
    await both.settle(*map(settle.released, back))
    workers = [await a_worker(engine, types=[name]) for name in _TYPES]

    few = [await _ids(worker, 2) for worker in workers]
    rest = [await _ids(worker, 50) for worker in workers]

    left = [claim.id for claim in back] + [job.id for job in batches[1][6:]]
    types = {job.id: job.type for batch in batches for job in batch}
    expected = [[one for one in left if types[one] == name] for name in _TYPES]
    assert few == [ids[:2] for ids in expected]
    assert rest == [ids[2:] for ids in expected]
    untouched = await a_worker(engine, queues=["others"], types=_TYPES)
    assert await _ids(untouched, 50) == [job.id for job in others]


async def test_each_fair_queue_remembers_its_own_turns(engine: Engine) -> None:
    await _order(engine, Order.FAIR, "a", "b")
    await engine.submit([a_job(queue="a", tenant=name) for name in "xy" * 100])
    await engine.submit([a_job(queue="b", tenant=name) for name in "xy" * 3])
    busy = await a_worker(engine, queues=["a"])
    worker = await a_worker(engine, queues=["b"])
    await busy.claim(180)

    turns = [claim.tenant for _ in range(4) for claim in await worker.claim(1)]

    assert turns == ["x", "y", "x", "y"]


async def test_a_tenant_whose_jobs_cannot_be_taken_moves_no_turns(engine: Engine) -> None:
    await _order(engine, Order.FAIR)
    await engine.submit([a_job(tenant="late", type="slow") for _ in range(2 * QUANTUM)])
    slow = await a_worker(engine, types=["slow"])
    await slow.claim(QUANTUM)
    await engine.submit([a_job(tenant=name) for name in ("a",) * 8 + ("b",)])
    worker = await a_worker(engine)
    await worker.claim(20)
    await engine.submit([a_job(tenant=name) for name in "aabb"])

    (claim,) = await worker.claim(1)

    assert claim.tenant == "b"
