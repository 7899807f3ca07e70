"""What jobs in child processes say of their progress, and what they see of the time."""

import time
from pathlib import Path
from typing import Any

import msgspec
import process_tasks as tasks
import pytest
from crew_steps import PATIENCE, working
from process_tasks import app

from longshore import JobHandle
from longshore.core import event
from longshore.core.event import Name
from longshore.core.state import State
from longshore.testing.harness import eventually

pytestmark = pytest.mark.slow


async def told_of(handle: JobHandle[Any]) -> list[object]:
    """The fractions that events tell, in order."""
    batches = await app.engine.events(after=0, limit=10_000)
    return [
        one.details["fraction"]
        for batch in batches
        for one in event.expand(batch)
        if one.name is Name.PROGRESS and one.job_id == handle._id
    ]


async def test_of_many_reports_the_first_and_the_last_arrive_and_few_between():
    async with working() as pool:
        handle = await tasks.hurry.submit(20_000)
        job = await pool.ended(handle)
        told = await told_of(handle)

    assert job.state is State.SUCCEEDED
    assert job.progress is not None
    assert (job.progress.fraction, job.progress.message) == (1.0, "step 20000")
    assert (told[0], told[-1]) == (1 / 20_000, 1.0)
    assert len(told) < 40


async def test_the_last_word_of_a_child_that_then_is_silent_is_seen(tmp_path: Path):
    async with working() as pool:
        handle = await tasks.say_and_wait.submit(str(tmp_path / "go"))

        async def is_seen() -> bool:
            progress = await handle.progress()
            return progress is not None and progress.fraction == 0.5

        await eventually(is_seen, within=PATIENCE)
        running = await pool.job(handle)
        (tmp_path / "go").touch()
        await pool.ended(handle)

    assert running.state is State.RUNNING


async def test_a_cancel_in_the_middle_of_a_report_breaks_nothing():
    async with working() as pool:
        handles = []
        for _ in range(2):
            handle = await tasks.say_for_ever.submit()

            async def is_reporting(handle: JobHandle[Any] = handle) -> bool:
                return await handle.progress() is not None

            await eventually(is_reporting, within=PATIENCE)
            await handle.cancel("enough")
            handles.append(await pool.ended(handle))

    assert {(job.state, job.reason, job.crashes) for job in handles} == {
        (State.CANCELLED, "enough", 0)
    }


async def test_a_handler_sees_the_time_it_has_and_the_time_of_the_queue():
    async with working() as pool:
        job = await pool.ended(await tasks.times.submit())

    seen = msgspec.json.decode(job.result or b"null")
    assert 20.0 < seen["left"] <= 30.0
    assert abs(seen["now"] - time.time()) < 20.0
