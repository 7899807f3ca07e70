"""An app that runs its own jobs."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from longshore import (
    ConfigError,
    Dead,
    JobFailedError,
    Longshore,
    Settings,
    State,
    current_job,
)
from longshore.core.responses import Promoted
from longshore.settings import EngineSettings
from longshore.worker.settings import WorkerSettings


@pytest.fixture
async def app() -> AsyncIterator[Longshore]:
    app = Longshore("sqlite://:memory:", settings=Settings())
    async with app:
        yield app


async def test_submitted_jobs_run_and_their_results_come_back(app: Longshore):
    @app.task
    async def double(n: int) -> int:
        return 2 * n

    @app.task(queue="slow")
    def greet(name: str, *, loud: bool = False) -> str:
        return name.upper() if loud else name

    doubled = await double.submit(21)
    greeted = await greet.submit("ann", loud=True)
    await app.work(until_idle=True)

    assert await doubled.result(timeout=0) == 42
    assert await greeted.result(timeout=0) == "ANN"


async def test_a_task_can_submit_others_from_the_loop_and_from_a_thread(app: Longshore):
    seen: list[str] = []

    @app.task
    async def leaf(name: str) -> None:
        seen.append(name)

    @app.task
    async def branch() -> None:
        await leaf.submit("from the loop")

    @app.task
    def thread() -> None:
        app.sync.submit(leaf.spec("from a thread"))

    await branch.submit()
    await thread.submit()
    await app.work(until_idle=True)

    assert sorted(seen) == ["from a thread", "from the loop"]


async def test_a_task_decides_how_it_is_retried(app: Longshore):
    delays: list[int] = []

    def delay(failures: int) -> float:
        delays.append(failures)
        return 0.001

    @app.task(max_attempts=3, retry_delay=delay)
    async def flaky() -> int:
        if current_job().attempt < 3:
            raise ValueError("not yet")
        return current_job().attempt

    @app.task(max_attempts=2, retry_base=0.001, retry_cap=0.002, retry_jitter="none")
    async def hopeless() -> None:
        raise ValueError("never")

    @app.task
    async def finished() -> None:
        raise Dead("no such user")

    jobs = [await task.submit() for task in (flaky, hopeless, finished)]
    await app.work(until_idle=True, horizon=timedelta(seconds=5))

    assert await jobs[0].result(timeout=0) == 3
    assert delays == [1, 2]
    assert (await jobs[1].get()).failures == 2
    with pytest.raises(JobFailedError, match="no such user"):
        await jobs[2].result(timeout=0)


async def test_what_another_made_ready_just_before_is_run_too(
    app: Longshore, monkeypatch: pytest.MonkeyPatch
):
    """Between the look that finds nothing and the one for what is due."""
    promote = app.engine.promote

    async def promote_second(*, limit: int) -> Promoted:
        await promote(limit=limit)
        return await promote(limit=limit)

    monkeypatch.setattr(app.engine, "promote", promote_second)

    @app.task(max_attempts=2, retry_base=0.001)
    async def fails() -> None:
        raise ValueError("never")

    job = await fails.submit()
    await app.work(until_idle=True, horizon=timedelta(seconds=5))

    assert (await job.get()).failures == 2


async def test_a_result_that_nobody_wants_is_not_stored(app: Longshore):
    @app.task(keep_result=False)
    async def busy() -> object:
        return object()

    job = await busy.submit()
    await app.work(until_idle=True)

    assert await job.result(timeout=0) is None


async def test_built_in_tasks_run_on_every_app(app: Longshore):
    job = await app.submit("noop", {"seq": 1})
    await app.work(until_idle=True)

    assert await job.status() is State.SUCCEEDED
    assert app.tasks["http.call"].spec("GET", "https://example.org").job.max_attempts == 8


async def test_a_task_of_ones_own_takes_the_place_of_a_built_in_one(app: Longshore):
    @app.task(name="noop")
    async def mine() -> str:
        return "mine"

    job = await app.submit("noop")
    await app.work(until_idle=True)

    assert await job.result(timeout=0) == "mine"


async def test_a_job_nobody_here_can_run_stays_ready(app: Longshore):
    job = await app.submit("elsewhere")
    await app.work(until_idle=True)

    assert await job.status() is State.READY
    assert (await job.get()).delivery == 0


async def test_work_goes_on_until_it_is_cancelled_and_leaves_nothing_running(app: Longshore):
    started = asyncio.Event()

    @app.task
    async def endless() -> None:
        started.set()
        await asyncio.Event().wait()

    job = await endless.submit()
    working = asyncio.create_task(app.work())
    await started.wait()
    working.cancel()
    with pytest.raises(asyncio.CancelledError):
        await working

    assert await job.status() is State.READY
    assert (await job.get()).failures == 0
    assert {task.get_name() for task in asyncio.all_tasks()} == {
        asyncio.current_task().get_name()
    }


async def test_an_app_opens_itself_to_work(tmp_path: Path):
    app = Longshore(f"sqlite:///{tmp_path}/deep/jobs.db", settings=Settings())

    @app.task
    async def hello() -> str:
        return "hello"

    job = await asyncio.to_thread(app.sync.submit, hello.spec())
    app.sync.close()
    await app.work(until_idle=True)

    async with app:
        assert await app.job(job.id).result(timeout=0) == "hello"


async def test_settings_decide_where_nothing_else_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LONGSHORE_ENGINE_URL", "sqlite:///from-environment.db")

    async with Longshore() as app:
        await app.submit("noop")

    assert (tmp_path / "from-environment.db").exists()
    assert Longshore(settings=Settings()).url == EngineSettings().url
    assert Longshore("sqlite://:memory:").url == "sqlite://:memory:"


def shop(url: str, settings: Settings) -> Longshore:
    app = Longshore(url, settings=settings)

    @app.task(queue="a")
    async def first() -> None: ...

    @app.task(queue="b")
    async def second() -> None: ...

    return app


async def test_work_serves_the_queues_it_is_told_to(tmp_path: Path):
    url = f"sqlite:///{tmp_path}/jobs.db"
    app = shop(url, Settings())
    configured = shop(url, Settings(worker=WorkerSettings(queues=("b",))))

    async with app:
        a, b = await app.submit("first"), await app.submit("second")

        await app.work(queues=["c"], until_idle=True)
        assert (await a.status(), await b.status()) == (State.READY, State.READY)
        await configured.work(until_idle=True)
        assert (await a.status(), await b.status()) == (State.READY, State.SUCCEEDED)
        await app.work(until_idle=True)
        assert (await a.status(), await b.status()) == (State.SUCCEEDED, State.SUCCEEDED)


async def test_a_task_that_cannot_run_is_found_before_work_begins(app: Longshore):
    @app.task
    async def broken(when: "Nowhere") -> None: ...  # noqa: F821

    with pytest.raises(ConfigError, match="Nowhere"):
        await app.work(until_idle=True)


async def test_work_goes_on_beside_a_keeper_if_one_is_wished_for(tmp_path: Path):
    app = Longshore(f"sqlite:///{tmp_path}/jobs.db", settings=Settings())

    @app.task
    async def double(n: int) -> int:
        return 2 * n

    async with app:
        doubled = await double.submit(21)
        await app.work(until_idle=True, keeper=True)

        assert await doubled.result(timeout=0) == 42
        assert (await app.engine.sessions()).sessions == []


async def test_a_keeper_cannot_keep_what_only_this_process_sees(app: Longshore):
    with pytest.raises(ConfigError, match="another process"):
        await app.work(until_idle=True, keeper=True)
