"""Experiment 9: jobs that run longer than the lease, with renewals and without."""

import asyncio
import time
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from longshore import Longshore
from longshore.contract import Engine, Renewed, Session
from longshore.contract.forwarding import ForwardingEngine, ForwardingSession
from longshore.core import codec
from longshore.core.job import Job, NewJob
from longshore.core.state import State
from longshore.core.view import JobFilter
from longshore.engines import open_engine
from longshore.errors import EngineUnavailableError
from longshore.runtime.ids import IdSource
from longshore.scheduler.reclaim import Reclaimer
from longshore.worker.settings import WorkerSettings
from longshore.worker.worker import Worker
from longshore_lab.effects import Effects
from longshore_lab.experiments import evidence
from longshore_lab.experiments.crew import Crew, say, told_to_stop
from longshore_lab.experiments.experiment import Config, Experiment, Stage
from longshore_lab.experiments.findings import Catch, Findings, Promise, Table
from longshore_lab.experiments.sampler import Sample

__all__ = ["EXPERIMENT", "work"]

_PATIENCE = 120.0
_ids = IdSource()


class Leases(Config, frozen=True, kw_only=True):
    """How long jobs run, and for how long they are held."""

    jobs: int = 50
    lease_seconds: float = 3.0
    job_seconds: float = 10.0
    """On average: each runs up to a tenth longer or shorter, as the seed decides."""


class _Case(msgspec.Struct, frozen=True, kw_only=True):
    renews: bool
    runs: int
    """Handlers that began."""
    twice: int
    """Jobs whose handler began twice."""
    ended_twice: int
    """Of those, the ones whose first run was not stopped before its end."""
    succeeded: int
    lost_leases: int
    """By the worker that held the jobs first."""
    lapses: int
    """Of all jobs, as the queue counted them: the lease ended under them."""
    settled_by_first: int


def run(stage: Stage, config: Leases) -> Findings:
    """The same jobs under a worker whose renewals are lost on the way, and under another."""
    without, _ = _case(stage, config, renews=False)
    stage.say(f"without renewal: {without.runs} runs of {config.jobs} jobs")
    held, samples = _case(stage, config, renews=True)
    stage.say(f"with renewal: {held.runs} runs")
    return Findings(
        headline=(
            f"with renewal {held.twice} of {config.jobs} jobs of {config.job_seconds:g} s ran"
            f" twice under a lease of {config.lease_seconds:g} s; without it {without.twice},"
            f" and {without.settled_by_first} late results were taken"
        ),
        promises=[
            Promise(
                "with renewal no job runs twice",
                f"{held.runs} runs of {config.jobs} jobs",
                held.runs == config.jobs == held.succeeded,
            ),
            Promise(
                "with renewal no lease ends under a job",
                f"{held.lapses}",
                held.lapses == held.lost_leases == 0,
            ),
            Promise(
                "without it, jobs run twice (or this experiment shows nothing)",
                f"{without.twice} of {config.jobs}",
                without.twice > 0,
            ),
            Promise(
                "what the first worker says after its lease is refused",
                f"{without.settled_by_first} accepted",
                without.settled_by_first == 0,
            ),
            Promise(
                "every job succeeds once all the same",
                f"{without.succeeded} of {config.jobs}",
                without.succeeded == config.jobs,
            ),
            *stage.placed(),
        ],
        results={"without": msgspec.to_builtins(without), "with": msgspec.to_builtins(held)},
        tables=[_table(without, held)],
        bounds=evidence.bound(samples, "with renewal"),
        catch=Catch(
            "renewals are lost on the way, and their sender believes in them",
            [f"jobs run twice: {without.twice} of {config.jobs}"] if without.twice else [],
        ),
    )


def _case(stage: Stage, config: Leases, *, renews: bool) -> tuple[_Case, Sequence[Sample]]:
    path = stage.folder / f"runs-{renews}"
    with stage.store(is_searched=True) as url, stage.sampled(url) as sampler:
        asyncio.run(_submit(url, config))
        asked = {"path": str(path), "jobs": config.jobs, "lease": config.lease_seconds}
        first = Crew("worker", work, url=url, renews=renews, **asked)
        with first:
            first.told()
            with Crew("worker", work, url=url, renews=True, **asked) as second:
                jobs = asyncio.run(_ended(url))
                told = first.stop(_PATIENCE)
                second.stop(_PATIENCE)
    world = Effects(path)
    begins = [world.cell(seq).applied for seq in range(config.jobs)]
    ends = [world.cell(config.jobs + seq).applied for seq in range(config.jobs)]
    world.close()
    case = _Case(
        renews=renews,
        runs=sum(begins),
        twice=sum(one > 1 for one in begins),
        ended_twice=sum(one > 1 for one in ends),
        succeeded=sum(one.state is State.SUCCEEDED for one in jobs),
        lost_leases=told["lost_leases"],
        lapses=sum(one.lapses + one.crashes for one in jobs),
        settled_by_first=told["succeeded"],
    )
    return case, sampler.samples


