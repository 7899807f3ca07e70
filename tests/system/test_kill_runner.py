"""Real processes, killed for real: nothing that was accepted is lost."""

import asyncio
import logging
from pathlib import Path

import asyncpg
import pytest

from longshore.engines import open_engine
from longshore.testing.factories import a_job
from longshore_lab.fleet import Fleet
from longshore_lab.kill import Blow, Runner, plan, run
from longshore_lab.ledger import Ledger
from longshore_lab.records import FaultKind
from longshore_lab.trial import Trial
from longshore_lab.verdict import Verdict, judge, misplaced

pytestmark = pytest.mark.slow
log = logging.getLogger(__name__)

GRACE = 1.0
"""Seconds after the drain in which a worker is gone; a short test gives it more."""


def a_trial(folder: Path, **rest: object) -> Trial:
    facts = {
        "url": f"sqlite:///{folder}/jobs.db",
        "jobs": 3_000,
        "lease_seconds": 1.0,
        "concurrency": 32,
        "drain_seconds": 2.0,
    }
    return Trial(folder=str(folder), **{**facts, **rest})


def broken(verdict: Verdict) -> dict[str, list[str]]:
    return {name: one.examples for name, one in verdict.findings.items() if not one.holds}


@pytest.mark.slow
async def test_killing_workers_and_the_producer_under_load_loses_nothing(tmp_path: Path):
    trial = a_trial(tmp_path, pace=0.1)
    blows = [
        Blow(1.0, "producer", FaultKind.KILL, 0.0),
        Blow(0.5, "worker", FaultKind.KILL, 0.0),
        Blow(0.5, "worker", FaultKind.KILL, 0.0),
        Blow(0.5, "producer", FaultKind.KILL, 0.0),
    ]

    verdict = await run(trial, blows, workers=2, within=30)

    assert broken(verdict) == {}
    assert verdict.holds
    assert verdict.figures.accepted == trial.jobs
    assert verdict.figures.kills == len(blows)
    assert verdict.figures.redelivered <= verdict.figures.in_flight


@pytest.mark.slow
async def test_a_producer_killed_in_its_calls_leaves_nothing_half_accepted(tmp_path: Path):
    trial = a_trial(tmp_path, jobs=48_000, batch=500, keyed_every=3)
    engine = open_engine(trial.url)
    await engine.migrate()

    async with Fleet(trial, Ledger(trial.ledgers, "runner", role="runner")) as fleet:
        runner = Runner(trial, fleet, engine)
        await runner.man(workers=0, schedulers=0)
        async with asyncio.TaskGroup() as chores:
            for step in range(4):
                blow = Blow(0.45 + step * 0.02, "producer", FaultKind.KILL, 0.0)
                await runner.strike(blow, chores)
        assert await runner.produced(within=60)
    verdict = await judge(trial, engine)
    await engine.close()

    assert verdict.figures.kills > 1
    assert verdict.figures.accepted == trial.jobs
    assert broken(verdict).keys() == {"unfinished"}


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        return request.getfixturevalue("empty_postgres_url")
    return f"sqlite:///{tmp_path}/jobs.db"


LONG_DRAIN, SHORT_DRAIN = 3.0, 0.3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("url", "times", "drain"),
    [
        ("postgres", 2, SHORT_DRAIN),
        pytest.param("sqlite", 50, LONG_DRAIN, marks=pytest.mark.prove),
        pytest.param("postgres", 50, LONG_DRAIN, marks=pytest.mark.prove),
        pytest.param("sqlite", 50, SHORT_DRAIN, marks=pytest.mark.prove),
        pytest.param("postgres", 50, SHORT_DRAIN, marks=pytest.mark.prove),
    ],
    indirect=["url"],
)
async def test_asking_workers_to_leave_under_load_loses_and_charges_nothing(
    url: str, tmp_path: Path, times: int, drain: float
):
    """With time to drain everything ends where it began; without, it goes back uncharged."""
    jobs, workers = 700 * times, 2 if times < 10 else 4
    trial = a_trial(
        tmp_path,
        url=url,
        jobs=jobs,
        # A new worker takes a second or two to start, and should find work.
        pace=0.06 if times < 10 else 0.25,
        drain_seconds=drain,
        lease_seconds=15.0,
        # Every fifth job takes up to a second: some run whenever their worker is asked to go.
        slow_scale=0.5,
        long_share=0.0,
    )
    blows = [Blow(0.4, "worker", FaultKind.TERMINATE, 0.0) for _ in range(times)]

    verdict = await run(trial, blows, workers=workers, schedulers=0, within=30.0 * times)

    figures = verdict.figures
    log.info("%s", figures)
    assert broken(verdict) == {}
    assert (figures.accepted, figures.terminations) == (jobs, times)
    assert figures.overcharged == 0
    if url.startswith("postgresql"):
        assert verdict.findings["misplaced"].checked == jobs
    slack = 5.0 if times < 10 else 0.0
    assert 0.0 < figures.slowest_leave <= drain + GRACE + slack
    assert (figures.redelivered == 0) is (drain is LONG_DRAIN)


async def test_a_job_that_is_in_no_place_of_postgresql_is_misplaced(empty_postgres_url: str):
    engine = open_engine(empty_postgres_url)
    await engine.migrate()
    await engine.submit([a_job() for _ in range(3)])
    await engine.close()
    before = await misplaced(empty_postgres_url)

    connection = await asyncpg.connect(empty_postgres_url)
    await connection.execute("delete from longshore.ready")
    await connection.close()

    assert (before.checked, before.holds) == (3, True)
    assert (await misplaced(empty_postgres_url)).violations == 3


def test_a_plan_is_the_same_for_the_same_seed():
    assert plan(7, 20, every=1.0) == plan(7, 20, every=1.0)
    assert plan(7, 20, every=1.0) != plan(8, 20, every=1.0)
