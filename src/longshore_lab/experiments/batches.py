"""Experiment 2: what a larger claim gains, and what it costs those who wait."""

from collections.abc import Sequence

import msgspec

from longshore.bench.plan import Mode, Plan
from longshore.bench.run import run as bench
from longshore_lab.experiments import crowd, evidence
from longshore_lab.experiments.crowd import Crowd, Pace, Shares
from longshore_lab.experiments.experiment import Config, Experiment, Stage
from longshore_lab.experiments.findings import Drawing, Findings, Line, Promise, Table
from longshore_lab.experiments.sampler import Sample

__all__ = ["EXPERIMENT"]


class Sizes(Config, frozen=True, kw_only=True):
    """Which claims are tried, and by whom."""

    batches: Sequence[int] = (1, 10, 50, 200, 1000, 4000)
    sessions: int = 16
    seconds: float = 8.0
    """For each batch, by sessions alone and then by a worker."""
    backlog: int = 8_000
    """Jobs that the sessions share, each working off one after the other."""
    job_ms: float = 1.0


class _Step(msgspec.Struct, frozen=True, kw_only=True):
    batch: int
    pace: Pace
    apart: Pace
    """The same where settling and claiming are a call and a commit each."""
    shares: Shares
    worker_per_s: float
    """Of one worker process that claims up to so many."""
    worker_p99_ms: float


def run(stage: Stage, config: Sizes) -> Findings:
    """Each batch by sessions alone, over a shared backlog, and by a worker."""
    steps, seen = list[_Step](), list[Sample]()
    for batch in config.batches:
        step, seen = _try(stage, config, batch)
        steps.append(step)
        stage.say(f"claims of {batch:,}: {step.pace.jobs_per_s:,.0f} jobs/s")
    first, best = steps[0], max(steps, key=lambda one: one.pace.jobs_per_s)
    gain = best.pace.jobs_per_s / max(first.pace.jobs_per_s, 1e-9)
    saved = [one.pace.jobs_per_s / max(one.apart.jobs_per_s, 1e-9) for one in steps]
    return Findings(
        headline=(
            f"claims of {best.batch:,} settle {gain:,.0f} times as many jobs a second as"
            f" claims of {first.batch}; then the busiest of {config.sessions} sessions has"
            f" {best.shares.busiest:g} times its share of a small backlog; settling and"
            f" claiming in one commit is worth {min(saved):.1f} to {max(saved):.1f} times the"
            " rate"
        ),
        promises=[
            Promise(
                "a larger claim settles more jobs a second",
                f"{first.pace.jobs_per_s:,.0f} with {first.batch},"
                f" {best.pace.jobs_per_s:,.0f} with {best.batch:,}",
                best.batch > first.batch and gain > 2,
                is_speed=True,
            ),
        ],
        results={"steps": msgspec.to_builtins(steps)},
        tables=[_table(config, steps)],
        drawings=_drawings(steps),
        bounds=evidence.bound(seen, f"claims of {config.batches[-1]:,}"),
    )


def _try(stage: Stage, config: Sizes, batch: int) -> tuple[_Step, list[Sample]]:
    with stage.store() as url, stage.sampled(url) as sampler:
        asked = Crowd(url=url, sessions=config.sessions, want=batch, seconds=config.seconds)
        pace = crowd.pace(asked)
    with stage.store() as url:
        apart = crowd.pace(msgspec.structs.replace(asked, url=url, is_apart=True))
    with stage.store() as url:
        asked = msgspec.structs.replace(asked, url=url)
        shares = crowd.shares(asked, jobs=config.backlog, job_ms=config.job_ms)
    with stage.store() as url:
        plan = Plan(url=url, mode=Mode.STEADY, seconds=config.seconds, claim_batch=batch)
        figures = bench(plan)
    return (
        _Step(
            batch=batch,
            pace=pace,
            apart=apart,
            shares=shares,
            worker_per_s=figures.jobs_per_s,
            worker_p99_ms=figures.p99_ms,
        ),
        evidence.at_work(sampler.samples),
    )


def _table(config: Sizes, steps: Sequence[_Step]) -> Table:
    head = [
        "claim",
        "jobs/s",
        "claim p50 ms",
        "p99 ms",
        "in two commits, jobs/s",
        "backlog shared in",
        "ideal",
        "busiest / mean",
        "idle",
        "one worker, jobs/s",
        "its wait p99 ms",
    ]
    rows = [
        [
            f"{one.batch:,}",
            f"{one.pace.jobs_per_s:,.0f}",
            f"{one.pace.claim_ms.p50:,.1f}",
            f"{one.pace.claim_ms.p99:,.1f}",
            f"{one.apart.jobs_per_s:,.0f}",
            f"{one.shares.seconds:.2f} s",
            f"{one.shares.ideal_seconds:.2f} s",
            f"{one.shares.busiest:g}",
            f"{one.shares.idle} of {config.sessions}",
            f"{one.worker_per_s:,.0f}",
            f"{one.worker_p99_ms:,.0f}",
        ]
        for one in steps
    ]
    return Table(f"{config.sessions} sessions, and one worker process", head, rows)


def _drawings(steps: Sequence[_Step]) -> list[Drawing]:
    def line(name: str, values: Sequence[float]) -> Line:
        sizes = [float(one.batch) for one in steps]
        return Line(name=name, points=list(zip(sizes, values, strict=True)))

    return [
        Drawing(
            title="Jobs a second by claim",
            x="jobs per claim",
            is_log=True,
            lines=[
                line("16 sessions, nothing run", [one.pace.jobs_per_s for one in steps]),
                line("one worker", [one.worker_per_s for one in steps]),
            ],
        ),
        Drawing(
            title="What it costs: p99 of a claim in ms, and the busiest session over the mean",
            x="jobs per claim",
            is_log=True,
            lines=[
                line("claim p99, ms", [one.pace.claim_ms.p99 for one in steps]),
                line("busiest / mean × 10", [10 * one.shares.busiest for one in steps]),
            ],
        ),
    ]


EXPERIMENT = Experiment(
    name="batches",
    page="e12-batches",
    promise="One claim of many jobs costs little more than one of one",
    full=Sizes(),
    quick=Sizes(batches=(1, 50, 1000), seconds=2.0, backlog=4_000),
    takes="6 min",
    run=run,
    plant="single",
)
