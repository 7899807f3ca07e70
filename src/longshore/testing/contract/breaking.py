import asyncio

from longshore.contract import Engine
from longshore.core import settle
from longshore.core.event import Name
from longshore.core.limit_settings import BreakerSettings, Layer, Phase
from longshore.core.state import State
from longshore.records import breaker_settings
from longshore.runtime.clock import ManualClock
from longshore.testing.contract.arranging import all_events
from longshore.testing.contract.requirements import requires
from longshore.testing.factories import SECOND, a_failure, a_job
from longshore.testing.manual import LEASE, ManualWorker, a_worker, heard, reclaim_lapsed

_COOLDOWN = 5 * SECOND


async def _set(engine: Engine, failures: int = 2, probes: int = 1) -> None:
    said = BreakerSettings(failures=failures, cooldown=_COOLDOWN, probes=probes)
    await breaker_settings.put(engine, "noop", Layer.OVERRIDDEN, said)


async def _phase(engine: Engine) -> Phase:
    (found,) = await breaker_settings.every(engine)
    return found.phase


async def _fail(worker: ManualWorker, jobs: int) -> None:
    for claim in await worker.claim(jobs):
        await worker.fail(claim)


async def _told(engine: Engine) -> list[Name]:
    return [one.name for one in await all_events(engine) if one.name.startswith("breaker.")]


async def test_failures_over_the_whole_fleet_open_a_breaker(
    engine: Engine, clock: ManualClock
) -> None:
    await _set(engine, failures=3)
    jobs = [a_job() for _ in range(6)]
    await engine.submit([*jobs, a_job(type="other")])
    one = await a_worker(engine, types=("noop", "other"))
    other = await a_worker(engine)

    await _fail(one, 2)
    before = await _phase(engine)
    await _fail(other, 1)
    answer = await one.exchange(want=10)

    assert (before, await _phase(engine)) == (Phase.CLOSED, Phase.OPEN)
    assert [claim.type for claim in answer.claims] == ["other"]
    assert answer.look_in == _COOLDOWN
    waiting = await engine.get(jobs[5].id)
    assert (waiting.state, waiting.parked, waiting.failures) == (State.READY, "breaker", 0)
    assert await _told(engine) == [Name.BREAKER_OPENED]


async def test_failures_of_one_tenant_alone_open_no_breaker_that_others_share(
    engine: Engine, clock: ManualClock
) -> None:
    await _set(engine, failures=2)
    await engine.submit([a_job(tenant="good")])
    worker = await a_worker(engine)
    (claim,) = await worker.claim(1)
    await worker.succeed(claim)
    await heard(engine)
    await engine.submit([a_job(tenant="bad") for _ in range(8)])

    await _fail(worker, 8)
    before = await _phase(engine)
    await engine.submit([a_job(tenant="good") for _ in range(3)])
    await _fail(worker, 1)

    assert before is Phase.CLOSED
    assert await _phase(engine) is Phase.OPEN


async def test_a_probe_that_fails_for_one_tenant_alone_makes_room_for_that_of_another(
    engine: Engine, clock: ManualClock
) -> None:
    await _set(engine, failures=2)
    await engine.submit([a_job(tenant=name) for name in ("bad", "good", "bad", "good")])
    worker = await a_worker(engine)
    await _fail(worker, 2)
    opened = await _phase(engine)
    clock.advance(_COOLDOWN)

    await _fail(worker, 1)
    half = await _phase(engine)
    (probe,) = await worker.claim(9)
    await worker.succeed(probe)

    assert (opened, half, probe.tenant) == (Phase.OPEN, Phase.HALF_OPEN, "good")
    assert await _phase(engine) is Phase.CLOSED


async def test_a_success_between_failures_keeps_it_closed(engine: Engine) -> None:
    await _set(engine, failures=2)
    await engine.submit([a_job() for _ in range(4)])
    worker = await a_worker(engine)

    await _fail(worker, 1)
    (claim,) = await worker.claim(1)
    await worker.succeed(claim)
    await _fail(worker, 1)

    assert await _phase(engine) is Phase.CLOSED
    assert len(await worker.claim(1)) == 1


async def test_after_the_cool_down_no_more_are_handed_out_than_probes(
    engine: Engine, clock: ManualClock
) -> None:
    await _set(engine, probes=2)
    await engine.submit([a_job() for _ in range(9)])
    one, other = await a_worker(engine), await a_worker(engine)
    await _fail(one, 2)
    clock.advance(_COOLDOWN)

    first, second = await one.claim(1), await other.claim(9)
    third = await one.exchange(want=9)

    assert (len(first), len(second), third.claims) == (1, 1, [])
    assert third.look_in is not None
    await other.succeed(second[0])
    assert await _phase(engine) is Phase.HALF_OPEN
    await one.succeed(first[0])
    assert await _phase(engine) is Phase.CLOSED
    assert len(await other.claim(9)) == 5
    opened, half, closed = Name.BREAKER_OPENED, Name.BREAKER_HALF_OPENED, Name.BREAKER_CLOSED
    assert await _told(engine) == [opened, half, closed]


async def test_a_probe_that_fails_opens_it_again(engine: Engine, clock: ManualClock) -> None:
    await _set(engine)
    await engine.submit([a_job() for _ in range(5)])
    worker = await a_worker(engine)
    await _fail(worker, 2)
    clock.advance(_COOLDOWN)

    await _fail(worker, 5)
    again = await worker.exchange(want=5)

    assert await _phase(engine) is Phase.OPEN
    assert (again.claims, again.look_in) == ([], _COOLDOWN)


