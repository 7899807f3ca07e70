"""When a keeper ends the worker it watches, says of it that it is stuck, or goes itself."""

import logging
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from keeper_post import LEASE_US, NEVER, Post, claims, is_stopped, numbers, open_post

from longshore.core.backoff import Backoff, Jitter
from longshore.core.state import State
from longshore.testing.factories import SECOND
from longshore.testing.harness import eventually

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="keepers are for Linux")


@pytest.fixture
async def post() -> AsyncIterator[Post]:
    async with open_post() as post:
        yield post


async def test_a_worker_that_stands_still_past_a_timeout_is_ended_and_the_job_charged(
    post: Post,
):
    stuck, neighbour = await claims(post, 2)
    post.begin(stuck, deadline=post.clock.monotonic() + 1)
    post.begin(neighbour)

    await post.stand_still(12 * SECOND)
    await post.reported()

    assert post.process.wait(10) == -signal.SIGKILL
    job = await post.job(stuck)
    assert numbers(job) == (State.SCHEDULED, 1, 1, 0, 0)
    assert job.failure is not None
    assert job.failure.kind == "timeout"
    assert numbers(await post.job(neighbour)) == (State.READY, 1, 0, 1, 0)


async def test_a_job_past_its_time_whose_worker_others_killed_is_not_charged_a_timeout(
    post: Post,
):
    (claim,) = await claims(post, 1)
    post.begin(claim, deadline=post.clock.monotonic() + 0.1)
    await post.pass_time(LEASE_US)

    post.kill()
    await post.reported()

    assert numbers(await post.job(claim)) == (State.READY, 1, 0, 1, 0)


@pytest.mark.parametrize("case", ["in time", "with a pulse", "over", "stopped"])
async def test_a_worker_is_not_ended(post: Post, case: str):
    (claim,) = await claims(post, 1)
    deadline = NEVER if case == "in time" else post.clock.monotonic() + 1
    cell = post.begin(claim, deadline=deadline)
    if case == "over":
        post.record.ends[cell] = post.clock.monotonic() + 0.5
    if case == "stopped":
        os.kill(post.process.pid, signal.SIGSTOP)
        await eventually(lambda: is_stopped(post.process.pid))

    if case == "with a pulse":
        await post.pass_time(14 * SECOND)
    else:
        await post.stand_still(14 * SECOND)
    if case == "stopped":
        # Resumed, it has not had the time for a pulse.
        os.kill(post.process.pid, signal.SIGCONT)
        for _ in range(3):
            post.clock.advance(SECOND)
            await post.look()

    assert post.process.poll() is None
    assert not post.keeping.done()


async def test_a_job_that_ran_out_of_time_waits_as_long_as_its_task_says():
    patient = Backoff(base=300 * SECOND, cap=3_600 * SECOND, jitter=Jitter.NONE)
    async with open_post(backoffs={"report": patient}) as post:
        stuck, usual = *await claims(post, 1, type="report"), *await claims(post, 1)
        for claim in (stuck, usual):
            post.begin(claim, deadline=post.clock.monotonic() + 1)

        await post.stand_still(12 * SECOND)
        await post.reported()

        waits = [(await post.job(one)).run_at - post.clock.now() for one in (stuck, usual)]
        assert 500 * SECOND < waits[0] <= 600 * SECOND
        assert waits[1] < 2 * SECOND


async def test_a_worker_none_of_whose_threads_can_run_is_called_stuck_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.INFO)
    file = tmp_path / "ready"
    file.touch()
    async with open_post(stuck_after=3.0, ready_file=str(file)) as post:
        post.record.glance(post.clock.monotonic())
        await post.pass_time(2 * SECOND)
        was_ready = file.exists()

        await post.pass_time(4 * SECOND)
        said = caplog.messages.count("worker is stuck")
        post.record.glance(post.clock.monotonic())
        await post.pass_time(SECOND)

        assert was_ready
        assert not file.exists()
        assert (said, caplog.messages.count("worker can claim again")) == (1, 1)
        assert post.process.poll() is None


async def test_a_worker_none_of_whose_threads_can_run_is_ended_if_asked():
    async with open_post(stuck_after=3.0, exit_when_stuck=True) as post:
        (claim,) = await claims(post, 1)
        post.begin(claim)
        post.record.glance(post.clock.monotonic())

        await post.pass_time(4 * SECOND)
        await post.reported()

        assert post.process.wait(10) == -signal.SIGKILL
        assert numbers(await post.job(claim)) == (State.READY, 1, 0, 1, 0)


@pytest.mark.parametrize("case", ["without a lookout", "stopped", "keeper away"])
async def test_a_worker_is_not_called_stuck(case: str):
    async with open_post(stuck_after=3.0, exit_when_stuck=True) as post:
        if case != "without a lookout":
            post.record.glance(post.clock.monotonic())
        await post.look()
        if case == "stopped":
            os.kill(post.process.pid, signal.SIGSTOP)
            await eventually(lambda: is_stopped(post.process.pid))

        if case == "keeper away":
            post.clock.advance(60 * SECOND)
            await post.look()
        else:
            await post.pass_time(5 * SECOND)

        assert post.process.poll() is None


async def test_a_keeper_goes_when_its_workers_lease_is_over_and_the_engine_has_not_come_back(
    caplog: pytest.LogCaptureFixture,
):
    async with open_post() as post:
        (claim,) = await claims(post, 1)
        post.begin(claim)
        with post.engine.outage():
            post.kill()
            await eventually(lambda: post.engine.calls.count("held") >= 2)
            post.clock.advance(LEASE_US)
            await eventually(lambda: post.engine.calls.count("held") >= 4)
            was_trying = not post.keeping.done()

            post.clock.advance(6 * SECOND)
            await post.reported()

        assert was_trying
        assert "death left to others to find" in caplog.messages
        assert (await post.job(claim)).state is State.RUNNING
