"""Probes of types whose breakers are half open: whose they are, and how many run at once."""

from longshore.contract import Engine
from longshore.core import settle
from longshore.core.job import NewJob
from longshore.core.limit_settings import BreakerSettings, Layer, QueueSettings
from longshore.records import breaker_settings, queue_settings
from longshore.runtime.clock import ManualClock
from longshore.testing.factories import SECOND, a_job
from longshore.testing.manual import a_worker

_COOLDOWN = 5 * SECOND


async def _half_open(
    engine: Engine, clock: ManualClock, *types: str, probes: int = 1, settle: int = _COOLDOWN
) -> None:
    """The breakers of these types open, and `settle` passes."""
    for name in types:
        said = BreakerSettings(failures=1, cooldown=_COOLDOWN, probes=probes)
        await breaker_settings.put(engine, name, Layer.OVERRIDDEN, said)
        await engine.submit([a_job(type=name, queue=f"broken.{name}", max_attempts=1)])
        worker = await a_worker(engine, queues=[f"broken.{name}"], types=[name])
        (claim,) = await worker.claim()
        await worker.fail(claim)
        await worker.session.close()
    clock.advance(settle)


async def test_a_worker_probes_the_types_that_it_serves(
    engine: Engine, clock: ManualClock
) -> None:
    await _half_open(engine, clock, "a", "b", "c")
    await engine.submit([a_job(type=name) for name in "abc" * 2])
    worker = await a_worker(engine, types=["b"])

    claims = await worker.claim(9)

    assert [one.type for one in claims] == ["b"]


async def test_types_are_probed_one_after_the_other_and_those_without_jobs_passed_over(
    engine: Engine, clock: ManualClock
) -> None:
    await _half_open(engine, clock, "a", "b", "c")
    await engine.submit([a_job(type=name) for name in ("c", "b", "c", "b", "noop")])
    worker = await a_worker(engine, types=["a", "b", "c", "noop"])

    found = [[one.type for one in await worker.claim(9)] for _ in range(4)]

    assert found == [["b"], ["c"], ["noop"], []]


async def test_a_breaker_that_rests_tells_when_to_ask_beside_those_that_are_probed(
    engine: Engine, clock: ManualClock
) -> None:
    await _half_open(engine, clock, "a", settle=_COOLDOWN - SECOND // 2)
    await _half_open(engine, clock, "b", settle=0)
    await engine.submit([a_job(type=name) for name in "aabb"])
    worker = await a_worker(engine, types="ab")

    resting = await worker.exchange(want=9)
    clock.advance(SECOND // 2)
    probing = await worker.exchange(want=9)
    full = await worker.exchange(want=9)
    clock.advance(_COOLDOWN - 2 * SECOND)
    late = await worker.exchange(want=9)

    assert (resting.claims, resting.look_in) == ([], SECOND // 2)
    assert [one.type for one in probing.claims] == ["a"]
    assert (full.claims, full.look_in) == ([], SECOND)
    assert (late.claims, late.look_in) == ([], SECOND)


async def test_jobs_of_other_types_leave_room_for_probes(
    engine: Engine, clock: ManualClock
) -> None:
    worker = await a_worker(engine, types=["mail", "noop"])
    others = [a_job(type="mail"), a_job(type="noop"), a_job(type="mail")]
    await engine.submit(others)
    await engine.submit([a_job(type="mail")])
    assert len(await worker.claim(9)) == 4
    await _half_open(engine, clock, "noop", probes=2)
    await engine.submit([a_job() for _ in range(5)])

    claims = await worker.claim(9)

    assert [one.type for one in claims] == ["noop"]


async def test_who_gets_a_probe_is_not_told_to_wait_for_what_a_limit_leaves(
    engine: Engine, clock: ManualClock
) -> None:
    await queue_settings.put(engine, "default", Layer.OVERRIDDEN, QueueSettings(max_running=3))
    await _half_open(engine, clock, "a")
    await engine.submit([a_job(type=name) for name in ("a", "noop", "noop", "noop")])
    worker = await a_worker(engine, types=["a", "noop"])

    probe = await worker.exchange(want=5)
    rest = await worker.exchange(want=5)

    assert ([one.type for one in probe.claims], probe.look_in) == (["a"], None)
    assert ([one.type for one in rest.claims], rest.look_in) == (["noop"] * 2, SECOND)


async def test_what_has_ended_between_probes_of_one_batch_takes_up_no_place(
    engine: Engine, clock: ManualClock
) -> None:
    one, other = await a_worker(engine), await a_worker(engine)
    await engine.submit([a_job() for _ in range(5)])
    claims = await one.claim(5)
    now = await engine.now()
    await one.settle(
        *(settle.released(claim) for claim in claims[::2]),
        *(settle.succeeded(claim, started_at=now, finished_at=now) for claim in claims[1::2]),
    )
    await _half_open(engine, clock, "noop", probes=4)
    await engine.submit([a_job() for _ in range(3)])

    found = [len(await worker.claim(want)) for worker, want in ((one, 3), (other, 9))]

    assert found == [3, 1]


async def test_a_probe_takes_up_its_place_until_it_has_ended(
    engine: Engine, clock: ManualClock
) -> None:
    await _half_open(engine, clock, "noop", probes=4)
    one, other = await a_worker(engine), await a_worker(engine)
    # Of a batch of several types, and of another: their places in it are alike.
    batch = [a_job(type=name) for name in ("mail", "noop") * 3]
    last = [a_job(type="mail"), a_job(), a_job(), a_job(), a_job()]
    await engine.submit(batch)
    await engine.submit(last)

    probes = await one.claim(9)
    await one.start(probes[0])
    when_started = await other.claim(9)
    await one.settle(settle.released(probes[1]))
    again = await one.claim(9)
    when_back = await other.claim(9)
    now = await engine.now()
    done = settle.succeeded(probes[0], started_at=now, finished_at=now)
    await one.settle(done)
    when_ended = await other.claim(9)
    left = await one.claim(9)

    ids = [job.id for job in _of_type(batch + last)]
    assert [claim.id for claim in probes] == ids[:4]
    assert when_started == when_back == left == []
    assert [(claim.id, claim.delivery) for claim in again] == [(ids[1], 2)]
    assert [claim.id for claim in when_ended] == [ids[4]]


def _of_type(jobs: list[NewJob]) -> list[NewJob]:
    return [job for job in jobs if job.type == "noop"]
