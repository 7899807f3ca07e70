"""Every figure that is told of PostgreSQL's speed, measured in one run."""

import asyncio
import time
from collections.abc import Sequence
from functools import partial
from itertools import islice
from statistics import median
from typing import Any

import msgspec

from longshore.bench.load import Load
from longshore.bench.plan import Mode, Plan, Profile
from longshore.bench.run import Figures
from longshore.bench.run import run as bench
from longshore.runtime.process import loop_factory
from longshore_lab.experiments import crowd, evidence, singles
from longshore_lab.experiments.experiment import Config, Experiment, Stage
from longshore_lab.experiments.findings import Findings, Promise, Table

__all__ = ["EXPERIMENT"]

_SESSIONS = 512
_CALLERS = 512


class Sizes(Config, frozen=True, kw_only=True):
    """How much each figure is made of."""

    rounds: int = 3
    """Of all figures in turn; a promise is about the median."""
    seconds: float = 5.0
    jobs: int = 1_000_000
    """Of the backlogs; a fifth as many real ones."""
    pings: int = 20_000
    """A hundredth of it is the number of lone jobs."""


class _Goal(msgspec.Struct, frozen=True):
    """A figure and its bound."""

    name: str
    bound: float
    unit: str
    is_least: bool = True
    """It has to reach the bound, and otherwise to stay below it."""

    def holds(self, figure: float) -> bool:
        return figure >= self.bound if self.is_least else figure <= self.bound

    def promise(self, figures: Sequence[float]) -> Promise:
        found = median(figures)
        words = "at least" if self.is_least else "at most"
        return Promise(
            f"{self.name}: {words} {self.bound:,g} {self.unit}",
            _shown(found),
            self.holds(found),
            is_speed=True,
        )


_GOALS = {
    "noop": _Goal("jobs that do nothing, submitted and run", 80_000, "jobs/s"),
    "real": _Goal("the same with real jobs", 20_000, "jobs/s"),
    "worker": _Goal("processor time of the worker for a job that does nothing", 8, "µs", False),
    "server": _Goal("and of the server", 8, "µs", False),
    "log": _Goal("log that it writes for such a job", 350, "bytes", False),
    "drain": _Goal("backlog of jobs that do nothing, two workers", 100_000, "jobs/s"),
    "real drain": _Goal("backlog of real jobs, two workers", 20_000, "jobs/s"),
    "crowd": _Goal(f"{_CALLERS} callers that each await their own commit", 50_000, "jobs/s"),
    "crowd p99": _Goal("p99 of such a submit", 25, "ms", False),
    "one": _Goal("one caller, job by job", 1_500, "jobs/s"),
    "bulk": _Goal("one caller, a thousand jobs a call", 100_000, "jobs/s"),
    "idle p50": _Goal("idle queue, submit called → handler begins, p50", 3, "ms", False),
    "idle p99": _Goal("the same, p99", 15, "ms", False),
    "singles": _Goal("backlog that came one to five jobs at a time", 40_000, "jobs/s"),
    "look": _Goal("look at depth and oldest age of that", 100, "ms", False),
    "sessions": _Goal(f"{_SESSIONS} sessions on connections of their own", 10_000, "jobs/s"),
}


def run(stage: Stage, config: Sizes) -> Findings:
    """All figures in turn, as often as there are rounds; long ones once."""
    found: dict[str, list[float]] = {name: [] for name in _GOALS}
    with stage.sampled(None) as sampler:
        for number in range(config.rounds):
            for part in (_steady, _crowd, _one, _bulk, _idle, _backlogs):
                _note(found, part(stage, config))
            stage.say(f"round {number + 1} of {config.rounds}: {found['noop'][-1]:,.0f} jobs/s")
        for part in (_singles, _sessions):
            _note(found, part(stage, config))
    told = {name: median(figures) for name, figures in found.items()}
    return Findings(
        headline=(
            f"{told['noop']:,.0f} jobs/s that do nothing, {told['real']:,.0f} real ones;"
            f" backlogs of them drained at {told['drain']:,.0f} and {told['real drain']:,.0f};"
            f" idle p50 {told['idle p50']:.1f} ms"
        ),
        promises=[goal.promise(found[name]) for name, goal in _GOALS.items()],
        results={"runs": found, "medians": told},
        tables=[_table(found)],
        bounds=evidence.bound(sampler.samples, "over all of it"),
    )


