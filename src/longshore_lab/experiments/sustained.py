"""The sustained run: the mix at a fixed rate for many minutes, with pruning, and flat depth."""

from collections.abc import Sequence
from statistics import fmean

import msgspec

from longshore.bench.plan import Plan, Profile
from longshore_lab.experiments import evidence
from longshore_lab.experiments.arrivals import Arrivals, Ended, observe
from longshore_lab.experiments.experiment import Config, Experiment, Stage
from longshore_lab.experiments.findings import Drawing, Findings, Line, Promise, Table
from longshore_lab.experiments.sampler import Sample
from longshore_lab.experiments.screen import Glance

__all__ = ["EXPERIMENT"]

_GROWTH = 1.25
"""The depth of the last quarter over that of the second may be so much, and half a second of
arrivals more: a run ends in the middle of its retries."""


class Sustained(Config, frozen=True, kw_only=True):
    """How much arrives, for how long."""

    rate: float = 20_000.0
    minutes: float = 20.0
    processes: int = 2
    slots: int = 6_000
    """Of each worker process: 20 % of the jobs take a second or so."""
    long_seconds: float = 40.0
    """One job in ten thousand takes so long: longer than the lease."""
    keep_seconds: float = 120.0
    """What ended so long ago is pruned."""


def run(stage: Stage, config: Sustained) -> Findings:
    """Let the mix arrive, and watch depth and tables."""
    with stage.store() as url, stage.sampled(url) as sampler:
        plan = Plan(
            url=url,
            profile=Profile.MIX,
            processes=config.processes,
            concurrency=config.slots,
            seed=config.seed,
            long_seconds=config.long_seconds,
        )
        seconds = config.minutes * 60
        stage.say(f"{config.rate:,.0f} jobs a second for {config.minutes:g} min")
        with Glance(url, seconds) as glance:
            found = observe(
                Arrivals(
                    plan=plan,
                    rate=config.rate,
                    seconds=seconds,
                    keep_seconds=config.keep_seconds,
                )
            )
    arriving = [one for one in sampler.samples if one.depth][: int(seconds)]
    early, late = _quarters(arriving)
    reached = found.submitted / found.seconds
    return Findings(
        headline=(
            f"{reached:,.0f} mixed jobs/s for {config.minutes:g} min; depth {early:,.0f} in the"
            f" second quarter, {late:,.0f} in the last"
        ),
        promises=_promises(config, found, early, late),
        results={
            **msgspec.to_builtins(found),
            "jobs_per_s": round(reached, 1),
            "depth_second_quarter": round(early, 1),
            "depth_last_quarter": round(late, 1),
            "used": evidence.used(arriving),
        },
        tables=[_table(found)],
        drawings=_drawings(sampler.samples),
        bounds=evidence.bound(arriving),
        series=evidence.series(sampler.samples),
        screen=glance.lines,
    )


def _promises(config: Sustained, found: Ended, early: float, late: float) -> list[Promise]:
    limit = _GROWTH * early + config.rate / 2
    reached = found.submitted / found.seconds
    return [
        Promise(
            "the depth is flat",
            f"{early:,.0f} in the second quarter, {late:,.0f} in"
            f" the last; at most {limit:,.0f}",
            0 < late <= limit,
            is_speed=True,
        ),
        Promise(
            f"{config.rate:,.0f} jobs arrive a second",
            f"{reached:,.0f}",
            reached >= 0.98 * config.rate,
            is_speed=True,
        ),
        Promise(
            "every job that arrived ends",
            f"{found.ended:,} of {found.submitted:,}, {found.dead:,} dead as planned",
            found.ended == found.submitted,
        ),
        Promise(
            "every job ran as often as it has to, and no more, as its handler wrote down",
            found.tally.told,
            found.tally.is_exact and found.tally.jobs == found.submitted,
        ),
    ]


def _quarters(samples: Sequence[Sample]) -> tuple[float, float]:
    """Mean depths of the second quarter and of the last."""
    size = len(samples) // 4
    if not size:
        return 0.0, 0.0
    second, last = samples[size : 2 * size], samples[-size:]
    return fmean(one.depth for one in second), fmean(one.depth for one in last)


def _table(found: Ended) -> Table:
    spreads = {
        "a call was made after its time": found.late_ms,
        "meant to be submitted → durable": found.submit_ms,
        "made → handler begins": found.wait_ms,
        "an exchange that claims": found.claim_ms,
    }
    rows = [
        [name, f"{one.count:,}", f"{one.p50:,.1f}", f"{one.p99:,.1f}", f"{one.longest:,.1f}"]
        for name, one in spreads.items()
    ]
    return Table("In milliseconds", ["what", "samples", "p50", "p99", "longest"], rows)


def _drawings(samples: Sequence[Sample]) -> list[Drawing]:
    kept = evidence.thinned(samples)

    def line(name: str, values: Sequence[float]) -> Line:
        seconds = [one.at for one in kept]
        return Line(name=name, points=list(zip(seconds, values, strict=True)))

    return [
        evidence.depth_drawing(samples, "Jobs that have not ended"),
        Drawing(
            title="The store's tables, in MiB",
            x="seconds",
            lines=[line("MiB", [one.store_bytes / 2**20 for one in kept])],
        ),
        Drawing(
            title="Processors",
            x="seconds",
            lines=[
                line("everyone", [one.busy for one in kept]),
                line("workers", [one.cores.get("worker", 0.0) for one in kept]),
                line("server", [one.cores.get("server", 0.0) for one in kept]),
                line("taken away", [one.stolen for one in kept]),
            ],
        ),
    ]


EXPERIMENT = Experiment(
    name="sustained",
    page="e21-sustained",
    promise="The queue carries 20,000 mixed jobs a second for 20 minutes with flat depth",
    full=Sustained(),
    quick=Sustained(rate=1_000.0, minutes=0.5, slots=2_000, keep_seconds=5.0),
    takes="22 min",
    run=run,
    plant="loss",
)
