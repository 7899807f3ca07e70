"""Experiment 7: jobs that are due soon, behind a backlog of a million."""

import asyncio
import json
from collections.abc import Sequence
from random import Random

from longshore.core.job import NewJob
from longshore.engines import open_engine
from longshore.runtime.clock import SystemClock
from longshore.runtime.ids import IdSource
from longshore.scheduler.promote import Promoter
from longshore.worker.registry import Handler, Registry
from longshore.worker.settings import WorkerSettings
from longshore.worker.worker import Worker
from longshore_lab.experiments import evidence
from longshore_lab.experiments.crew import Crew, say
from longshore_lab.experiments.experiment import Config, Experiment, Stage
from longshore_lab.experiments.findings import Drawing, Findings, Line, Promise
from longshore_lab.experiments.spread import Spread, spread

__all__ = ["EXPERIMENT", "work"]

_BATCH = 2_000
_MOST_MS = 1_000.0
_AIM_MS = 100.0
_make = IdSource(SystemClock()).make


class Punctual(Config, frozen=True, kw_only=True):
    """What waits, and what becomes due."""

    backlog: int = 1_000_000
    handler_ms: float = 1.0
    """Of a job of the backlog."""
    jobs: int = 200
    """That are due `in_seconds` and later, so many a second at times that the seed decides."""
    in_seconds: float = 5.0
    rate: float = 50.0
    slots: int = 32


def run(stage: Stage, config: Punctual) -> Findings:
    """Fill, start a worker, and ask each job how late it was."""
    with stage.store() as url, stage.sampled(url) as sampler:
        stage.say(f"submitting {config.backlog:,} jobs")
        asyncio.run(_fill(url, config))
        asked = {
            "slots": config.slots,
            "handler_ms": config.handler_ms,
            "expected": config.jobs,
        }
        with Crew("worker", work, url=url, **asked) as crew:
            crew.told()
            asyncio.run(_order(url, config))
            late = [float(one) for one in crew.told(300)]
            left = asyncio.run(_left(url))
    found = spread(late)
    return Findings(
        headline=(
            f"p99 {found.p99:,.0f} ms past `run_at`, with {left:,} of {config.backlog:,} jobs"
            " still waiting"
        ),
        promises=_promises(late, found, left),
        results={
            "late_ms": {"p50": found.p50, "p99": found.p99, "longest": found.longest},
            "left": left,
            "each_ms": [round(one, 2) for one in late],
        },
        drawings=[
            Drawing(
                title="How late each job started, in ms",
                x="jobs, in the order of their starts",
                level=_AIM_MS,
                lines=[
                    Line(
                        name="ms past run_at",
                        points=[(float(at), one) for at, one in enumerate(late)],
                    )
                ],
            ),
            evidence.depth_drawing(sampler.samples, "Jobs that have not ended"),
        ],
        bounds=evidence.bound(sampler.samples),
        series=evidence.series(sampler.samples),
    )


def _promises(late: Sequence[float], found: Spread, left: int) -> list[Promise]:
    return [
        Promise(
            f"p99 is below {_MOST_MS:,.0f} ms (aim: {_AIM_MS:g})",
            f"p50 {found.p50:,.1f}, p99 {found.p99:,.1f}, longest {found.longest:,.1f} ms",
            found.p99 < _MOST_MS,
            is_speed=True,
        ),
        Promise(
            "none starts before its time",
            f"{min(late):,.2f} ms at the least",
            min(late) >= 0,
        ),
        Promise(
            "the backlog was there until the end", f"{left:,} left", left > 0, is_speed=True
        ),
    ]


async def work(url: str, slots: int, handler_ms: float, expected: int) -> list[float]:
    """Run jobs until so many said when they were due; how late they were, in ms."""
    late: list[float] = []
    over = asyncio.Event()

    async def one(arguments: dict[str, object]) -> None:
        if isinstance(due := arguments["due"], float):
            late.append((SystemClock().now() / 1e6 - due) * 1e3)
            if len(late) == expected:
                over.set()
        else:
            await asyncio.sleep(handler_ms / 1e3)

    engine = open_engine(url)
    await engine.ping()
    handler = Handler(type="work", decode=json.loads, run=one)
    promoter = Promoter(engine, on_promoted=lambda _: worker.nudge())
    settings, ticks = WorkerSettings(concurrency=slots), [("promote", promoter.tick)]
    worker = Worker(engine, Registry([handler]), settings, ticks=ticks)
    say("ready")
    running = asyncio.create_task(worker.run())
    await over.wait()
    worker.stop_now()
    await running
    await engine.close()
    return late


async def _fill(url: str, config: Punctual) -> None:
    engine = open_engine(url)
    for _ in range(0, config.backlog, _BATCH):
        await engine.submit(_plain(_BATCH))
    await engine.close()


def _plain(count: int) -> list[NewJob]:
    return [NewJob(id=_make(), type="work", payload=b'{"due":null}') for _ in range(count)]


async def _order(url: str, config: Punctual) -> None:
    """Submit the jobs that have a time, all of them before the first is due."""
    engine = open_engine(url)
    first = SystemClock().now() / 1e6 + config.in_seconds
    rng, seconds = Random(config.seed), config.jobs / config.rate
    dues = [first, *(first + rng.uniform(0.0, seconds) for _ in range(config.jobs - 1))]
    await engine.submit([_due(due) for due in dues])
    await engine.close()


def _due(due: float) -> NewJob:
    payload = json.dumps({"due": due}).encode()
    return NewJob(id=_make(), type="work", run_at=round(due * 1e6), payload=payload)


async def _left(url: str) -> int:
    engine = open_engine(url)
    try:
        return sum(one.ready for one in await engine.counts())
    finally:
        await engine.close()


EXPERIMENT = Experiment(
    name="punctual",
    page="e17-punctuality",
    promise="Jobs due in five seconds start on time behind a backlog of a million",
    full=Punctual(),
    quick=Punctual(backlog=50_000, handler_ms=5.0, jobs=100, rate=100.0),
    takes="2 min",
    run=run,
    plant="early",
)
