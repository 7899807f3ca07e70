"""Real processes, killed for real: nothing that was accepted is lost."""

import asyncio
from pathlib import Path

import pytest

from longshore.engines import open_engine
from longshore_lab.fleet import Fleet
from longshore_lab.kill import Blow, Runner, plan, run
from longshore_lab.ledger import Ledger
from longshore_lab.records import FaultKind
from longshore_lab.trial import Trial
from longshore_lab.verdict import Verdict, judge

pytestmark = pytest.mark.slow


def a_trial(folder: Path, **rest: object) -> Trial:
    facts = {"jobs": 3_000, "lease_seconds": 1.0, "concurrency": 32, "drain_seconds": 2.0}
    return Trial(url=f"sqlite:///{folder}/jobs.db", folder=str(folder), **{**facts, **rest})


def broken(verdict: Verdict) -> dict[str, list[str]]:
    return {name: one.examples for name, one in verdict.findings.items() if not one.holds}


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


async def test_a_producer_killed_in_its_calls_leaves_nothing_half_accepted(tmp_path: Path):
    trial = a_trial(tmp_path, jobs=30_000, batch=500, keyed_every=3)
    engine = open_engine(trial.url)
    await engine.migrate()

    async with Fleet(trial, Ledger(trial.ledgers, "runner", role="runner")) as fleet:
        runner = Runner(trial, fleet, engine)
        await runner.man(workers=0, schedulers=0)
        async with asyncio.TaskGroup() as chores:
            for step in range(6):
                blow = Blow(0.45 + step * 0.02, "producer", FaultKind.KILL, 0.0)
                await runner.strike(blow, chores)
        assert await runner.produced(within=60)
    verdict = await judge(trial, engine)
    await engine.close()

    assert verdict.figures.kills > 1
    assert verdict.figures.accepted == trial.jobs
    assert broken(verdict).keys() == {"unfinished"}


async def test_asking_workers_to_leave_under_load_costs_no_job_an_attempt(tmp_path: Path):
    trial = a_trial(tmp_path, pace=0.08)
    blows = [Blow(0.6, "worker", FaultKind.TERMINATE, 0.0) for _ in range(4)]

    verdict = await run(trial, blows, workers=2, within=30)

    assert broken(verdict) == {}
    assert verdict.figures.terminations == len(blows)
    assert verdict.figures.redelivered == 0


def test_a_plan_is_the_same_for_the_same_seed():
    assert plan(7, 20, every=1.0) == plan(7, 20, every=1.0)
    assert plan(7, 20, every=1.0) != plan(8, 20, every=1.0)
