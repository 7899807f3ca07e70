"""Experiment 10: the engines side by side: ceiling, claim p99, and what there is to operate."""

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from statistics import median
from typing import Any

import msgspec

from longshore.bench.plan import Mode, Plan, Profile
from longshore.bench.run import run as bench
from longshore.bench.tally import Tallied
from longshore.engines import open_engine
from longshore_lab.experiments import evidence
from longshore_lab.experiments.arrivals import Arrivals, Ended, observe
from longshore_lab.experiments.experiment import Config, Experiment, Stage
from longshore_lab.experiments.findings import Drawing, Findings, Line, Promise, Table
from longshore_lab.experiments.sampler import Sample
from longshore_lab.experiments.spread import Spread, middle

__all__ = ["EXPERIMENT"]

_SHARE = 0.8
"""Of the ceiling, at which claims are timed."""
_CLAIM_MS = 10.0
_HALF = 0.5
"""Of the ceiling, at which submits are timed."""
_SUBMIT_MS = 25.0


class Sizes(Config, frozen=True, kw_only=True):
    """How long each is measured, and how often: medians are told."""

    seconds: float = 15.0
    times: int = 3
    profiles: Sequence[str] = ("noop", "real", "mix")
    pings: int = 20_000
    """A hundredth of it is the number of lone jobs."""


