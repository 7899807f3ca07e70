"""Tasks and a loop that jobs cannot take from their worker."""

import asyncio
from contextvars import copy_context
from typing import Any

import pytest

from longshore.job_context import CURRENT
from longshore.worker.own_tasks import guarding_loop, make_task, own_task


class Job:
    """As much of a running job as is charged."""

    claim = None
    deadline = float("inf")
    cancel_requested = False

    def __init__(self) -> None:
        self.charges = 0

    def charge_crash(self) -> None:
        self.charges += 1

    def does(self, act: Any, *arguments: Any) -> Any:
        """What the act returns, done by the handler of this job."""
        context = copy_context()
        context.run(CURRENT.set, self)
        return context.run(act, *arguments)


async def test_a_job_cannot_cancel_a_task_of_its_worker_and_is_charged_for_trying():
    job, task = Job(), own_task(asyncio.sleep(3600))

    cancelled = job.does(task.cancel)

    await asyncio.sleep(0)
    assert (cancelled, task.cancelling(), job.charges) == (False, 0, 1)
    assert task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_job_may_cancel_the_task_it_runs_in_and_those_it_started():
    job, loop = Job(), asyncio.get_running_loop()
    mine = own_task(asyncio.sleep(3600), runs=lambda: job)
    started = [
        job.does(own_task, asyncio.sleep(3600)),
        job.does(make_task, loop, asyncio.sleep(3600)),
    ]

    for task in (mine, *started):
        assert job.does(task.cancel)

    await asyncio.wait([mine, *started])
    assert job.charges == 0


async def test_what_no_job_has_started_is_the_workers_on_a_loop_of_its_own():
    job, task = Job(), make_task(asyncio.get_running_loop(), asyncio.sleep(3600), name="x")

    assert not job.does(task.cancel)

    assert job.charges == 1
    task.cancel()
    await asyncio.wait([task])


def test_a_job_cannot_stop_the_loop_while_a_worker_keeps_it_and_others_can():
    job, loop = Job(), asyncio.new_event_loop()
    asked = []
    loop.call_soon(lambda: job.does(loop.stop))
    # Through the loop's own thread, as from a thread that a job started.
    loop.call_soon(lambda: job.does(loop.call_soon, loop.stop))
    # Two rounds of the loop later, when the job has had its turns.
    loop.call_soon(
        loop.call_soon, loop.call_soon, lambda: asked.append("to stop") or loop.stop()
    )

    with guarding_loop(loop), guarding_loop(loop):
        loop.run_forever()

    assert (job.charges, asked) == (2, ["to stop"])
    assert "stop" not in vars(loop)
    loop.close()