async def work(url: str, path: str, *, jobs: int, lease: float, renews: bool) -> dict[str, int]:
    """A worker that says when it runs everything; what it was told in the end."""
    app, world, running = Longshore(url), Effects(Path(path)), 0

    @app.task(name="long")
    async def long(seq: int, seconds: float) -> None:
        nonlocal running
        running += 1
        world.apply(seq)
        if running == jobs:
            say("all")
        await asyncio.sleep(seconds)
        world.apply(jobs + seq)

    async with app:
        engine = app.engine if renews else _unrenewed(app.engine)
        length = timedelta(seconds=lease)
        settings = WorkerSettings(concurrency=jobs, lease=length, drain_timeout=length)
        reclaimer = Reclaimer(app.engine, lease=int(lease * 1e6))
        ticks = [("reclaim", reclaimer.tick)] if renews else []
        worker = Worker(engine, app.registry(), settings, ticks=ticks)
        running_worker = asyncio.create_task(worker.run())
        await told_to_stop()
        worker.drain()
        await running_worker
    return {"lost_leases": worker.stats.lost_leases, "succeeded": worker.stats.succeeded}


def _unrenewed(engine: Engine) -> Engine:
    """The same engine, but renewals are lost on the way, and their senders believe in them.

    It gives one session only: a worker that never renews would otherwise claim the same jobs
    again and again, and never end one.
    """
    return _UnrenewedEngine(engine)


class _UnrenewedEngine(ForwardingEngine):
    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._has_opened = False

    async def open_session(self, **arguments: Any) -> Session:
        if self._has_opened:
            raise EngineUnavailableError("this worker has had its turn")
        self._has_opened = True
        return _Unrenewed(await self._inner.open_session(**arguments))


class _Unrenewed(ForwardingSession):
    async def renew(self, **_: Any) -> Renewed:
        return Renewed(now=time.time_ns() // 1_000, expires_at=0)


async def _submit(url: str, config: Leases) -> None:
    engine, rng = open_engine(url), Random(config.seed)
    seconds = [config.job_seconds * rng.uniform(0.9, 1.1) for _ in range(config.jobs)]
    await engine.submit(
        [
            NewJob(
                id=_ids.make(),
                type="long",
                payload=codec.encode({"seq": seq, "seconds": one}),
            )
            for seq, one in enumerate(seconds)
        ]
    )
    await engine.close()


async def _ended(url: str) -> Sequence[Job]:
    """All jobs, when each has succeeded, or as they are when that takes too long."""
    engine, jobs = open_engine(url), list[Job]()
    try:
        for _ in range(int(_PATIENCE / 0.1)):
            jobs = (await engine.find(JobFilter(), limit=1_000)).jobs
            if all(one.state is State.SUCCEEDED for one in jobs):
                break
            await asyncio.sleep(0.1)
    finally:
        await engine.close()
    return jobs


def _table(*cases: _Case) -> Table:
    head = [
        "renewal",
        "runs",
        "ran twice",
        "to the end twice",
        "succeeded",
        "leases lost",
        "lapses",
        "settled by the first worker",
    ]
    rows = [
        [
            "yes" if one.renews else "no",
            *map(str, (one.runs, one.twice, one.ended_twice, one.succeeded)),
            *map(str, (one.lost_leases, one.lapses, one.settled_by_first)),
        ]
        for one in cases
    ]
    return Table("Jobs that run past the lease", head, rows)


EXPERIMENT = Experiment(
    name="leases",
    page="e19-leases",
    promise="A job may run longer than the lease: it is renewed, and never taken away",
    full=Leases(),
    quick=Leases(jobs=20, lease_seconds=1.0, job_seconds=4.0),
    takes="1 min",
    run=run,
)
