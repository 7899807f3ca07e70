import pytest

from longshore.contract import Engine
from longshore.core import settle
from longshore.core.limit_settings import Layer, Order, QueueSettings
from longshore.core.state import State
from longshore.core.view import Pause
from longshore.errors import ConfigError
from longshore.records import pauses, queue_settings
from longshore.runtime.clock import ManualClock
from longshore.testing.contract.arranging import numbers
from longshore.testing.factories import HOUR, SECOND, a_job
from longshore.testing.manual import a_worker


async def test_a_paused_queue_hands_out_nothing_and_says_so(engine: Engine) -> None:
    new = a_job()
    await engine.submit([new])
    await pauses.pause(engine, queue="default")
    worker = await a_worker(engine)

    answer = await worker.exchange(want=1)

    job = await engine.get(new.id)
    assert (answer.claims, answer.is_paused) == ([], True)
    assert (job.state, numbers(job)) == (State.READY, (0, 0, 0, 0, 0))


@pytest.mark.parametrize("order", Order)
async def test_all_others_of_a_batch_are_handed_out_beside_a_paused_type(
    engine: Engine, clock: ManualClock, order: Order
) -> None:
    """Also those that came back with one of that type, when there are many."""
    await queue_settings.put(engine, "default", Layer.DECLARED, QueueSettings(order=order))
    jobs = [*(a_job(type="a") for _ in range(30)), a_job(type="b")]
    await engine.submit(jobs)
    first = await a_worker(engine, types=("a", "b"), lease=HOUR)
    claims = await first.claim(31)
    for claim in claims[1:30]:
        await first.fail(claim)
        clock.advance(2 * SECOND)
    await first.settle(settle.released(claims[0]), settle.released(claims[30]))
    await engine.promote(limit=100)
    await pauses.pause(engine, type="b")
    second = await a_worker(engine, name="worker-2", types=("a", "b"))

    found = await second.claim(100)

    assert {claim.id for claim in found} == {job.id for job in jobs[:30]}


async def test_a_resumed_queue_hands_out_what_waited(engine: Engine) -> None:
    await engine.submit([a_job()])
    await pauses.pause(engine, queue="default")
    await pauses.resume(engine, queue="default")
    worker = await a_worker(engine)

    answer = await worker.exchange(want=1)

    assert len(answer.claims) == 1
    assert not answer.is_paused


async def test_one_open_queue_is_enough_not_to_be_paused(engine: Engine) -> None:
    await engine.submit([a_job(queue="closed"), a_job(queue="open")])
    await pauses.pause(engine, queue="closed")
    worker = await a_worker(engine, queues=["closed", "open"])

    answer = await worker.exchange(want=5)

    assert [claim.queue for claim in answer.claims] == ["open"]
    assert not answer.is_paused


async def test_a_paused_type_does_not_block_what_stands_behind_it(engine: Engine) -> None:
    paused = [a_job(type="video.render", priority=1) for _ in range(20)]
    behind = [a_job(type="noop"), a_job(type="email.send")]
    await engine.submit([*paused, *behind])
    await pauses.pause(engine, type="video.render")
    worker = await a_worker(engine, types=["video.render", "noop", "email.send"])

    answer = await worker.exchange(want=10)

    assert [claim.id for claim in answer.claims] == [job.id for job in behind]
    assert not answer.is_paused


async def test_a_paused_type_is_paused_in_every_queue(engine: Engine) -> None:
    await engine.submit([a_job(queue="a"), a_job(queue="b")])
    await pauses.pause(engine, type="noop")
    worker = await a_worker(engine, queues=["a", "b"])

    assert await worker.claim(10) == []


async def test_a_type_can_be_paused_in_one_queue_alone(engine: Engine) -> None:
    here, there, other = a_job(queue="a"), a_job(queue="b"), a_job(queue="a", type="other")
    await engine.submit([here, there, other])
    await pauses.pause(engine, queue="a", type="noop")
    worker = await a_worker(engine, queues=["a", "b"], types=["noop", "other"])

    claims = await worker.claim(10)

    assert [claim.id for claim in claims] == [other.id, there.id]


