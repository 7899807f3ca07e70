"""The faults that FlakyEngine makes on demand."""

import asyncio

import pytest

from longshore.core.job import Verdict
from longshore.core.state import State
from longshore.errors import EngineUnavailableError, JobNotFoundError
from longshore.runtime.clock import ManualClock
from longshore.testing.factories import a_job
from longshore.testing.flaky import FlakyEngine
from longshore.testing.manual import a_worker
from longshore.testing.model import ModelEngine


@pytest.fixture
def flaky(clock: ManualClock) -> FlakyEngine:
    return FlakyEngine(ModelEngine(clock))


async def test_an_engine_that_is_down_does_nothing(flaky: FlakyEngine) -> None:
    engine, job = flaky, a_job()

    with flaky.outage(), pytest.raises(EngineUnavailableError):
        await engine.submit([job])

    with pytest.raises(JobNotFoundError):
        await engine.get(job.id)


async def test_a_lost_answer_belongs_to_a_call_that_was_carried_out(flaky: FlakyEngine) -> None:
    engine, job = flaky, a_job()
    flaky.lose_answers(1)

    with pytest.raises(EngineUnavailableError):
        await engine.submit([job])

    (answer,) = await engine.submit([job])
    assert answer.verdict is Verdict.REPEATED


async def test_answers_are_lost_only_of_the_calls_that_were_named(flaky: FlakyEngine) -> None:
    engine = flaky
    await engine.submit([a_job()])
    worker = await a_worker(engine)
    flaky.lose_answers(1, of=["exchange"])

    renewed = await worker.session.renew()
    with pytest.raises(EngineUnavailableError):
        await worker.claim()

    (claim,) = await worker.claim()
    assert renewed.released == 0
    assert (await engine.get(claim.id)).state is State.RUNNING


async def test_calls_that_hang_go_on_when_the_line_is_back(flaky: FlakyEngine) -> None:
    engine, job = flaky, a_job()
    flaky.hang()
    call = asyncio.ensure_future(engine.submit([job]))
    await asyncio.sleep(0)
    was_done = call.done()

    flaky.come_back()

    async with asyncio.timeout(10):
        (answer,) = await call
    assert (was_done, answer.verdict) == (False, Verdict.ACCEPTED)


async def test_sessions_share_the_switches(flaky: FlakyEngine) -> None:
    worker = await a_worker(flaky)

    with flaky.outage(), pytest.raises(EngineUnavailableError):
        await worker.session.renew()

    assert flaky.calls == ["open_session", "renew"]
    assert worker.session.token == 1
