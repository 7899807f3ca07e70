"""Real workers and keepers that are killed: what ran is charged, and the rest goes on."""

import asyncio
import os
import re
import signal
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from keeper_yard import PATIENCE, SHORT, Yard, is_alive, open_yard

from longshore.core.state import State
from longshore.testing.harness import eventually

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="keepers are for Linux"),
]


HERE_AND_PROVED = ["sqlite", pytest.param("postgres", marks=pytest.mark.prove)]
"""Where what is tested is the worker's and the keeper's own, and not their store's."""


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        return request.getfixturevalue("empty_postgres_url")
    return f"sqlite:///{tmp_path}/jobs.db"


@pytest.fixture
async def yard(url: str, tmp_path: Path) -> AsyncIterator[Yard]:
    async with open_yard(url, tmp_path) as yard:
        yield yard


@pytest.mark.slow
async def test_the_job_of_a_killed_worker_runs_elsewhere_at_once(yard: Yard):
    first = await yard.started("hold")
    (job_id,) = await yard.submit("hold")
    await yard.ran(1)
    await yard.started("hold")

    first.kill()
    # Long before the lease is over: nobody here waits for that.
    (job,) = await yard.settled([job_id])

    assert (job.attempt, job.crashes, job.failures, job.lapses) == (2, 1, 0, 0)
    outcomes = [one.outcome for one in await yard.engine.attempts(job_id)]
    assert outcomes == ["crashed", "succeeded"]


async def test_a_crash_charges_what_ran_and_nothing_else(yard: Yard):
    """One job runs in the only room; what waits for the room has not started."""
    (running,) = await yard.submit("hold_in_thread")
    first = await yard.started("hold,quick", concurrency="1")
    await yard.ran(1)
    waiting = await yard.submit("quick", 20)

    first.kill()
    await first.logged("worker died, its jobs are free")
    after = [await yard.engine.get(running), *await yard.jobs(waiting)]

    assert {job.state for job in after} == {State.READY}
    assert [(job.attempt, job.crashes) for job in after] == [(1, 1)] + [(0, 0)] * 20
    assert {(job.failures, job.lapses) for job in after} == {(0, 0)}


@pytest.mark.slow
@pytest.mark.parametrize("url", HERE_AND_PROVED, indirect=True)
async def test_jobs_that_had_ended_do_not_run_again(yard: Yard):
    """At full speed hundreds have ended of which the engine has not heard."""
    ids = await yard.submit("quick", 4_000)
    first = await yard.started("quick")
    await yard.ran(500)

    first.kill()
    await first.logged("worker died, its jobs are free")
    await yard.started("quick")
    jobs = await yard.settled(ids)

    # One handler ran when the worker died, or none did.
    assert sum(job.crashes for job in jobs) <= 1
    assert sum(job.failures + job.lapses for job in jobs) == 0
    assert len(yard.runs()) <= 4_001
    assert Counter(job.attempt for job in jobs)[1] >= 3_999


@pytest.mark.parametrize("url", HERE_AND_PROVED, indirect=True)
async def test_a_job_that_kills_its_worker_is_charged_alone(yard: Yard):
    (fatal,) = await yard.submit("fatal")
    waiting = await yard.submit("quick", 20)

    hand = yard.start("fatal,quick", concurrency="1")
    await hand.logged("worker died, its jobs are free")

    after = [await yard.engine.get(fatal), *await yard.jobs(waiting)]
    assert {job.state for job in after} == {State.READY}
    assert [(job.attempt, job.crashes) for job in after] == [(1, 1)] + [(0, 0)] * 20


@pytest.mark.slow
@pytest.mark.parametrize("url", HERE_AND_PROVED, indirect=True)
async def test_a_killed_keeper_is_replaced_and_no_lease_is_lost(yard: Yard):
    hand = await yard.started("hold")
    (job_id,) = await yard.submit("hold")
    await yard.ran(1)
    keeper = await hand.keeper()

    os.kill(keeper, signal.SIGKILL)
    second = await hand.keeper(2)
    (session,) = (await yard.engine.sessions()).sessions

    async def is_kept() -> bool:
        (now,) = (await yard.engine.sessions()).sessions
        return now.renewed_at > session.renewed_at

    await eventually(is_kept, within=PATIENCE)
    await yard.started("hold")
    hand.kill()
    (job,) = await yard.settled([job_id])

    assert second != keeper
    assert hand.lines("lease lost") == []
    assert (job.crashes, job.delivery) == (1, 2)


