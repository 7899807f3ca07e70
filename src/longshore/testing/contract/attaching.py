import pytest

from longshore.contract import Engine
from longshore.core import settle
from longshore.core.event import Name
from longshore.core.state import State
from longshore.errors import ExchangeOrderError, LeaseLostError
from longshore.runtime.clock import ManualClock
from longshore.testing.contract.arranging import events_of
from longshore.testing.factories import a_job
from longshore.testing.manual import LEASE, a_worker, reference


async def test_an_attached_session_settles_what_another_process_claimed(
    engine: Engine,
) -> None:
    await engine.submit([a_job(), a_job()])
    worker = await a_worker(engine)
    worker.session = await engine.attach_session(worker.session.token)
    first, second = await worker.claim(2)
    worker.session = await engine.attach_session(worker.session.token)

    answer = await worker.succeed(first, b'"done"')

    assert answer.stale == []
    assert (await engine.get(first.id)).state is State.SUCCEEDED
    assert (await engine.get(second.id)).state is State.RUNNING


async def test_an_attached_session_repeats_the_exchange_of_another_process(
    engine: Engine,
) -> None:
    await engine.submit([a_job() for _ in range(3)])
    worker = await a_worker(engine)
    worker.session = await engine.attach_session(worker.session.token)
    first = await worker.exchange(want=2)
    worker.session = await engine.attach_session(worker.session.token)

    second = await worker.repeat()

    assert second.claims == first.claims
    (queue,) = await engine.counts()
    assert (queue.running, queue.ready) == (2, 1)


async def test_processes_that_speak_for_one_session_in_turn_tell_a_start_once(
    engine: Engine, clock: ManualClock
) -> None:
    await engine.submit([a_job()])
    worker = await a_worker(engine)
    here = await engine.attach_session(worker.session.token)
    there = await engine.attach_session(worker.session.token)
    (claim,) = (await here.exchange(1, want=1)).claims
    name = reference(claim)

    await there.renew(started=[name], held=[name], number=1)
    await here.exchange(2, started=[name])
    done = settle.succeeded(claim, started_at=clock.now(), finished_at=clock.now())
    answer = await there.exchange(3, settlements=[done])
    late = await here.exchange(4, settlements=[done])

    assert (answer.stale, late.stale) == ([], [name])
    assert (await events_of(engine, claim.id)).count(Name.STARTED) == 1


async def test_processes_that_speak_for_one_session_count_its_exchanges_together(
    engine: Engine,
) -> None:
    worker = await a_worker(engine)
    here = await engine.attach_session(worker.session.token)
    there = await engine.attach_session(worker.session.token)
    await here.exchange(1, want=1)
    await there.exchange(2, want=1)

    with pytest.raises(ExchangeOrderError):
        await here.exchange(1)
    with pytest.raises(ExchangeOrderError):
        await there.exchange(4)

    await here.exchange(3)


async def test_an_attached_session_has_the_lease_it_was_opened_with(engine: Engine) -> None:
    worker = await a_worker(engine)

    session = await engine.attach_session(worker.session.token)

    assert (session.token, session.lease) == (worker.session.token, LEASE)


async def test_a_session_that_is_over_cannot_be_attached(
    engine: Engine, clock: ManualClock
) -> None:
    closed = await a_worker(engine)
    lapsed = await a_worker(engine)
    await closed.session.close()
    attached = await engine.attach_session(lapsed.session.token)
    clock.advance(LEASE)

    for token in (closed.session.token, lapsed.session.token, 10_000):
        with pytest.raises(LeaseLostError):
            await engine.attach_session(token)
    with pytest.raises(LeaseLostError):
        await attached.exchange(1)


async def test_closing_an_attached_session_gives_back_what_it_held(engine: Engine) -> None:
    (submitted,) = await engine.submit([a_job()])
    worker = await a_worker(engine)
    session = await engine.attach_session(worker.session.token)
    await session.exchange(1, want=1)

    await (await engine.attach_session(session.token)).close()

    assert (await engine.get(submitted.id)).state is State.READY
    assert (await engine.sessions()).sessions == []


async def test_a_session_has_an_owner_until_it_ends(engine: Engine, clock: ManualClock) -> None:
    worker = await a_worker(engine)
    other = await a_worker(engine, lease=2 * LEASE)
    token = worker.session.token
    live = await engine.owner_of(token)
    clock.advance(LEASE + 1)

    lapsed = await engine.owner_of(token)
    await engine.end_session(token, [])

    assert live is not None
    assert lapsed == live
    assert await engine.owner_of(token) is None
    assert await engine.owner_of(other.session.token) is not None
    assert await engine.owner_of(other.session.token + 1) is None
