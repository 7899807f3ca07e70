"""Experiment 1: how much more worker gives how much more throughput, and where that ends."""

from collections.abc import Sequence
from typing import Any

import msgspec

from longshore.bench.plan import Mode, Plan, Profile
from longshore.bench.run import run as bench
from longshore_lab.experiments import crowd, evidence
from longshore_lab.experiments.experiment import Config, Experiment, Stage
from longshore_lab.experiments.findings import Drawing, Findings, Line, Promise, Table
from longshore_lab.experiments.sampler import Sample

__all__ = ["EXPERIMENT"]

_FLOOR = 0.5
"""With more slots than the knee throughput may fall, but not below so much of its best."""
_CLAIMERS = 512
"""So many at once are to be served; more are tried, and not promised."""
_KNEE = 0.9
"""The knee: the fewest that reach so much of the best."""
_AHEAD = 4


class Sizes(Config, frozen=True, kw_only=True):
    """How many slots and sessions are tried."""

    slots: Sequence[int] = (16, 64, 256, 512, 1024, 2048, 4096, 8192, 16384)
    sessions: Sequence[int] = (1, 4, 16, 64, 128, 256, 512, 640)
    want: int = 50
    """Jobs per claim of a session."""
    seconds: float = 10.0
    """For each size."""
    least_per_s: float = 10_000.0
    """What any number of sessions settles a second, up to 512."""


class _Step(msgspec.Struct, frozen=True, kw_only=True):
    size: int
    jobs_per_s: float
    p99_ms: float
    used: dict[str, Any]


def run(stage: Stage, config: Sizes) -> Findings:
    """Sweep both, and find the knees."""
    slots, slots_bounds = _sweep(stage, config, config.slots, is_sessions=False)
    sessions, sessions_bounds = _sweep(stage, config, config.sessions, is_sessions=True)
    knees = {"slots": _knee(slots), "sessions": _knee(sessions)}
    return Findings(
        headline=(
            f"knee at {knees['slots'].size:,} slots ({knees['slots'].jobs_per_s:,.0f} mixed"
            f" jobs/s); {knees['sessions'].size:,} sessions settle"
            f" {knees['sessions'].jobs_per_s:,.0f} jobs/s, {sessions[-1].size:,} sessions"
            f" {sessions[-1].jobs_per_s:,.0f}"
        ),
        promises=[_bent(slots), _past_knee(slots), _crowded(config, sessions)],
        results={
            "slots": msgspec.to_builtins(slots),
            "sessions": msgspec.to_builtins(sessions),
            "knees": {name: one.size for name, one in knees.items()},
        },
        tables=[
            _table("One worker process, jobs of the mix, by its slots", "slots", slots),
            _table("Sessions that only claim and settle", "sessions", sessions),
        ],
        drawings=[
            _drawing("Jobs a second by slots, mixed jobs", "slots", slots),
            _drawing("Jobs a second by sessions, claim and settle only", "sessions", sessions),
        ],
        bounds=[*slots_bounds, *sessions_bounds],
    )


def _sweep(
    stage: Stage, config: Sizes, sizes: Sequence[int], *, is_sessions: bool
) -> tuple[list[_Step], list[Table]]:
    """Each size on a store of its own; the evidence is that of the knee and of the largest."""
    steps, looks = list[_Step](), dict[int, list[Sample]]()
    what = "sessions" if is_sessions else "slots"
    for size in sizes:
        with stage.store() as url, stage.sampled(url) as sampler:
            if is_sessions:
                asked = crowd.Crowd(
                    url=url, sessions=size, want=config.want, seconds=config.seconds
                )
                pace = crowd.pace(asked)
                rate, p99 = pace.jobs_per_s, pace.claim_ms.p99
            else:
                figures = bench(_plan(url, size, config))
                rate, p99 = figures.jobs_per_s, figures.p99_ms
        looks[size] = evidence.at_work(sampler.samples)
        used = evidence.used(looks[size])
        steps.append(_Step(size=size, jobs_per_s=rate, p99_ms=p99, used=used))
        stage.say(f"{size:,} {what}: {rate:,.0f} jobs/s")
    shown = dict.fromkeys((_knee(steps).size, steps[-1].size))
    tables = [evidence.bound(looks[size], f"{size:,} {what}") for size in shown]
    return steps, [one for some in tables for one in some]


def _plan(url: str, slots: int, config: Sizes) -> Plan:
    return Plan(
        url=url,
        mode=Mode.STEADY,
        profile=Profile.MIX,
        seconds=config.seconds,
        seed=config.seed,
        concurrency=slots,
        depth=max(2_000, _AHEAD * slots),
    )


def _knee(steps: Sequence[_Step]) -> _Step:
    best = max(one.jobs_per_s for one in steps)
    return next(one for one in steps if one.jobs_per_s >= _KNEE * best)


def _bent(steps: Sequence[_Step]) -> Promise:
    knee = _knee(steps)
    return Promise(
        "the knee is not the largest size that was tried",
        f"{knee.size:,} of up to {steps[-1].size:,} slots",
        knee.size < steps[-1].size,
        is_speed=True,
    )


def _past_knee(steps: Sequence[_Step]) -> Promise:
    knee = _knee(steps)
    beyond = min(one.jobs_per_s for one in steps if one.size >= knee.size)
    best = max(one.jobs_per_s for one in steps)
    return Promise(
        f"more slots than the knee keep at least {_FLOOR:.0%} of the best rate",
        f"{beyond / best:.0%} with up to {steps[-1].size:,} slots",
        beyond >= _FLOOR * best > 0,
        is_speed=True,
    )


def _crowded(config: Sizes, steps: Sequence[_Step]) -> Promise:
    promised = [one for one in steps if one.size <= _CLAIMERS]
    worst = min(promised, key=lambda one: one.jobs_per_s)
    return Promise(
        f"up to {promised[-1].size:,} sessions settle at least"
        f" {config.least_per_s:,.0f} jobs/s",
        f"{worst.jobs_per_s:,.0f} with {worst.size:,}",
        worst.jobs_per_s >= config.least_per_s,
        is_speed=True,
    )


def _table(title: str, what: str, steps: Sequence[_Step]) -> Table:
    head = [what, "jobs/s", "p99 ms", "cores: producer", "worker", "server", "all", "stolen"]
    rows = [
        [
            f"{one.size:,}",
            f"{one.jobs_per_s:,.0f}",
            f"{one.p99_ms:,.1f}",
            *(
                f"{one.used['cores'].get(role, 0):.2f}"
                for role in ("producer", "worker", "server")
            ),
            f"{one.used['busy']:.2f}",
            f"{one.used['stolen']:.2f}",
        ]
        for one in steps
        if one.used
    ]
    return Table(title, head, rows)


def _drawing(title: str, what: str, steps: Sequence[_Step]) -> Drawing:
    points = [(float(one.size), one.jobs_per_s) for one in steps]
    return Drawing(title=title, x=what, is_log=True, lines=[Line(name="jobs/s", points=points)])


EXPERIMENT = Experiment(
    name="workers",
    page="e11-workers",
    promise="512 claimers at once still settle at least 10,000 jobs a second",
    full=Sizes(),
    quick=Sizes(slots=(16, 256, 2048), sessions=(4, 64, 256), seconds=3.0, least_per_s=2_000.0),
    takes="7 min",
    run=run,
    plant="slow",
)