class _Side(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    per_s: dict[str, float]
    """By profile."""
    idle_p50_ms: float
    idle_p99_ms: float
    each_per_s: dict[str, list[float]]
    """By profile, in the order they were measured."""
    claims: list[Ended]
    """At four fifths of the ceiling of jobs that do nothing."""
    submits: list[Ended]
    """At half of it."""
    migrate_s: float
    bytes_per_job: float
    used: dict[str, Any]

    @property
    def claim_ms(self) -> Spread:
        """At four fifths, in the run whose p99 is the median."""
        return middle([one.claim_ms for one in self.claims])

    @property
    def submit_ms(self) -> Spread:
        """At half, in the run whose p99 is the median."""
        return middle([one.submit_ms for one in self.submits])


def run(stage: Stage, config: Sizes) -> Findings:
    """Each engine alone, one after the other."""
    places = {
        "SQLite": stage.sqlite(),
        "SQLite, synchronous=normal": stage.sqlite("?synchronous=normal"),
        "PostgreSQL": stage.postgres,
    }
    sides, bounds = list[_Side](), list[Table]()
    for name, place in places.items():
        side, tables = _measured(stage, config, name, place)
        sides.append(side)
        bounds += tables
        stage.say(f"{name}: {_ceiling(side)} no-op (real) jobs/s")
    new = _on_new_servers(stage, config, sides[-1])
    ceilings = ", ".join(f"{one.name} {_ceiling(one)}" for one in sides)
    claims = ", ".join(f"{one.claim_ms.p99:,.1f}" for one in sides)
    return Findings(
        headline=f"no-op (real) jobs/s: {ceilings}; claim p99 at 80 % of that: {claims} ms",
        promises=[promise for one in sides for promise in _promises(one)],
        results={
            "engines": msgspec.to_builtins(sides),
            "new_servers": msgspec.to_builtins(new),
        },
        tables=[_table(config, sides), _ages(sides[-1], new)],
        drawings=[_drawing(config, sides)],
        bounds=bounds,
    )


def _ceiling(side: _Side) -> str:
    """Jobs that do nothing, and beside them those with all that real ones have."""
    real = side.per_s.get("real")
    return f"{side.per_s['noop']:,.0f}" + (f" ({real:,.0f})" if real is not None else "")


def _measured(stage: Stage, config: Sizes, name: str, place: str) -> tuple[_Side, list[Table]]:
    each: dict[str, list[float]] = {profile: [] for profile in config.profiles}
    seen, size = list[Sample](), 0.0
    for profile in [*config.profiles] * config.times:
        with stage.store(place) as url, stage.sampled(url) as sampler:
            figures = bench(_plan(url, profile, config))
        each[profile].append(figures.jobs_per_s)
        if profile == "noop":
            seen += evidence.at_work(sampler.samples)
            size = sampler.samples[-1].store_bytes / max(sampler.samples[-1].finished, 1)
    per_s = {profile: median(rates) for profile, rates in each.items()}
    with stage.store(place) as url:
        idle = bench(Plan(url=url, mode=Mode.LATENCY, jobs=config.pings))
    claims = _arriving(stage, config, place, _SHARE * per_s["noop"])
    submits = _arriving(stage, config, place, _HALF * per_s["noop"])
    return (
        _Side(
            name=name,
            per_s=per_s,
            each_per_s=each,
            idle_p50_ms=idle.p50_ms,
            idle_p99_ms=idle.p99_ms,
            claims=claims,
            submits=submits,
            migrate_s=_migration(stage, place),
            bytes_per_job=round(size, 1),
            used=evidence.used(seen),
        ),
        evidence.bound(seen, f"{name}, jobs that do nothing"),
    )


def _arriving(stage: Stage, config: Sizes, place: str, rate: float) -> list[Ended]:
    runs: list[Ended] = []
    for _ in range(config.times):
        with stage.store(place) as url:
            plan = _plan(url, "noop", config)
            asked = Arrivals(plan=plan, rate=max(rate, 1.0), seconds=config.seconds)
            runs.append(observe(asked))
    return runs


def _on_new_servers(stage: Stage, config: Sizes, side: _Side) -> list[Ended]:
    """Each time a server that has not worked yet, and what the other was given."""
    runs: list[Ended] = []
    for _ in range(config.times):
        with stage.new_postgres() as place:
            once = msgspec.structs.replace(config, times=1)
            runs += _arriving(stage, once, place, _SHARE * side.per_s["noop"])
    return runs


def _plan(url: str, profile: str, config: Sizes) -> Plan:
    is_mix = profile == "mix"
    return Plan(
        url=url,
        mode=Mode.STEADY,
        profile=Profile(profile),
        seconds=config.seconds,
        seed=config.seed,
        concurrency=5_000 if is_mix else 256,
        depth=20_000 if is_mix else 10_000,
    )


def _migration(stage: Stage, place: str) -> float:
    """How long an empty store takes to be set up."""
    began = time.perf_counter()
    with stage.store(place) as url:
        took = time.perf_counter() - began
        asyncio.run(_pinged(url))
    return round(took, 3)


async def _pinged(url: str) -> None:
    engine = open_engine(url)
    try:
        await engine.ping()
    finally:
        await engine.close()


def _promises(side: _Side) -> list[Promise]:
    runs = side.claims
    ended, submitted = sum(one.ended for one in runs), sum(one.submitted for one in runs)
    sums: Counter[str] = Counter()
    for one in runs:
        sums.update(msgspec.structs.asdict(one.tally))
    tally = Tallied(**sums)
    claim, submit = side.claim_ms.p99, side.submit_ms.p99
    return [
        Promise(
            f"{side.name} runs what arrives at four fifths of its ceiling, each job once, as"
            " its handler wrote down",
            f"{ended:,} of {submitted:,} ended; {tally.told} once",
            all(one.ended == one.submitted > 0 for one in runs) and tally.is_exact,
        ),
        Promise(
            f"{side.name} answers 99 of 100 claims within {_CLAIM_MS:g} ms then",
            f"{claim:,.1f} ms",
            claim < _CLAIM_MS,
            is_speed=True,
        ),
        Promise(
            f"{side.name} has 99 of 100 submits on disk within {_SUBMIT_MS:g} ms at half its"
            " ceiling",
            f"{submit:,.1f} ms",
            submit < _SUBMIT_MS,
            is_speed=True,
        ),
    ]


def _table(config: Sizes, sides: Sequence[_Side]) -> Table:
    head = [
        "engine",
        *(f"{name}, jobs/s" for name in config.profiles),
        "claim p50 ms at 80 %",
        "p99 ms",
        "submit p99 ms at 50 %",
        "at 80 %",
        "idle p50 ms",
        "p99 ms",
        "set up",
        "bytes per job",
    ]
    rows = [
        [
            one.name,
            *(f"{one.per_s[name]:,.0f}" for name in config.profiles),
            f"{one.claim_ms.p50:,.2f}",
            f"{one.claim_ms.p99:,.2f}",
            f"{one.submit_ms.p99:,.1f}",
            f"{middle([it.submit_ms for it in one.claims]).p99:,.1f}",
            f"{one.idle_p50_ms:,.1f}",
            f"{one.idle_p99_ms:,.1f}",
            f"{one.migrate_s:.2f} s",
            f"{one.bytes_per_job:,.0f}",
        ]
        for one in sides
    ]
    return Table("Side by side", head, rows)


def _ages(side: _Side, new: Sequence[Ended]) -> Table:
    head = ["files of the log", "claim p50 ms at 80 %", "p99 ms", "longest", "submit p99 ms"]
    rows: list[list[str]] = []
    for name, runs in (("used again", side.claims), ("made as they are needed", new)):
        claim = middle([one.claim_ms for one in runs])
        submit = middle([one.submit_ms for one in runs])
        row = [f"{claim.p50:,.2f}", f"{claim.p99:,.2f}", f"{claim.longest:,.1f}"]
        rows.append([name, *row, f"{submit.p99:,.1f}"])
    return Table("PostgreSQL when it has worked for a while, and when it is new", head, rows)


def _drawing(config: Sizes, sides: Sequence[_Side]) -> Drawing:
    return Drawing(
        title=f"Jobs a second: {', '.join(config.profiles)} (from left to right)",
        x="kind of jobs",
        lines=[
            Line(
                name=one.name,
                points=[
                    (float(at), one.per_s[name]) for at, name in enumerate(config.profiles)
                ],
            )
            for one in sides
        ],
    )


EXPERIMENT = Experiment(
    name="engines",
    page="e20-engines",
    promise="Every engine finishes what arrives at four fifths of its ceiling",
    full=Sizes(),
    quick=Sizes(seconds=2.0, times=1, profiles=("noop", "real"), pings=1_500),
    takes="15 min",
    run=run,
    plant="loss",
    store="SQLite and PostgreSQL, durable",
)
