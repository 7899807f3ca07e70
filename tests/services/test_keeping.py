"""A keeper's watch over a real process: its lease is kept, its death reported."""

import os
import signal
import sys
from collections.abc import AsyncIterator
from typing import cast

import pytest
from keeper_post import LEASE, LEASE_US, Post, claims, is_stopped, numbers, open_post

from longshore.contract import Keeper
from longshore.core import settle
from longshore.core.job import Claim, Settlement
from longshore.core.state import State
from longshore.testing.factories import SECOND, a_failure, a_job
from longshore.testing.harness import eventually
from longshore.testing.manual import a_worker

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="keepers are for Linux")


@pytest.fixture
async def post() -> AsyncIterator[Post]:
    async with open_post() as post:
        yield post


async def test_a_lease_is_kept_while_the_worker_does_nothing(post: Post):
    (claim,) = await claims(post, 1)

    await post.pass_time(5 * LEASE_US)

    assert (await post.worker.succeed(claim)).stale == []
    assert not post.keeping.done()


async def test_the_worker_can_see_how_far_its_lease_was_kept(post: Post):
    await post.pass_time(LEASE_US)

    kept = post.record.renewed(post.worker.session.token)
    assert 0 <= post.clock.monotonic() - kept <= LEASE / 2
    assert post.record.renewed(12_345) == 0.0


async def test_a_death_is_reported_and_each_job_gets_what_became_of_it(post: Post):
    done, failed, running, waiting = await claims(post, 4)
    cells = [post.begin(claim) for claim in (done, failed, running)]
    post.clock.advance(5)
    now = post.clock.monotonic()
    post.record.ends[cells[0]] = now
    post.record.end(cells[1], now, a_retry(failed))
    await post.look()

    post.kill()
    await post.reported()

    assert numbers(await post.job(done)) == (State.SUCCEEDED, 1, 0, 0, 0)
    assert numbers(await post.job(failed)) == (State.SCHEDULED, 1, 1, 0, 0)
    assert numbers(await post.job(running)) == (State.READY, 1, 0, 1, 0)
    assert numbers(await post.job(waiting)) == (State.READY, 0, 0, 0, 0)
    assert (await post.engine.sessions()).sessions == []


async def test_what_an_incomplete_record_leaves_out_is_charged_a_crash(post: Post):
    (claim,) = await claims(post, 1)
    post.record.spare()

    post.kill()
    await post.reported()

    assert numbers(await post.job(claim)) == (State.READY, 1, 0, 1, 0)


async def test_times_in_the_record_are_told_on_the_engines_clock(post: Post):
    (claim,) = await claims(post, 1)
    await post.kept()
    began = post.clock.now()
    cell = post.begin(claim)
    await post.pass_time(LEASE_US)
    post.record.ends[cell] = post.clock.monotonic()
    ended = post.clock.now()

    post.kill()
    await post.reported()

    job = await post.job(claim)
    assert job.started_at == pytest.approx(began, abs=10)
    assert job.finished_at == pytest.approx(ended, abs=10)


async def test_a_stopped_worker_loses_its_lease(post: Post):
    await post.kept()
    os.kill(post.process.pid, signal.SIGSTOP)
    await eventually(lambda: is_stopped(post.process.pid))
    for _ in range(4):
        post.clock.advance(LEASE_US // 2)
        await post.look()

    lapsed = await post.engine.expired_sessions(grace=0, limit=10)

    assert [one.token for one in lapsed] == [post.worker.session.token]


async def test_a_worker_that_was_resumed_too_late_is_not_revived(post: Post):
    await post.kept()
    os.kill(post.process.pid, signal.SIGSTOP)
    await eventually(lambda: is_stopped(post.process.pid))
    post.clock.advance(2 * LEASE_US)
    kept = post.record.renewed(post.worker.session.token)

    os.kill(post.process.pid, signal.SIGCONT)
    await post.tried()
    await post.look()

    assert post.record.renewed(post.worker.session.token) == kept
    assert len(await post.engine.expired_sessions(grace=0, limit=10)) == 1


async def test_a_worker_that_was_stopped_briefly_keeps_its_lease(post: Post):
    (claim,) = await claims(post, 1)
    await post.kept()
    os.kill(post.process.pid, signal.SIGSTOP)
    await eventually(lambda: is_stopped(post.process.pid))
    post.clock.advance(LEASE_US // 2)
    await post.look()

    os.kill(post.process.pid, signal.SIGCONT)
    await post.pass_time(3 * LEASE_US)

    assert (await post.worker.succeed(claim)).stale == []


async def test_a_renewal_that_failed_is_tried_again_in_time(post: Post):
    (claim,) = await claims(post, 1)
    await post.kept()

    for _ in range(4):
        with post.engine.outage():
            post.clock.advance(LEASE_US // 2)
            await post.tried()
        await post.pass_time(LEASE_US // 3)

    assert (await post.worker.succeed(claim)).stale == []


async def test_a_death_during_an_outage_is_reported_when_the_engine_is_back(post: Post):
    (claim,) = await claims(post, 1)
    post.begin(claim)

    with post.engine.outage():
        post.kill()
        await eventually(lambda: post.engine.calls.count("held") >= 3)
        was_running = not post.keeping.done()
    await post.reported()

    assert was_running
    assert numbers(await post.job(claim)) == (State.READY, 1, 0, 1, 0)


@pytest.mark.parametrize("call", ["held", "bury"])
async def test_a_lost_answer_does_no_harm(post: Post, call: str):
    first, second = await claims(post, 2)
    post.record.ends[post.begin(first)] = post.clock.monotonic() + 0.001
    post.begin(second)
    post.engine.lose_answers(1, of=[call])

    post.kill()
    await post.reported()

    assert numbers(await post.job(first)) == (State.SUCCEEDED, 1, 0, 0, 0)
    assert numbers(await post.job(second)) == (State.READY, 1, 0, 1, 0)


async def test_a_session_that_others_buried_is_left_alone(post: Post):
    (claim,) = await claims(post, 1)
    post.begin(claim)
    await cast("Keeper", post.engine).end_session(post.worker.session.token, [])

    post.kill()
    await post.reported()

    assert numbers(await post.job(claim)) == (State.READY, 0, 0, 0, 0)


async def test_a_keeper_leaves_when_its_worker_has_no_session(post: Post):
    post.watch.dismiss()
    await post.look()
    is_dismissed_too_soon = post.keeping.done()
    await post.worker.session.close()
    post.record.token = 0

    post.watch.dismiss()
    await post.reported()

    assert not is_dismissed_too_soon
    assert post.process.poll() is None


async def test_what_a_worker_that_left_could_not_end_is_buried(post: Post):
    (claim,) = await claims(post, 1)
    post.record.leave()

    post.watch.dismiss()
    await post.reported()

    assert numbers(await post.job(claim)) == (State.READY, 0, 0, 0, 0)


async def test_the_next_session_is_kept_too(post: Post):
    await post.engine.submit([a_job()])
    await cast("Keeper", post.engine).end_session(post.worker.session.token, [])
    await post.pass_time(LEASE_US)
    again = await a_worker(post.engine, lease=LEASE_US)
    post.record.token = again.session.token
    (claim,) = await again.claim()

    await post.look()
    await post.pass_time(3 * LEASE_US)

    assert (await again.succeed(claim)).stale == []


def a_retry(claim: Claim) -> Settlement:
    return settle.failed(claim, a_failure(), delay=SECOND, started_at=1, finished_at=2)
