"""Jobs in child processes: what they see, how they end, and what becomes of the children."""

import asyncio
import os
import signal
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import process_tasks as tasks
import pytest
from crew_steps import PATIENCE, is_alive, working

from longshore.core.state import State
from longshore.testing.harness import eventually
from longshore.worker.shutdown import Ending

pytestmark = pytest.mark.slow


def read(raw: bytes | None) -> Any:
    return msgspec.json.decode(raw or b"null")


async def pids_in(path: Path) -> list[int]:
    """The process ids that a handler wrote there."""
    await eventually(lambda: path.exists() and path.read_text(), within=PATIENCE)
    return [int(word) for word in path.read_text().split()]


async def test_functions_and_coroutines_run_in_a_child_that_is_reused():
    async with working() as pool:
        handles = [await tasks.plain.submit("a"), await tasks.coroutine.submit("b")]
        handles += [await tasks.plain.submit("c"), await tasks.coroutine.submit("d")]
        jobs = [await pool.ended(handle) for handle in handles]
        alive = pool.pids
        scores = [Path(f"/proc/{pid}/oom_score_adj").read_text() for pid in alive]

    results = [read(job.result) for job in jobs]
    assert [result["word"] for result in results] == ["a", "b", "c", "d"]
    assert {result["pid"] for result in results} == set(alive)
    assert {job.state for job in jobs} == {State.SUCCEEDED}
    assert {(job.attempt, job.failures, job.crashes) for job in jobs} == {(1, 0, 0)}
    # When memory runs out, the kernel takes them before the worker.
    assert {int(score) for score in scores} == {500}


async def test_a_handler_sees_its_job():
    async with working() as pool:
        handle = await tasks.look.submit()
        job = await pool.ended(handle)

    seen = read(job.result)
    assert 29.0 < seen.pop("left") <= 30.0
    assert seen == {
        "id": handle.id,
        "type": "look",
        "queue": "default",
        "attempt": 1,
        "tags": ["blue"],
        "is_cancel_requested": False,
    }


async def test_what_needs_the_workers_connection_is_refused_with_a_reason():
    async with working() as pool:
        transaction = await pool.ended(await tasks.transact.submit())
        another = await pool.settled(await tasks.submit_another.submit())

    assert transaction.failure is not None
    assert transaction.failure.kind == "ConfigError"
    assert "runs in a process of its own" in transaction.failure.message
    assert another.failure is not None
    assert "in the memory of the worker" in another.failure.message


async def test_whatever_a_handler_raises_is_recorded_and_the_child_goes_on():
    kinds = ["unpicklable", "mute", "exit", "interrupt", "long", "nul", "memory"]

    async with working() as pool:
        jobs = [await pool.ended(await tasks.fail.submit(kind)) for kind in kinds]
        last = await pool.ended(await tasks.plain.submit("still there"))
        alive = pool.pids

    failures = [job.failure for job in jobs if job.failure is not None]
    assert [(why.kind, why.message[:40]) for why in failures] == [
        ("UnpicklableError", "as it is"),
        ("MuteError", "its message cannot be read: RuntimeError"),
        ("SystemExit", "3"),
        ("KeyboardInterrupt", ""),
        ("ValueError", "x" * 40),
        ("ValueError", "a\ufffdb?"),
        ("MemoryError", ""),
    ]
    assert len(failures[4].message) == 4_096
    assert 'raise UnpicklableError("as it is")' in failures[0].traceback
    assert "child.py" not in failures[0].traceback
    assert {(job.state, job.failures, job.crashes) for job in jobs} == {(State.DEAD, 1, 0)}
    assert read(last.result)["pid"] in alive


async def test_directives_cross_the_border():
    async with working() as pool:
        snooze = await pool.settled(await tasks.wish.submit("snooze"))
        retry = await pool.settled(await tasks.wish.submit("retry"))
        dead = await pool.settled(await tasks.wish.submit("dead"))
        cancel = await pool.settled(await tasks.wish.submit("cancel"))

    assert (snooze.state, snooze.failures) == (State.SCHEDULED, 0)
    assert 299_000_000 < snooze.run_at - snooze.created_at < 330_000_000
    assert (retry.state, retry.failures) == (State.SCHEDULED, 1)
    assert 59_000_000 < retry.run_at - retry.created_at < 90_000_000
    assert retry.failure is not None
    assert (retry.failure.kind, retry.failure.message) == ("Retry", "not yet")
    assert (dead.state, dead.reason) == (State.DEAD, "hopeless")
    assert (cancel.state, cancel.reason) == (State.CANCELLED, "unwanted")