@pytest.mark.prove
async def test_keepers_that_are_killed_again_and_again_cost_no_lease(yard: Yard):
    """Each is replaced later than the one before; meanwhile the worker renews by itself."""
    hand = await yard.started("hold", lease="3s")
    (job_id,) = await yard.submit("hold")
    await yard.ran(1)

    waits: list[float] = []
    for number in range(1, 5):
        os.kill(await hand.keeper(number), signal.SIGKILL)
        killed = time.monotonic()
        await hand.keeper(number + 1)
        waits.append(time.monotonic() - killed)
    yard.go()
    (job,) = await yard.settled([job_id])

    assert waits[0] < 1.0
    assert hand.lines("lease lost") == []
    assert (job.delivery, job.crashes, job.lapses) == (1, 0, 0)


@pytest.mark.prove
async def test_when_both_are_killed_the_lease_decides(yard: Yard):
    first = await yard.started("hold", lease=f"{SHORT}s")
    started, *_ = await yard.submit("hold")
    await yard.ran(1)

    async def is_start_known() -> bool:
        return (await yard.engine.get(started)).started_at is not None

    await eventually(is_start_known, within=PATIENCE)
    await yard.started("hold", lease=f"{SHORT}s")
    os.kill(await first.keeper(), signal.SIGSTOP)
    first.kill()
    os.kill(await first.keeper(), signal.SIGKILL)
    killed = time.monotonic()
    (job,) = await yard.settled([started])

    again = yard.runs()[1]
    assert again.at - killed > SHORT / 2
    assert (job.crashes, job.failures) == (1, 0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("url", "number"),
    [("sqlite", signal.SIGTERM), ("postgres", signal.SIGINT)],
    indirect=["url"],
)
async def test_a_keeper_leaves_with_its_worker_and_not_before(
    yard: Yard, number: signal.Signals
):
    hand = await yard.started("hold", lease=f"{SHORT}s")
    (job_id,) = await yard.submit("hold")
    await yard.ran(1)
    keeper = await hand.keeper()

    os.kill(keeper, number)
    os.killpg(hand.pid, number)
    await hand.logged("worker asked to leave")
    await asyncio.sleep(1.2 * SHORT)  # longer than the lease: it drains, and it is kept
    was_there = is_alive(keeper)
    yard.go()

    assert await asyncio.to_thread(hand.process.wait, PATIENCE) == 0
    assert was_there
    await eventually(lambda: not is_alive(keeper), within=PATIENCE)
    (job,) = await yard.jobs([job_id])
    assert (job.state, job.delivery) == (State.SUCCEEDED, 1)
    assert hand.lines("keeper died") == []


def ignores(pid: int, number: signal.Signals) -> bool:
    """Whether the process is there, and takes no notice of this signal."""
    found = re.search(
        r"^SigIgn:\s*(\w+)", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE
    )
    return found is not None and bool(int(found[1], 16) >> number - 1 & 1)


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
async def test_a_keeper_that_is_still_starting_does_not_heed_signals_either(yard: Yard):
    hand = yard.start("quick")
    keeper, numbers = await hand.keeper(), (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    for number in numbers:
        os.kill(keeper, number)

    await eventually(lambda: all(ignores(keeper, one) for one in numbers), within=PATIENCE)
    await yard.kept()
    assert len(hand.lines("keeper started")) == 1


@pytest.mark.parametrize("url", HERE_AND_PROVED, indirect=True)
async def test_without_a_keeper_the_worker_works_as_ever(yard: Yard):
    ids = await yard.submit("quick", 10)

    hand = yard.start("quick", keeper="false")
    await yard.settled(ids)
    hand.kill(signal.SIGTERM)

    assert await asyncio.to_thread(hand.process.wait, PATIENCE) == 0
    assert hand.lines("keeper started") == []