def _note(found: dict[str, list[float]], figures: dict[str, float]) -> None:
    for name, figure in figures.items():
        found[name].append(round(figure, 2))


def _steady(stage: Stage, config: Sizes) -> dict[str, float]:
    noop = _measured(stage, profile=Profile.NOOP, seconds=config.seconds)
    real = _measured(stage, profile=Profile.REAL, seconds=config.seconds)
    return {
        "noop": noop.jobs_per_s,
        "real": real.jobs_per_s,
        "worker": noop.cpu_us_per_job.worker,
        "server": noop.cpu_us_per_job.server,
        "log": noop.wal_bytes_per_job or 0.0,
    }


def _crowd(stage: Stage, config: Sizes) -> dict[str, float]:
    many = _measured(stage, seconds=config.seconds, callers=_CALLERS, batch=1)
    return {"crowd": many.jobs_per_s, "crowd p99": many.submit_p99_ms}


def _one(stage: Stage, config: Sizes) -> dict[str, float]:
    return {"one": _measured(stage, seconds=config.seconds, callers=1, batch=1).jobs_per_s}


def _idle(stage: Stage, config: Sizes) -> dict[str, float]:
    lone = _measured(stage, mode=Mode.LATENCY, jobs=config.pings)
    return {"idle p50": lone.p50_ms, "idle p99": lone.p99_ms}


def _backlogs(stage: Stage, config: Sizes) -> dict[str, float]:
    drained = partial(_measured, stage, mode=Mode.DRAIN, batch=1_000, processes=2)
    return {
        "drain": drained(jobs=config.jobs).jobs_per_s,
        "real drain": drained(jobs=config.jobs // 5, profile=Profile.REAL).jobs_per_s,
    }


def _measured(stage: Stage, **asked: Any) -> Figures:
    with stage.store() as url:
        return bench(Plan(url=url, **asked))


def _bulk(stage: Stage, config: Sizes) -> dict[str, float]:
    with stage.store() as url, asyncio.Runner(loop_factory=loop_factory()) as runner:
        return {"bulk": runner.run(_sent(url, config.jobs // 5))}


async def _sent(url: str, jobs: int) -> float:
    """Jobs a second, by one caller."""
    load = Load(Plan(url=url))
    specs = load.specs()
    async with load.app as app:
        await app.submit_many(list(islice(specs, 1_000)))
        began = time.perf_counter()
        for _ in range(max(jobs // 1_000, 1)):
            await app.submit_many(list(islice(specs, 1_000)))
        return max(jobs // 1_000, 1) * 1_000 / (time.perf_counter() - began)


def _singles(stage: Stage, config: Sizes) -> dict[str, float]:
    with stage.store() as url, asyncio.Runner(loop_factory=loop_factory()) as runner:
        plan = Plan(url=url, processes=2)
        runner.run(singles.fill(url, Load(plan), config.jobs, singles.SIZES))
        looks = runner.run(singles.look(url, plan.queues))
        rate = runner.run(singles.drain(plan, config.jobs))
    return {"singles": rate, "look": looks.monitored_ms}


def _sessions(stage: Stage, config: Sizes) -> dict[str, float]:
    with stage.store() as url:
        asked = crowd.Crowd(url=url, sessions=_SESSIONS, want=50, seconds=2 * config.seconds)
        return {"sessions": crowd.pace(asked).jobs_per_s}


def _table(found: dict[str, list[float]]) -> Table:
    rows = [
        [goal.name, goal.unit, ", ".join(map(_shown, found[name]))]
        for name, goal in _GOALS.items()
    ]
    return Table("Every run, in its order", ["what", "in", "runs"], rows)


def _shown(figure: float) -> str:
    return f"{figure:,.0f}" if figure >= 100 else f"{figure:,.1f}"


EXPERIMENT = Experiment(
    name="figures",
    page="e27-figures",
    promise="PostgreSQL reaches every figure of its speed, all of them in one run",
    full=Sizes(),
    quick=Sizes(rounds=1, seconds=1.0, jobs=20_000, pings=1_500),
    takes="9 min",
    run=run,
    plant="slow",
)