async def test_what_cannot_be_read_or_kept_makes_the_job_dead():
    async with working() as pool:
        nonsense = await pool.ended(await tasks.returns_nonsense.submit())
        misfit = tasks.plain.spec_of(b'{"word": 7}')
        unread = await pool.ended(await tasks.app.submit_spec(misfit))

    assert (nonsense.state, nonsense.reason) == (State.DEAD, "result")
    assert (unread.state, unread.reason) == (State.DEAD, "payload")
    assert unread.failure is not None
    assert unread.failure.message.startswith("plain: payload.word")


@pytest.mark.slow
async def test_jobs_that_kill_their_child_crash_alone_and_end_as_poison(tmp_path: Path):
    epitaphs = {
        "_exit": "its process left with exit code 0",
        "segfault": "its process was killed by SIGSEGV",
        "kill": "its process was killed by SIGKILL; if nobody did that, memory ran out",
        "deaf": "its process left with exit code 1",
    }

    async with working(children=2) as pool:
        neighbour = await tasks.wait_for.submit(str(tmp_path / "pid"), "")
        handles = [await tasks.crash.submit(how) for how in epitaphs]
        jobs = [await pool.ended(handle) for handle in handles]
        (tmp_path / "pid.go").touch()
        beside = await pool.ended(neighbour)

    failures = [job.failure for job in jobs if job.failure is not None]
    assert {why.kind for why in failures} == {"crash"}
    assert [why.message for why in failures] == list(epitaphs.values())
    assert {(job.state, job.reason) for job in jobs} == {(State.DEAD, "poison")}
    assert {(job.crashes, job.failures, job.attempt) for job in jobs} == {(2, 0, 2)}
    assert (beside.state, beside.attempt, beside.crashes) == (State.SUCCEEDED, 1, 0)


async def test_a_systemexit_beside_the_handler_costs_a_child_and_nothing_else():
    async with working() as pool:
        before = read((await pool.ended(await tasks.plain.submit("before"))).result)
        job = await pool.ended(await tasks.exit_beside.submit())
        after = read((await pool.ended(await tasks.plain.submit("after"))).result)

    assert job.failure is not None
    assert (job.failure.kind, job.failures, job.crashes) == ("SystemExit", 1, 0)
    assert before["pid"] != after["pid"]


@pytest.mark.parametrize("task", [tasks.oversleep, tasks.oversleep_async], ids=lambda t: t.name)
async def test_a_timeout_interrupts_the_handler_says_where_and_replaces_the_child(
    tmp_path: Path, task: Any
):
    async with working() as pool:
        before = read((await pool.ended(await tasks.plain.submit("before"))).result)
        job = await pool.ended(await task.submit(str(tmp_path / "tidy")))
        after = read((await pool.ended(await tasks.plain.submit("after"))).result)

    assert job.failure is not None
    assert (job.failure.kind, job.failure.message) == ("timeout", "ran longer than 0.3 s")
    assert f"in {task.name}" in job.failure.traceback
    assert (job.failures, job.crashes) == (1, 0)
    assert (tmp_path / "tidy").read_text() == "tidied up"
    assert not is_alive(before["pid"])
    assert after["pid"] != before["pid"]


async def test_a_handler_that_holds_the_gil_past_its_timeout_is_killed():
    async with working() as pool:
        job = await pool.ended(await tasks.hold_the_gil.submit())

    assert job.failure is not None
    assert (job.failure.kind, job.failures, job.crashes) == ("timeout", 1, 0)


async def test_a_kill_takes_the_grandchildren_inside_and_outside_the_group(tmp_path: Path):
    async with working() as pool:
        handle = await tasks.ignore_everything.submit(str(tmp_path / "pids"))
        family = await pids_in(tmp_path / "pids")
        before = [is_alive(pid) for pid in family]
        job = await pool.ended(handle)
        await eventually(lambda: not any(map(is_alive, family)))

    assert before == [True, True, True]
    assert job.failure is not None
    assert job.failure.kind == "timeout"


async def test_a_child_that_dies_takes_its_group_with_it(tmp_path: Path):
    async with working() as pool:
        await tasks.leave_a_child.using(max_attempts=1).submit(str(tmp_path / "pids"))
        _, left = await pids_in(tmp_path / "pids")
        await eventually(lambda: not is_alive(left))
        assert pool.running.done() is False