async def test_a_probe_that_says_nothing_makes_room_for_another(
    engine: Engine, clock: ManualClock
) -> None:
    await _set(engine)
    await engine.submit([a_job() for _ in range(5)])
    worker, doomed = await a_worker(engine), await a_worker(engine)
    await _fail(worker, 2)
    clock.advance(_COOLDOWN)

    (probe,) = await worker.claim(5)
    await worker.release(probe)
    (second,) = await doomed.claim(5)
    nothing = await worker.claim(5)
    clock.advance(LEASE + 1)
    third = await a_worker(engine)
    before = await third.claim(5)
    await reclaim_lapsed(engine)

    assert (nothing, before) == ([], [])
    assert second.failures == 0
    assert len(await third.claim(5)) == 1
    assert await _phase(engine) is Phase.HALF_OPEN


async def test_what_is_settled_for_a_dead_worker_moves_no_breaker(
    engine: Engine, clock: ManualClock
) -> None:
    """Outcomes count where a worker tells of them."""
    await _set(engine, failures=2)
    await engine.submit([a_job() for _ in range(3)])
    worker = await a_worker(engine)
    claims = await worker.claim(3)
    now, why = clock.now(), a_failure()

    await engine.end_session(
        worker.session.token,
        [
            settle.failed(claim, why, delay=0, started_at=now, finished_at=now)
            for claim in claims
        ],
    )

    assert await _phase(engine) is Phase.CLOSED
    assert await _told(engine) == []


async def test_a_breaker_that_is_reset_hands_out_at_once(
    engine: Engine, clock: ManualClock
) -> None:
    await breaker_settings.reset(engine, "noop")
    await _set(engine)
    await engine.submit([a_job() for _ in range(5)])
    worker = await a_worker(engine)
    await _fail(worker, 2)

    await breaker_settings.reset(engine, "noop")

    assert await _phase(engine) is Phase.CLOSED
    assert len(await worker.claim(5)) == 3
    assert await _told(engine) == [Name.BREAKER_OPENED, Name.BREAKER_CLOSED]


async def test_a_reset_of_a_closed_breaker_does_not_change_since_when_it_is_closed(
    engine: Engine, clock: ManualClock
) -> None:
    await _set(engine)
    await engine.submit([a_job(), a_job()])
    worker = await a_worker(engine)
    (before,) = await breaker_settings.every(engine)
    await _fail(worker, 1)
    clock.advance(5 * SECOND)

    await breaker_settings.reset(engine, "noop")
    (after,) = await breaker_settings.every(engine)
    await _fail(worker, 1)

    assert (after.phase, after.since) == (Phase.CLOSED, before.since)
    assert await _phase(engine) is Phase.CLOSED
    assert await _told(engine) == []


async def test_an_order_tells_that_a_breaker_holds_the_job_back(engine: Engine) -> None:
    await _set(engine, failures=1)
    jobs = [a_job(max_attempts=1), a_job()]
    await engine.submit(jobs)
    worker = await a_worker(engine)
    for claim in await worker.claim(2):
        await worker.fail(claim)

    replayed = await engine.change("replay", [jobs[0].id])
    retried = await engine.change("retry", [jobs[1].id])

    told = [*replayed, *retried]
    assert [job.parked for job in told] == ["breaker", "breaker"]
    assert told == [await engine.get(job.id) for job in jobs]


async def test_without_settings_a_breaker_is_gone(engine: Engine, clock: ManualClock) -> None:
    await _set(engine)
    await engine.submit([a_job() for _ in range(5)])
    worker = await a_worker(engine)
    await _fail(worker, 2)

    await breaker_settings.put(engine, "noop", Layer.OVERRIDDEN, BreakerSettings())

    assert len(await worker.claim(5)) == 3


async def test_what_no_retry_can_help_opens_nothing(engine: Engine) -> None:
    await _set(engine, failures=1)
    await engine.submit([a_job() for _ in range(5)])
    worker = await a_worker(engine)
    first, second, third = await worker.claim(3)

    await worker.kill(first)
    await worker.snooze(second, SECOND)
    await worker.stop(third)

    assert await _phase(engine) is Phase.CLOSED


@requires("pushes_wakeups")
async def test_those_who_wait_are_woken_when_it_closes(
    engine: Engine, clock: ManualClock
) -> None:
    await _set(engine)
    await engine.submit([a_job() for _ in range(5)])
    one, other = await a_worker(engine), await a_worker(engine)
    await _fail(one, 2)
    clock.advance(_COOLDOWN)
    (probe,) = await one.claim(5)
    assert await other.claim(5) == []
    waiting = asyncio.ensure_future(other.session.wait(30))
    await heard(engine)

    await one.succeed(probe)
    await asyncio.wait_for(waiting, 20)

    assert len(await other.claim(5)) == 2


async def test_a_share_of_failures_opens_a_breaker_once_there_are_enough_outcomes(
    engine: Engine, clock: ManualClock
) -> None:
    """Though none of them come in a row, and what is older than the window does not count."""
    said = BreakerSettings(ratio=0.5, least=4, window=10 * SECOND, cooldown=_COOLDOWN)
    await breaker_settings.put(engine, "noop", Layer.OVERRIDDEN, said)
    await engine.submit([a_job() for _ in range(9)])
    worker = await a_worker(engine)

    async def alternate(times: int) -> Phase:
        for _ in range(times):
            good, bad = await worker.claim(2)
            await worker.succeed(good)
            await worker.fail(bad)
        return await _phase(engine)

    few = await alternate(1)
    clock.advance(11 * SECOND)
    forgotten = await alternate(1)
    enough = await alternate(1)

    assert (few, forgotten, enough) == (Phase.CLOSED, Phase.CLOSED, Phase.OPEN)
    assert await worker.claim(1) == []
