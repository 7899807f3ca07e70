"""Experiment 6: five percent of the jobs always fail, and the others should not notice."""

import asyncio
import time
from array import array
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from longshore import Longshore
from longshore.contract import Engine
from longshore.core import codec
from longshore.core.job import Job, NewJob
from longshore.core.state import State
from longshore.core.view import JobFilter
from longshore.engines import open_engine
from longshore.runtime.ids import IdSource
from longshore_lab.effects import Effects
from longshore_lab.experiments import evidence
from longshore_lab.experiments.crew import Crew, say, told_to_stop
from longshore_lab.experiments.experiment import Config, Experiment, ExperimentError, Stage
from longshore_lab.experiments.findings import Findings, Promise, Table
from longshore_lab.experiments.spread import Spread, few, spread

__all__ = ["EXPERIMENT", "work"]

_EVERY = 0.02
_PATIENCE = 120.0
_PAGE = 1_000
_SOON_MS = 1_000.0
"""A healthy job that waits longer counts as one that was kept from running."""
_ids = IdSource()


class Poison(Config, frozen=True, kw_only=True):
    """How many jobs are fine, and how many are not."""

    rate: int = 3_000
    """Healthy jobs a second."""
    share: float = 0.05
    """So many of all jobs always fail."""
    seconds: float = 60.0
    """With poison, and before that as long without."""
    max_attempts: int = 5
    slots: int = 256
    slack_ms: float = 100.0
    """The p99 of a healthy job's wait may double, or grow by so much."""


class _Phase(msgspec.Struct, frozen=True, kw_only=True):
    healthy: int
    poison: int
    healthy_per_s: float
    """Those that began within a second of their submit."""
    wait_ms: Spread
    wrong_runs: int
    """Jobs that ran another number of times than they should have, by a ledger of their own."""
    wrongly_dead: int
    healthy_dead: int
    dead: int


def run(stage: Stage, config: Poison) -> Findings:
    """The same load without poison and with it."""
    clean, _ = _phase(stage, config, 0.0)
    stage.say(f"without poison: {clean.healthy_per_s:,.0f} healthy jobs/s")
    mixed, samples = _phase(stage, config, config.share)
    stage.say(f"with {config.share:.0%}: {mixed.healthy_per_s:,.0f} healthy jobs/s")
    right = mixed.dead - mixed.healthy_dead - mixed.wrongly_dead
    limit = max(2 * clean.wait_ms.p99, clean.wait_ms.p99 + config.slack_ms)
    return Findings(
        headline=(
            f"{right:,} of {mixed.poison:,} poison jobs dead after exactly"
            f" {config.max_attempts} failures;"
            f" healthy jobs: {mixed.healthy_per_s:,.0f}/s beside them,"
            f" {clean.healthy_per_s:,.0f}/s alone"
        ),
        promises=[
            Promise(
                f"poison is dead after exactly {config.max_attempts} attempts",
                f"{mixed.dead - mixed.healthy_dead:,} dead of {mixed.poison:,},"
                f" {mixed.wrongly_dead} at another failure,"
                f" {mixed.wrong_runs} jobs with another number of runs",
                mixed.dead - mixed.healthy_dead == mixed.poison > 0
                and mixed.wrongly_dead == mixed.wrong_runs == 0,
            ),
            Promise(
                "no healthy job is dead",
                f"{clean.healthy_dead} alone, {mixed.healthy_dead} beside poison",
                clean.healthy_dead == mixed.healthy_dead == 0,
            ),
            Promise(
                "healthy throughput is unaffected (at least 95 %)",
                f"{mixed.healthy_per_s / clean.healthy_per_s:.1%}",
                mixed.healthy_per_s >= 0.95 * clean.healthy_per_s,
                is_speed=True,
            ),
            Promise(
                f"healthy jobs wait no longer than {limit:,.0f} ms (p99)",
                f"{mixed.wait_ms.p99:,.1f} ms, alone {clean.wait_ms.p99:,.1f} ms",
                mixed.wait_ms.p99 <= limit,
                is_speed=True,
            ),
            *stage.placed(),
        ],
        results={
            "clean": msgspec.to_builtins(clean),
            "mixed": msgspec.to_builtins(mixed),
            "used": evidence.used(samples),
        },
        tables=[_table(clean, mixed)],
        drawings=[evidence.depth_drawing(samples, "Jobs that have not ended, with poison")],
        bounds=evidence.bound(samples, "with poison"),
    )


def _phase(stage: Stage, config: Poison, share: float) -> tuple[_Phase, list[Any]]:
    path = stage.folder / f"runs-{share:g}"
    with stage.store(is_searched=True) as url, stage.sampled(url) as sampler:
        with Crew("worker", work, url=url, slots=config.slots, path=str(path)) as crew:
            crew.told()
            bad = asyncio.run(_produce(url, config, share))
            told = crew.stop()
        phase = asyncio.run(_counted(url, config, path, bad, told))
    return phase, sampler.samples


