"""Experiment 8: a worker with two hundred jobs in flight is asked to leave."""

import asyncio
import os
import signal
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from random import Random

import msgspec

from longshore import Longshore
from longshore.core import codec
from longshore.core.job import Job, NewJob
from longshore.core.state import State
from longshore.core.view import JobFilter
from longshore.engines import open_engine
from longshore.runtime.ids import IdSource
from longshore.scheduler.promote import Promoter
from longshore.worker.settings import WorkerSettings
from longshore.worker.worker import Worker
from longshore_lab.effects import Effects
from longshore_lab.experiments import evidence
from longshore_lab.experiments.crew import Crew, say
from longshore_lab.experiments.experiment import Config, Experiment, Stage
from longshore_lab.experiments.findings import Findings, Promise, Table
from longshore_lab.experiments.sampler import Sample

__all__ = ["EXPERIMENT", "work"]

_SLACK = 2.0
"""Seconds past its drain timeout by which a worker is gone."""
_PATIENCE = 60.0
_ids = IdSource()


class Leaving(Config, frozen=True, kw_only=True):
    """What is in flight, and how long the worker has."""

    jobs: int = 200
    short_seconds: float = 1.0
    long_seconds: float = 8.0
    """Half of the jobs of every second round: the worker cannot finish them."""
    drain_seconds: float = 3.0
    rounds: int = 10


class _Round(msgspec.Struct, frozen=True, kw_only=True):
    has_long: bool
    in_flight: int
    """When it was asked to leave."""
    left_after_s: float
    finished: int
    """By the worker that was asked."""
    succeeded: int
    """In the end."""
    charged: int
    """Jobs that were charged a failure, a crash or a lapse for it."""
    twice: int
    """Jobs that ended twice, by a ledger of their own."""
    never: int
    """Jobs whose end is not in that ledger, whatever the queue says."""
    runs: int


def run(stage: Stage, config: Leaving) -> Findings:
    """By turns with jobs that end in time, and with some that do not."""
    rounds, samples = list[_Round](), list[Sample]()
    for number in range(config.rounds):
        one, looks = _round(stage, config, number, has_long=number % 2 == 1)
        rounds.append(one)
        samples += looks
        stage.say(f"round {number + 1}: gone after {rounds[-1].left_after_s:.2f} s")
    slowest = max(one.left_after_s for one in rounds)
    least = min(one.in_flight for one in rounds)
    lost = sum(max(config.jobs - one.succeeded, one.never) for one in rounds)
    limit = config.drain_seconds + _SLACK
    return Findings(
        headline=(
            f"{lost} of {config.jobs * len(rounds):,} jobs lost, {_sum(rounds, 'twice')} ended"
            f" twice, over {len(rounds)} stops with {config.jobs} in flight; gone within"
            f" {slowest:.1f} s"
        ),
        promises=[
            Promise(
                "every job succeeds, there or elsewhere",
                f"{sum(config.jobs - one.succeeded for one in rounds)} did not,"
                f" {_sum(rounds, 'never')} by the ledger",
                lost == 0,
            ),
            Promise("none ends twice", f"{_sum(rounds, 'twice')}", not _sum(rounds, "twice")),
            Promise(
                "none is charged for it",
                f"{_sum(rounds, 'charged')}",
                not _sum(rounds, "charged"),
            ),
            Promise(
                "what ends in time runs once",
                f"{sum(one.runs - one.in_flight for one in rounds if not one.has_long)}"
                " ran again",
                all(one.runs == config.jobs for one in rounds if not one.has_long),
            ),
            Promise(
                f"the worker is gone within {limit:g} s",
                f"{slowest:.2f} s",
                slowest <= limit,
                is_speed=True,
            ),
            Promise("all were in flight", f"{least} at the least", least == config.jobs),
            *stage.placed(),
        ],
        results={"rounds": msgspec.to_builtins(rounds)},
        tables=[_table(rounds)],
        bounds=evidence.bound(samples),
    )


def _sum(rounds: Sequence[_Round], name: str) -> int:
    return sum(getattr(one, name) for one in rounds)


