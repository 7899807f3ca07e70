"""Experiment 4: a backlog of millions, met by workers that have just started."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from statistics import fmean

import msgspec

from longshore.bench.plan import Mode, Plan, Profile
from longshore.bench.run import Figures
from longshore.bench.run import run as bench
from longshore_lab.experiments import evidence
from longshore_lab.experiments.experiment import Config, Experiment, Stage
from longshore_lab.experiments.findings import Drawing, Findings, Line, Promise
from longshore_lab.experiments.sampler import Sample

__all__ = ["EXPERIMENT"]

_DECAY = 0.5
"""The deepest fifth is drained at no less than so much of the rate of the last."""


class Backlog(Config, frozen=True, kw_only=True):
    """How much waits, and who runs it."""

    jobs: int = 5_000_000
    real_jobs: int = 1_000_000
    """Jobs with all that real ones have, in a backlog of their own."""
    processes: int = 2
    concurrency: int = 256
    batch: int = 1_000
    """Jobs per submit call."""


def run(stage: Stage, config: Backlog) -> Findings:
    """Submit everything, then start, and watch the rate while the backlog shrinks."""
    with stage.store() as url, stage.sampled(url) as sampler:
        figures = bench(_plan(url, config), _reporter(stage, "nothing to do"))
    with stage.store() as url:
        real = bench(_plan(url, config, is_real=True), _reporter(stage, "real jobs"))
    draining = _draining(sampler.samples, figures.seconds)
    rates = _rates(draining)
    deep, shallow = _fifths(rates)
    return Findings(
        headline=(
            f"{config.jobs:,} jobs that do nothing drained at {figures.jobs_per_s:,.0f} jobs/s,"
            f" {config.real_jobs:,} real ones at {real.jobs_per_s:,.0f}"
        ),
        promises=[
            _once("every job of the backlog", config.jobs, figures),
            _once("every real job", config.real_jobs, real),
            _steady(deep, shallow),
        ],
        results={
            "bench": msgspec.to_builtins(figures),
            "real": msgspec.to_builtins(real),
            "first_fifth_per_s": round(deep, 1),
            "last_fifth_per_s": round(shallow, 1),
            "used": evidence.used(draining),
        },
        drawings=[
            evidence.depth_drawing(sampler.samples, "Jobs that have not ended"),
            Drawing(
                title="Jobs a second while the backlog shrinks",
                x="seconds",
                lines=[Line(name="jobs/s", points=rates)],
            ),
        ],
        bounds=evidence.bound(draining, "while it was drained"),
        series=evidence.series(sampler.samples),
    )


def _plan(url: str, config: Backlog, *, is_real: bool = False) -> Plan:
    return Plan(
        url=url,
        mode=Mode.DRAIN,
        profile=Profile.REAL if is_real else Profile.NOOP,
        jobs=config.real_jobs if is_real else config.jobs,
        batch=config.batch,
        processes=config.processes,
        concurrency=config.concurrency,
    )


def _reporter(stage: Stage, kind: str) -> Callable[[str, float], None]:
    """Says every quarter of the way."""
    said = 0.0

    def report(what: str, share: float) -> None:
        nonlocal said
        if abs(share - said) >= 0.25:
            said = share
            stage.say(f"{kind}, {what}: {share:.0%}")

    return report


def _once(which: str, jobs: int, figures: Figures) -> Promise:
    found = figures.tally
    return Promise(
        f"{which} ran once, as its handler wrote down",
        found.told if found else "nothing was written down",
        found is not None and found.is_exact and found.jobs == jobs,
    )


def _steady(deep: float, shallow: float) -> Promise:
    return Promise(
        f"a deep backlog is drained about as fast as a shallow one (at least {_DECAY:.0%})",
        f"{deep:,.0f} jobs/s in the first fifth, {shallow:,.0f} in the last"
        if deep
        else "it was over too soon to tell",
        not deep or deep >= _DECAY * shallow,
        is_speed=True,
    )


def _draining(samples: Sequence[Sample], seconds: float) -> list[Sample]:
    """The seconds in which it shrank: from the deepest on, for as long as that took."""
    if not samples:
        return []
    deepest = max(range(len(samples)), key=lambda at: samples[at].depth)
    begin = samples[deepest].at
    return [one for one in samples[deepest:] if one.at <= begin + seconds + 2]


def _rates(samples: Sequence[Sample]) -> list[tuple[float, float]]:
    """Jobs a second. In the first of them it began at some time, and is left out."""
    found = [
        (after.at, round((before.depth - after.depth) / (after.at - before.at), 1))
        for before, after in pairwise(samples)
        if before.depth > after.depth > 0
    ]
    return found[1:]


def _fifths(rates: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Mean rates of the first and of the last fifth."""
    fifth = len(rates) // 5
    if not fifth:
        return 0.0, 0.0
    return fmean(rate for _, rate in rates[:fifth]), fmean(rate for _, rate in rates[-fifth:])


EXPERIMENT = Experiment(
    name="drain",
    page="e14-backlog",
    promise="A backlog of five million jobs drains without slowing down in its depth",
    full=Backlog(),
    quick=Backlog(jobs=200_000, real_jobs=20_000),
    takes="5 min",
    run=run,
    plant="deep",
)
