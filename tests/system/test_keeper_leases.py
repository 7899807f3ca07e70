"""Real workers whose leases are at stake: hogged by a handler, stopped, stuck."""

import asyncio
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from keeper_yard import PATIENCE, SHORT, Yard, open_yard

from longshore.core.state import State
from longshore.testing.harness import eventually

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="keepers are for Linux"),
]

HOGS = ("match", "block", "spin", "bomb")


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
@pytest.mark.parametrize(
    ("url", "task"),
    [
        ("sqlite", "match"),
        *(pytest.param("sqlite", task, marks=pytest.mark.prove) for task in HOGS[1:]),
        *(pytest.param("postgres", task, marks=pytest.mark.prove) for task in HOGS),
    ],
    indirect=["url"],
)
async def test_a_handler_may_hog_the_process_for_three_leases(yard: Yard, task: str):
    lease = {"match": SHORT, "spin": SHORT}.get(task, 3 * SHORT)
    hand = await yard.started("hog,quick", lease=f"{lease}s")
    ids = await yard.submit(task, seconds=3.2 * lease)

    (job,) = await yard.settled(ids)

    assert (job.delivery, job.attempt, job.crashes, job.lapses) == (1, 1, 0, 0)
    assert hand.lines("lease lost") == []
    assert len(yard.runs()) == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "url", ["postgres", pytest.param("sqlite", marks=pytest.mark.prove)], indirect=True
)
async def test_a_worker_that_is_stopped_past_its_lease_settles_nothing(yard: Yard):
    first = await yard.started("hold", lease=f"{SHORT}s")
    ids = [*await yard.submit("hold"), *await yard.submit("stay")]
    await yard.ran(2)
    await yard.stop(first)
    await yard.started("hold", lease=f"{SHORT}s")
    taken = await yard.settled(ids)

    # One of its handlers would return at once, the other never.
    yard.go()
    first.kill(signal.SIGCONT)
    await first.logged("lease lost")
    await eventually(yard.aborted, within=PATIENCE)
    others = await yard.submit("hold", 3)
    await yard.settled(others)

    assert await yard.jobs(ids) == taken
    assert {job.delivery for job in taken} == {2}
    assert yard.aborted() == {(first.pid, 0)}
    assert first.lines("settlement refused") == []
    for job_id in ids:
        assert [one.outcome for one in await yard.engine.attempts(job_id)][-1] == "succeeded"


@pytest.mark.parametrize(
    "url", ["sqlite", pytest.param("postgres", marks=pytest.mark.prove)], indirect=True
)
async def test_a_worker_that_is_stopped_for_less_than_its_lease_goes_on(yard: Yard):
    first = await yard.started("hold")
    (job_id,) = await yard.submit("hold")
    await yard.ran(1)

    await yard.stop(first)
    await first.logged("worker is stopped, lease not renewed")
    first.kill(signal.SIGCONT)
    yard.go()
    (job,) = await yard.settled([job_id])

    assert (job.delivery, job.crashes) == (1, 0)
    assert first.lines("lease lost") == []


@pytest.mark.prove
async def test_a_worker_whose_loop_is_stuck_past_a_timeout_is_ended(yard: Yard):
    hand = await yard.started("stuck")
    (job_id,) = await yard.submit("stuck")

    await hand.logged("worker stands still past a timeout, ended")
    (job,) = await yard.settled([job_id], State.DEAD)

    assert await asyncio.to_thread(hand.process.wait, PATIENCE) == -signal.SIGKILL
    assert (job.failures, job.crashes, job.reason) == (1, 0, "exhausted")
    assert job.failure is not None
    assert job.failure.kind == "timeout"


@pytest.mark.prove
async def test_fifty_workers_that_are_stopped_past_their_leases_settle_nothing(yard: Yard):
    for round_ in range(10):
        holders = [yard.start("hold", lease="6s", concurrency="2") for _ in range(5)]
        ids = [*await yard.submit("hold", 5), *await yard.submit("stay", 5)]
        pids = [holder.pid for holder in holders]

        def all_run(pids: list[int] = pids) -> bool:
            return sum(run.pid in pids for run in yard.runs()) == 10

        await eventually(all_run, within=60.0)
        await yard.stop(*holders)
        rescuer = await yard.started("hold", concurrency="10")
        taken = await yard.settled(ids)
        yard.go()
        for holder in holders:
            holder.kill(signal.SIGCONT)
        for holder in holders:
            await holder.logged("lease lost")
        for leaver in [*holders, rescuer]:
            leaver.kill(signal.SIGTERM)
            assert await asyncio.to_thread(leaver.process.wait, PATIENCE) == 0

        assert await yard.jobs(ids) == taken, f"round {round_}"
        assert {job.delivery for job in taken} == {2}
        assert {job.failures for job in taken} == {0}
        assert len([pid for pid, _ in yard.aborted() if pid in pids]) == 5
        assert [line for one in holders for line in one.lines("settlement refused")] == []
        (yard.folder / "go").unlink()