@pytest.mark.parametrize(
    "named",
    [{"queue": "default"}, {"type": "noop"}],
    ids=["queue", "type"],
)
async def test_resume_undoes_only_the_pause_with_the_same_names(
    engine: Engine, named: dict[str, str]
) -> None:
    await engine.submit([a_job()])
    await pauses.pause(engine, **named)
    await pauses.pause(engine, queue="default", type="noop")
    worker = await a_worker(engine)

    await pauses.resume(engine, **named)
    still_paused = await worker.claim()
    await pauses.resume(engine, queue="default", type="noop")

    assert still_paused == []
    assert len(await worker.claim()) == 1


async def test_pausing_twice_is_undone_by_one_resume(engine: Engine) -> None:
    await engine.submit([a_job()])
    await pauses.pause(engine, queue="default")
    await pauses.pause(engine, queue="default")
    worker = await a_worker(engine)

    await pauses.resume(engine, queue="default")

    assert len(await worker.claim()) == 1


async def test_resuming_what_was_not_paused_is_harmless(engine: Engine) -> None:
    await pauses.resume(engine, queue="default")
    await pauses.resume(engine, type="noop")

    assert await engine.counts() == []


async def test_what_runs_in_a_paused_queue_can_be_settled(engine: Engine) -> None:
    await engine.submit([a_job(), a_job()])
    worker = await a_worker(engine)
    (claim,) = await worker.claim()
    await pauses.pause(engine, queue="default")

    await worker.succeed(claim)

    assert (await engine.get(claim.id)).state is State.SUCCEEDED


async def test_a_repeated_exchange_returns_its_claims_though_the_queue_was_paused(
    engine: Engine,
) -> None:
    await engine.submit([a_job()])
    worker = await a_worker(engine)
    claims = await worker.claim()
    await pauses.pause(engine, queue="default")

    answer = await worker.repeat()

    assert answer.claims == claims


async def test_a_paused_queue_still_accepts_jobs(engine: Engine) -> None:
    await pauses.pause(engine, queue="default")

    await engine.submit([a_job()])

    (queue,) = await engine.counts()
    assert (queue.queue, queue.is_paused, queue.ready) == ("default", True, 1)


async def test_a_paused_queue_is_counted_though_it_is_empty(engine: Engine) -> None:
    await pauses.pause(engine, queue="quiet")

    (queue,) = await engine.counts()

    assert (queue.queue, queue.is_paused, queue.ready) == ("quiet", True, 0)


async def test_every_pause_is_told_as_it_was_made(engine: Engine) -> None:
    await pauses.pause(engine, queue="mail", type="noop")
    await pauses.pause(engine, queue="mail")
    await pauses.pause(engine, queue="mail")
    await pauses.pause(engine, type="noop")

    assert await pauses.every(engine) == [
        Pause(None, "noop"),
        Pause("mail", None),
        Pause("mail", "noop"),
    ]


async def test_a_pause_that_was_undone_is_not_told(engine: Engine) -> None:
    await pauses.pause(engine, queue="mail")
    await pauses.pause(engine, queue="mail", type="noop")

    await pauses.resume(engine, queue="mail")

    assert await pauses.every(engine) == [Pause("mail", "noop")]


@pytest.mark.parametrize(
    "named",
    [{}, {"queue": ""}, {"type": ""}, {"queue": "mail", "type": ""}],
    ids=["nothing", "no queue", "no type", "a queue and no type"],
)
async def test_a_pause_has_to_name_something(engine: Engine, named: dict[str, str]) -> None:
    with pytest.raises(ConfigError):
        await pauses.pause(engine, **named)
    with pytest.raises(ConfigError):
        await pauses.resume(engine, **named)

    assert await pauses.every(engine) == []
