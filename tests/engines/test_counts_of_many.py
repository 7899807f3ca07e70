"""Counts over a backlog: exact where little waits, close where much does, and never a scan."""

import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest

from longshore.contract import Engine
from longshore.core.priority_rank import first_ranks
from longshore.engines import open_engine
from longshore.engines.sqlite.sql import SQL
from longshore.testing.factories import HOUR, SECOND, a_job
from longshore.testing.manual import a_worker


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    module = f"longshore.engines.{request.param}.job_counts"
    monkeypatch.setattr(f"{module}._BOUND", 20)
    monkeypatch.setattr(f"{module}._LEAST", 5)
    if request.param == "postgres":
        # All of them: what earlier tests deleted has left pages, and the few jobs here are on
        # one or two.
        monkeypatch.setattr(f"{module}._PAGES", 1_000_000)
        return request.getfixturevalue("empty_postgres_url")
    return f"sqlite:///{tmp_path}/jobs.db"


@pytest.fixture
async def engine(url: str) -> AsyncIterator[Engine]:
    engine = open_engine(url)
    await engine.migrate()
    yield engine
    await engine.close()


async def test_a_small_queue_beside_a_large_one_is_counted_and_the_large_one_estimated(
    engine: Engine,
) -> None:
    await engine.submit([a_job(queue="small")])
    for _ in range(60):
        await engine.submit([a_job(queue="large", priority=1)])
    await engine.submit([a_job(queue="large", type="rare", priority=9)])
    worker = await a_worker(engine, queues=["large"], types=["noop"])
    await worker.claim(2)

    small, large = sorted(
        await engine.counts(may_estimate=True), key=lambda one: one.queue, reverse=True
    )

    exact = {one.queue: one for one in await engine.counts()}
    assert small == exact["small"]
    assert large.is_estimate
    assert large.ready == pytest.approx(59, abs=6)
    assert large.running == 2


async def test_the_oldest_of_many_is_found_behind_those_of_higher_priority(
    engine: Engine,
) -> None:
    await engine.submit([a_job(queue="large", priority=9)])
    for _ in range(60):
        await engine.submit([a_job(queue="large", priority=1)])

    (large,) = await engine.counts(may_estimate=True)

    (exact,) = await engine.counts()
    assert large.is_estimate
    assert large.oldest_ready_at == exact.oldest_ready_at


async def test_many_scheduled_and_parked_jobs_are_estimated_too(engine: Engine) -> None:
    for _ in range(40):
        await engine.submit([a_job(queue="later", delay=HOUR)])
        await engine.submit([a_job(queue="lined", ordering_key="anna")])
    await engine.submit([a_job(queue="soon", delay=SECOND)])

    found = {one.queue: one for one in await engine.counts(may_estimate=True)}

    assert found["later"].scheduled == pytest.approx(40, abs=4)
    assert found["lined"].parked == pytest.approx(39, abs=4)
    assert found["lined"].ready == pytest.approx(40, abs=4)
    assert found["later"].is_estimate
    assert found["lined"].is_estimate


async def test_sqlite_reads_what_waits_by_its_fronts_and_by_single_jobs(
    tmp_path: Path,
) -> None:
    engine = open_engine(f"sqlite:///{tmp_path}/jobs.db")
    await engine.migrate()
    await engine.close()
    scope = {"queue": "q", "type": "t", "limit": 1, "ranks": str(first_ranks())}
    scope |= {"low": 1, "step": 1, "size": 1}
    statements = (SQL.counts_front, SQL.counts_heads, SQL.counts_sampled, SQL.counts_range)
    with closing(sqlite3.connect(tmp_path / "jobs.db")) as db:
        plans = [
            step
            for one in statements
            for *_, step in db.execute(f"explain query plan {one}", scope)
        ]

    assert not [step for step in plans if "SCAN longshore_" in step and "MIN" not in step]
    assert [step for step in plans if "longshore_ready USING PRIMARY KEY" in step]