def _round(
    stage: Stage, config: Leaving, number: int, *, has_long: bool
) -> tuple[_Round, Sequence[Sample]]:
    path = stage.folder / f"ends-{number}"
    with stage.store(is_searched=True) as url, stage.sampled(url) as sampler:
        rng = Random(f"{config.seed} {number}")
        too_long = rng.sample(range(config.jobs), config.jobs // 2 if has_long else 0)
        asyncio.run(_submit(url, config, frozenset(too_long)))
        asked = {"path": str(path), "slots": config.jobs, "drain": config.drain_seconds}
        with Crew("worker", work, url=url, **asked) as crew:
            in_flight = crew.told()
            left_after = crew.terminate(config.drain_seconds + _PATIENCE)
        finished = _count(asyncio.run(_jobs(url)), State.SUCCEEDED)
        with Crew("worker", work, url=url, **asked) as crew:
            jobs = asyncio.run(_ended(url))
            crew.terminate(config.drain_seconds + _PATIENCE)
    ends = Effects(path)
    cells = [ends.cell(seq) for seq in range(2 * config.jobs)]
    ends.close()
    seen = _Round(
        has_long=has_long,
        in_flight=in_flight,
        left_after_s=round(left_after, 3),
        finished=finished,
        succeeded=_count(jobs, State.SUCCEEDED),
        charged=sum(bool(one.failures or one.crashes or one.lapses) for one in jobs),
        twice=sum(cell.applied > 1 for cell in cells[: config.jobs]),
        never=sum(not cell.applied for cell in cells[: config.jobs]),
        runs=sum(cell.applied for cell in cells[config.jobs :]),
    )
    return seen, sampler.samples


async def work(url: str, path: str, slots: int, drain: float) -> None:
    """A worker that says when all its slots are taken, and drains on SIGTERM."""
    app, world, running = Longshore(url), Effects(Path(path)), 0

    @app.task(name="hold")
    async def hold(seq: int, seconds: float) -> None:
        nonlocal running
        running += 1
        if running == slots:
            say(running)
        world.apply(slots + seq)  # it began: cells of ends come first, then those of begins
        await asyncio.sleep(seconds)
        world.apply(seq)

    settings = WorkerSettings(
        concurrency=slots, drain_timeout=timedelta(seconds=drain), name=f"leaver-{os.getpid()}"
    )
    async with app:
        promoter = Promoter(app.engine, on_promoted=lambda _: worker.nudge())
        ticks = [("promote", promoter.tick)]
        worker = Worker(app.engine, app.registry(), settings, ticks=ticks)
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, worker.drain)
        await worker.run()


async def _submit(url: str, config: Leaving, too_long: frozenset[int]) -> None:
    engine = open_engine(url)
    seconds = [
        config.long_seconds if seq in too_long else config.short_seconds
        for seq in range(config.jobs)
    ]
    await engine.submit(
        [
            NewJob(
                id=_ids.make(),
                type="hold",
                payload=codec.encode({"seq": seq, "seconds": one}),
            )
            for seq, one in enumerate(seconds)
        ]
    )
    await engine.close()


async def _jobs(url: str) -> list[Job]:
    engine = open_engine(url)
    try:
        return (await engine.find(JobFilter(), limit=1_000)).jobs
    finally:
        await engine.close()


async def _ended(url: str) -> list[Job]:
    """All jobs, when none is left to do, or as they are when that takes too long."""
    jobs = await _jobs(url)
    for _ in range(int(_PATIENCE / 0.1)):
        if all(one.state is State.SUCCEEDED for one in jobs):
            break
        await asyncio.sleep(0.1)
        jobs = await _jobs(url)
    return jobs


def _count(jobs: Sequence[Job], state: State) -> int:
    return sum(one.state is state for one in jobs)


def _table(rounds: Sequence[_Round]) -> Table:
    head = [
        "jobs",
        "in flight",
        "gone after",
        "finished there",
        "succeeded in the end",
        "runs",
        "charged",
        "ended twice",
    ]
    rows = [
        [
            "half too long" if one.has_long else "short",
            str(one.in_flight),
            f"{one.left_after_s:.2f} s",
            str(one.finished),
            str(one.succeeded),
            str(one.runs),
            str(one.charged),
            str(one.twice),
        ]
        for one in rounds
    ]
    return Table("Each stop", head, rows)


EXPERIMENT = Experiment(
    name="leaving",
    page="e18-graceful-stop",
    promise="A graceful stop with 200 jobs in flight loses none and ends none twice",
    full=Leaving(),
    quick=Leaving(rounds=2, drain_seconds=2.0, long_seconds=5.0),
    takes="3 min",
    run=run,
    plant="hasty",
)