@pytest.mark.parametrize(
    ("then", "state"), [("raise", State.CANCELLED), ("return", State.SUCCEEDED)]
)
async def test_a_cancel_is_told_and_a_handler_that_returns_has_succeeded(
    tmp_path: Path, then: str, state: State
):
    async with working() as pool:
        handle = await tasks.wait_for.submit(str(tmp_path / "pid"), then)
        (pid,) = await pids_in(tmp_path / "pid")
        await handle.cancel()
        job = await pool.ended(handle)
        await eventually(lambda: not is_alive(pid))

    assert (tmp_path / "pid.told").read_text() == "True"
    assert (job.state, job.failures, job.crashes) == (state, 0, 0)


async def test_a_cancelled_handler_that_does_not_stop_is_killed_after_the_grace(tmp_path: Path):
    async with working() as pool:
        handle = await tasks.ignore_everything.using(timeout=None).submit(str(tmp_path / "p"))
        family = await pids_in(tmp_path / "p")
        await handle.cancel()
        job = await pool.ended(handle)
        await eventually(lambda: not any(map(is_alive, family)))

    assert (job.state, job.failures, job.crashes) == (State.CANCELLED, 0, 0)


async def test_a_job_over_its_memory_limit_is_killed_and_charged():
    async with working(child_memory_bytes=120 << 20) as pool:
        fits = await pool.ended(await tasks.hoard.submit(100))
        own = await pool.ended(await tasks.hoard.submit(400))
        general = await pool.ended(await tasks.hoard_unlimited.submit(400))

    assert fits.state is State.SUCCEEDED
    assert own.failure is not None
    assert (own.failure.kind, own.failures, own.crashes) == ("memory", 1, 0)
    assert own.failure.message.endswith("MiB of memory; the limit is 160 MiB")
    assert general.failure is not None
    assert general.failure.message.endswith("MiB of memory; the limit is 120 MiB")


async def test_a_child_is_replaced_after_its_share_of_jobs():
    async with working(child_jobs=2) as pool:
        jobs = [await pool.ended(await tasks.plain.submit(str(n))) for n in range(6)]

    pids = [read(job.result)["pid"] for job in jobs]
    assert pids[0] == pids[1] != pids[2] == pids[3] != pids[4] == pids[5]


async def test_a_child_that_has_grown_is_replaced_after_the_job():
    async with working(child_recycle_bytes=200 << 20) as pool:
        jobs = [await pool.ended(await tasks.leak.submit(mib)) for mib in (1, 1, 250, 1)]

    pids = [read(job.result) for job in jobs]
    assert pids[0] == pids[1] == pids[2] != pids[3]
    assert {job.state for job in jobs} == {State.SUCCEEDED}


@pytest.mark.slow
async def test_the_crew_grows_with_the_work_and_one_ahead_and_goes_home_when_idle(
    tmp_path: Path,
):
    async with working(children=4, child_idle=timedelta(milliseconds=300)) as pool:
        await pool.ended(await tasks.on_the_loop.submit())
        unused = len(pool.pids)
        first = await tasks.wait_for.submit(str(tmp_path / "1"), "")
        await pids_in(tmp_path / "1")
        with_one = len(pool.pids)
        others = [await tasks.wait_for.submit(str(tmp_path / n), "") for n in "23456"]
        for n in "234":
            await pids_in(tmp_path / n)
        with_six = len(pool.pids)
        for n in "123456":
            (tmp_path / f"{n}.go").touch()
        jobs = [await pool.ended(handle) for handle in (first, *others)]
        await eventually(lambda: not pool.pids)
        again = await pool.ended(await tasks.plain.submit("again"))

    assert (unused, with_one, with_six) == (0, 2, 4)
    assert {job.state for job in (*jobs, again)} == {State.SUCCEEDED}


