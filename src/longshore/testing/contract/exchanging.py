"""What one exchange says holds for that exchange, that session and that delivery alone."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from longshore.contract import Engine
from longshore.core import settle
from longshore.core.limit_settings import BreakerSettings, Layer
from longshore.core.state import State
from longshore.errors import ExchangeOrderError
from longshore.records import breaker_settings, schedules
from longshore.runtime.clock import ManualClock
from longshore.testing.contract.requirements import requires
from longshore.testing.factories import HOUR, SECOND, a_job, a_schedule
from longshore.testing.manual import LEASE, a_worker, heard, reclaim_lapsed, reference


async def test_exchanges_of_another_session_keep_none_from_sending_its_own_again(
    engine: Engine,
) -> None:
    await engine.submit([a_job() for _ in range(6)])
    one, other = await a_worker(engine), await a_worker(engine)
    first = await one.claim()
    for _ in range(2):
        await other.claim()

    again = await one.repeat()

    assert again.claims == first
    assert [it.running for it in await engine.counts()] == [3]


async def test_a_number_that_was_refused_keeps_none_from_sending_its_last_exchange_again(
    engine: Engine,
) -> None:
    await engine.submit([a_job() for _ in range(4)])
    worker = await a_worker(engine)
    first = await worker.claim(2)
    with pytest.raises(ExchangeOrderError):
        await worker.session.exchange(worker.number + 2)

    again = await worker.repeat()

    assert again.claims == first


async def test_a_request_to_cancel_that_came_too_late_does_not_reach_the_next_holder(
    engine: Engine,
) -> None:
    job, late = a_job(), a_job()
    await engine.submit([job])
    one, other = await a_worker(engine), await a_worker(engine)
    (claim,) = await one.claim()
    await engine.change("cancel", [job.id], reason="no longer needed")
    await one.kill(claim)
    await engine.change("replay", [job.id])
    await engine.submit([late])
    again, unwanted = await other.claim(2)
    await engine.change("cancel", [late.id], reason="no longer needed")

    answer = await other.fail(again)

    assert (again.id, unwanted.id) == (job.id, late.id)
    assert (answer.stale, answer.cancel) == ([], [reference(unwanted)])
    assert (await engine.get(job.id)).state is State.SCHEDULED


async def test_a_session_that_got_all_it_wanted_need_not_look_again_for_what_rests(
    engine: Engine,
) -> None:
    breaker = BreakerSettings(failures=1, cooldown=HOUR)
    await breaker_settings.put(engine, "noop", Layer.OVERRIDDEN, breaker)
    await engine.submit([a_job(), a_job(), a_job(type="free")])
    worker = await a_worker(engine, types=["noop", "free"])
    (claim,) = await worker.claim()
    await worker.fail(claim)

    enough = await worker.exchange(want=1)
    more = await worker.exchange(want=1)

    assert (len(enough.claims), enough.look_in) == (1, None)
    assert (more.claims, more.look_in) == ([], HOUR)


async def test_a_job_that_began_and_ended_in_one_exchange_began_at_that_moment(
    engine: Engine, clock: ManualClock
) -> None:
    jobs = [a_job(), a_job()]
    await engine.submit(jobs)
    worker = await a_worker(engine)
    first, second = await worker.claim(2)
    clock.advance(SECOND)

    await worker.exchange(
        started=[reference(first), reference(second)],
        settlements=[settle.condemned(first), settle.put_off(second, HOUR)],
    )

    dead = await engine.get(first.id)
    histories = [await engine.attempts(one.id) for one in (first, second)]
    assert dead.started_at == clock.now()
    assert [[it.started_at for it in history] for history in histories] == [[clock.now()]] * 2


async def test_processes_that_speak_for_sessions_one_by_one_mix_up_nothing_of_what_they_told(
    engine: Engine, clock: ManualClock
) -> None:
    await engine.submit([a_job() for _ in range(8)])
    workers = [await a_worker(engine) for _ in range(2)]
    held = [await worker.claim(4) for worker in workers]

    for place in range(3):
        for worker, claims in zip(workers, held, strict=True):
            if place > 1:
                worker.session = await engine.attach_session(worker.session.token)
            assert (await worker.succeed(claims[place])).stale == []
    clock.advance(LEASE)
    await reclaim_lapsed(engine)

    (counts,) = await engine.counts()
    assert (counts.succeeded, counts.ready + counts.scheduled, counts.running) == (6, 2, 0)


@requires("shared_between_processes")
@pytest.mark.parametrize(
    "jobs",
    [[{}], [{}, {}], [{"unique_key": "k"}], [{"ordering_key": "k"}]],
    ids=["a job", "jobs", "a unique job", "a job in line"],
)
async def test_whatever_another_process_submits_ends_the_wait(
    engine: Engine, reopen: Callable[[], Awaitable[Engine]], jobs: list[dict[str, str]]
) -> None:
    if "ordering_key" in jobs[0] and not engine.traits.ordering_keys:
        pytest.skip("this engine has no ordering keys")
    other = await reopen()
    worker = await a_worker(engine)
    assert await worker.claim() == []
    # Who begins to listen, or to wait, is woken once to look at what came meanwhile.
    await worker.session.wait(0.1)
    await asyncio.sleep(0.05)
    waiting = asyncio.ensure_future(worker.session.wait(20.0))
    await heard(engine)

    await other.submit([a_job(**options) for options in jobs])
    await asyncio.wait_for(waiting, 10.0)

    assert len(await worker.claim()) == 1


@requires("shared_between_processes")
async def test_the_end_of_a_job_in_another_process_ends_the_wait_for_its_turn(
    engine: Engine, reopen: Callable[[], Awaitable[Engine]]
) -> None:
    if not engine.traits.ordering_keys:
        pytest.skip("this engine has no ordering keys")
    await engine.submit([a_job(ordering_key="k") for _ in range(2)])
    other, worker = await a_worker(await reopen()), await a_worker(engine)
    (claim,) = await other.claim(9)
    assert await worker.claim() == []
    await worker.session.wait(0.1)
    await asyncio.sleep(0.05)
    waiting = asyncio.ensure_future(worker.session.wait(20.0))
    await heard(engine)

    await other.succeed(claim)
    await asyncio.wait_for(waiting, 10.0)

    assert len(await worker.claim()) == 1


async def test_schedules_that_are_due_at_once_are_listed_by_tenant_and_name(
    engine: Engine, clock: ManualClock
) -> None:
    due = clock.now()
    names = [("acme", "b"), ("default", "a"), ("acme", "c"), ("acme", "a"), ("default", "b")]
    for tenant, name in names:
        await schedules.put(engine, a_schedule(tenant=tenant, name=name, next_due=due))

    listed = await schedules.due(engine, limit=9)

    assert [(one.schedule.tenant, one.schedule.name) for one in listed] == sorted(names)