async def work(url: str, slots: int, path: str) -> dict[str, Any]:
    """Run jobs until told to stop; how long the healthy ones had waited."""
    app, runs, waits = Longshore(url), Effects(Path(path)), array("d")

    @app.task(name="fine")
    async def fine(seq: int, at: int) -> None:
        runs.apply(seq)
        waits.append((time.monotonic_ns() - at) / 1e6)
        await asyncio.sleep(0.001 + seq % 5 * 0.001)

    @app.task(name="poison")
    async def poison(seq: int, at: int) -> None:
        runs.apply(seq)
        raise ValueError("as always")

    async with app:
        working = asyncio.create_task(app.work(queues=["default"], concurrency=slots))
        say("ready")
        await told_to_stop()
        working.cancel()
        await asyncio.wait([working])
    in_time = sum(wait < _SOON_MS for wait in waits)
    return {"wait_ms": few(waits), "healthy": len(waits), "in_time": in_time}


async def _produce(url: str, config: Poison, share: float) -> set[int]:
    """Submit, and wait until nothing is left to do; the numbers of the poison jobs."""
    engine, bad, seq = open_engine(url), set[int](), 0
    begin, sent, rng = time.perf_counter(), 0, Random(config.seed)
    try:
        while sent < config.rate * config.seconds:
            jobs = list[NewJob]()
            while sent + len(jobs) < (time.perf_counter() - begin + _EVERY) * config.rate:
                seq += 1
                if rng.random() < share:
                    bad.add(seq)
                    await engine.submit([_job("poison", seq, config)])
                else:
                    jobs.append(_job("fine", seq, config))
            await engine.submit(jobs)
            sent += len(jobs)
            await asyncio.sleep(max(begin + sent / config.rate - time.perf_counter(), 0.0))
        await _quiet(engine)
    finally:
        await engine.close()
    return bad


def _job(kind: str, seq: int, config: Poison) -> NewJob:
    payload = codec.encode({"seq": seq, "at": time.monotonic_ns()})
    return NewJob(id=_ids.make(), type=kind, payload=payload, max_attempts=config.max_attempts)


async def _quiet(engine: Engine) -> None:
    begin = time.perf_counter()
    while sum(one.ready + one.running + one.scheduled for one in await engine.counts()):
        if time.perf_counter() - begin > _PATIENCE:
            raise ExperimentError(f"jobs are left after {_PATIENCE:g} s")
        await asyncio.sleep(0.2)


async def _counted(
    url: str, config: Poison, path: Path, bad: set[int], told: dict[str, Any]
) -> _Phase:
    engine, runs = open_engine(url), Effects(path)
    try:
        dead = [job async for job in _dead(engine)]
    finally:
        await engine.close()
    expected = {seq: config.max_attempts if seq in bad else 1 for seq in range(1, runs.size)}
    wrong = sum(runs.cell(seq).asked != times for seq, times in expected.items())
    runs.close()
    return _Phase(
        healthy=told["healthy"],
        poison=len(bad),
        healthy_per_s=round(told["in_time"] / config.seconds, 1),
        wait_ms=spread(told["wait_ms"]),
        wrong_runs=wrong,
        wrongly_dead=sum(
            job.type == "poison" and job.failures != config.max_attempts for job in dead
        ),
        healthy_dead=sum(job.type != "poison" for job in dead),
        dead=len(dead),
    )


async def _dead(engine: Engine) -> AsyncIterator[Job]:
    cursor = None
    while True:
        page = await engine.find(JobFilter(state=State.DEAD), limit=_PAGE, cursor=cursor)
        for job in page.jobs:
            yield job
        cursor = page.cursor
        if cursor is None:
            return


def _table(clean: _Phase, mixed: _Phase) -> Table:
    def row(name: str, one: _Phase) -> list[str]:
        waits = one.wait_ms
        times = [f"{value:,.1f}" for value in (waits.p50, waits.p99, waits.longest)]
        rate = f"{one.healthy_per_s:,.0f}"
        return [name, rate, *times, f"{one.poison:,}", f"{one.dead:,}"]

    head = ["load", "healthy jobs/s", "wait p50 ms", "p99 ms", "longest ms", "poison", "dead"]
    return Table("Healthy jobs", head, [row("healthy", clean), row("and poison", mixed)])


EXPERIMENT = Experiment(
    name="poison",
    page="e16-poison",
    promise="A job that always fails is dead after exactly `max_attempts`, and harms no other",
    full=Poison(),
    quick=Poison(rate=500, seconds=8.0, slack_ms=250.0),
    takes="3 min",
    run=run,
    plant="lenient",
)