@pytest.mark.slow
@pytest.mark.parametrize("queue", ["heavy", "default"], ids=["its own queue", "a mixed queue"])
async def test_jobs_that_would_wait_for_a_child_are_left_to_others_and_hold_nobody_up(
    tmp_path: Path, queue: str
):
    async with working(queues=("heavy", "default")) as pool:
        await pool.ended(await tasks.on_the_loop.submit())
        held = await tasks.wait_for.submit(str(tmp_path / "1"), "")
        await pids_in(tmp_path / "1")
        waiting = [await tasks.plain.using(queue=queue).submit(str(n)) for n in range(20)]
        light = [await pool.ended(await tasks.on_the_loop.submit()) for _ in range(10)]
        meanwhile = [await pool.job(handle) for handle in waiting]
        held_here = pool.worker._slots.waiting
        (tmp_path / "1.go").touch()
        jobs = [await pool.ended(handle) for handle in (held, *waiting)]

    assert {job.state for job in light} == {State.SUCCEEDED}
    assert {job.attempt for job in meanwhile} == {0}
    assert sum(job.state is State.READY for job in meanwhile) >= 19
    assert held_here <= 1
    assert {(job.state, job.attempt) for job in jobs} == {(State.SUCCEEDED, 1)}
    if queue == "heavy":
        assert max(job.delivery for job in jobs) <= 4


async def test_a_job_that_was_sent_to_a_dead_child_runs_in_another_uncharged():
    async with working() as pool:
        first = read((await pool.ended(await tasks.plain.submit("first"))).result)
        os.kill(first["pid"], signal.SIGSTOP)
        second = await tasks.plain.submit("second")
        await eventually(lambda: pool.worker._slots.attempts())
        os.kill(first["pid"], signal.SIGKILL)
        job = await pool.ended(second)

    assert read(job.result)["word"] == "second"
    assert (job.attempt, job.failures, job.crashes, job.delivery) == (1, 0, 0, 1)


async def test_context_variables_do_not_leak_into_the_next_job():
    async with working() as pool:
        jobs = [await pool.ended(await tasks.mark.submit(word)) for word in "ab"]

    assert [read(job.result) for job in jobs] == ["unset", "unset"]


async def test_a_handler_may_use_multiprocessing():
    async with working() as pool:
        job = await pool.ended(await tasks.use_multiprocessing.submit())

    assert read(job.result) == [6, -signal.SIGTERM]


async def test_a_drain_waits_for_the_handler(tmp_path: Path):
    async with working() as pool:
        handle = await tasks.wait_for.submit(str(tmp_path / "pid"), "")
        await pids_in(tmp_path / "pid")
        pool.worker.drain()
        await asyncio.sleep(0.1)
        during = await pool.job(handle)
        (tmp_path / "pid.go").touch()
        async with asyncio.timeout(PATIENCE):
            ending = await pool.running
        job = await pool.job(handle)

    assert (during.state, ending) == (State.RUNNING, Ending.DRAINED)
    assert (job.state, job.delivery) == (State.SUCCEEDED, 1)


async def test_a_drain_gives_back_what_still_waits_for_a_child_to_start():
    async with working() as pool:
        handle = await tasks.plain.submit("later")
        await eventually(lambda: pool.worker._slots.attempts(), every=0.002)
        pool.worker.drain()
        async with asyncio.timeout(PATIENCE):
            await pool.running
        job = await pool.job(handle)

    assert (job.state, job.attempt, job.failures) == (State.READY, 0, 0)


async def test_what_is_not_done_by_the_drain_deadline_goes_back_uncharged(tmp_path: Path):
    async with working(drain_timeout=timedelta(milliseconds=100)) as pool:
        running = await tasks.ignore_everything.using(timeout=None).submit(str(tmp_path / "p"))
        family = await pids_in(tmp_path / "p")
        waiting = [await tasks.plain.submit("later") for _ in range(3)]
        pool.worker.drain()
        async with asyncio.timeout(PATIENCE):
            await pool.running
        begun = await pool.job(running)
        others = [await pool.job(handle) for handle in waiting]
        await eventually(lambda: not any(map(is_alive, family)))

    assert (begun.state, begun.failures, begun.crashes) == (State.READY, 0, 0)
    assert {(one.state, one.attempt) for one in others} == {(State.READY, 0)}


async def test_a_lost_lease_kills_the_child_at_once(tmp_path: Path):
    async with working(child_grace=timedelta(minutes=1)) as pool:
        handle = await tasks.ignore_everything.using(timeout=None).submit(str(tmp_path / "p"))
        family = await pids_in(tmp_path / "p")
        pool.worker._fetcher.lose(pool.worker._standing.token)
        await eventually(lambda: not any(map(is_alive, family)), within=2.0)
        job = await pool.job(handle)

    assert (job.state, job.failures, job.crashes) == (State.RUNNING, 0, 0)
