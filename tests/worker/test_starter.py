"""Children that follow others: forks of a process that has imported everything but the app."""

import os
import sys
from pathlib import Path
from typing import Any

import msgspec
import process_tasks as tasks
import pytest
from crew_steps import Pool, is_alive, working

from longshore.core.state import State
from longshore.testing.harness import eventually
from longshore.worker import fork_server

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not fork_server.is_possible(), reason="this system has no siblings"),
]


async def birth(pool: Pool) -> dict[str, Any]:
    job = await pool.ended(await tasks.born.submit())
    return msgspec.json.decode(job.result or b"null")


async def forked(pool: Pool) -> list[dict[str, Any]]:
    """Births one after another; the last is the first that was a fork."""
    births: list[dict[str, Any]] = []

    async def is_forked() -> bool:
        births.append(await birth(pool))
        return births[-1]["is_forked"]

    await eventually(is_forked, within=60.0)
    return births


def template_of(pool: Pool) -> int | None:
    found = pool.worker._slots.lanes._starter._template
    return None if found is None else found._process.pid


async def test_a_worker_that_replaces_no_child_has_no_template():
    async with working(children=2) as pool:
        births = [await birth(pool) for _ in range(4)]
        found = template_of(pool)

    assert {one["is_forked"] for one in births} == {False}
    assert found is None


async def test_children_are_forked_once_there_were_many_and_each_imports_the_app_itself():
    async with working(child_jobs=1) as pool:
        births = await forked(pool)
        births += [await birth(pool) for _ in range(3)]

    assert [one["is_forked"] for one in births[-4:]] == [True] * 4
    assert [one["imported_in"] for one in births] == [one["pid"] for one in births]
    assert len({one["pid"] for one in births}) == len(births)


async def test_how_a_forked_child_ended_is_known():
    epitaphs = {
        "_exit": "its process left with exit code 0",
        "segfault": "its process was killed by SIGSEGV",
        "kill": "its process was killed by SIGKILL; if nobody did that, memory ran out",
    }

    async with working(child_jobs=1) as pool:
        await forked(pool)
        jobs = [await pool.ended(await tasks.crash.submit(how)) for how in epitaphs]
        after = await birth(pool)

    assert [job.failure and job.failure.message for job in jobs] == list(epitaphs.values())
    assert {(job.state, job.crashes, job.attempt) for job in jobs} == {(State.DEAD, 2, 2)}
    assert after["is_forked"]


@pytest.mark.parametrize("is_stopped", [False, True], ids=["killed", "stopped"])
async def test_a_template_that_is_gone_or_stands_still_is_replaced_and_nobody_is_charged(
    is_stopped: bool,
):
    async with working(child_jobs=1) as pool:
        await forked(pool)
        first = template_of(pool)
        assert first is not None
        os.kill(first, 19 if is_stopped else 9)
        births = await forked(pool)
        job = await pool.ended(await tasks.plain.submit("after"))
        second = template_of(pool)

    assert second not in (None, first)
    assert not is_alive(first)
    assert births[-1]["is_forked"]
    assert (job.attempt, job.failures, job.crashes) == (1, 0, 0)


async def test_a_child_has_the_environment_and_the_folder_that_its_worker_has_by_then(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    async with working(child_jobs=1) as pool:
        await forked(pool)
        monkeypatch.setenv("WORD", "changed")
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
        monkeypatch.chdir(tmp_path)
        births = [await birth(pool) for _ in range(2)]
        births += await forked(pool)

    # One was already there, ahead of its job.
    assert {(one["word"], one["folder"]) for one in births[1:]} == {("changed", str(tmp_path))}
