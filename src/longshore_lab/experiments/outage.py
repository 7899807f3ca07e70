"""Experiment 5: a dependency fails for a while, and everything that failed comes back."""

import asyncio
import math
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from statistics import fmean

from longshore import Longshore, current_job
from longshore.contract import Engine
from longshore.core import codec
from longshore.core.job import NewJob
from longshore.core.view import QueueCounts
from longshore.engines import open_engine
from longshore.runtime.ids import IdSource
from longshore_lab.effects import Effects
from longshore_lab.experiments import evidence
from longshore_lab.experiments.crew import Crew, say, told_to_stop
from longshore_lab.experiments.experiment import Config, Experiment, ExperimentError, Stage
from longshore_lab.experiments.findings import Drawing, Findings, Line, Promise

__all__ = ["EXPERIMENT", "work"]

_EVERY = 0.05
_BURST = 2_000
_START = 3.0
"""Seconds from now to the beginning, in which the worker starts."""
_PATIENCE = 600.0
_HERD = 2.2
"""Starts in any second after the outage, over the normal ones: twice, and a tenth for luck."""
_ids = IdSource()

Series = Sequence[tuple[int, int, int]]
"""Second, first tries, retries."""


class Outage(Config, frozen=True, kw_only=True):
    """How many jobs meet it."""

    normal: int = 1_000
    """Jobs that arrive a second, before, during and after it."""
    burst: int = 20_000
    """Jobs more that arrive as it begins."""
    warm_seconds: float = 15.0
    outage_seconds: float = 60.0
    max_attempts: int = 25
    slots: int = 64
    """Of each worker."""
    workers: int = 1
    """Processes."""


def run(stage: Stage, config: Outage) -> Findings:
    """Produce here, run in other processes, and count starts by second."""
    with (
        stage.store(is_searched=True) as url,
        stage.sampled(url) as sampler,
        ExitStack() as stack,
    ):
        down = time.perf_counter() + _START + config.warm_seconds
        path = stage.folder / "succeeded"
        asked = {"slots": config.slots, "down": down, "up": down + config.outage_seconds}
        crews = [
            stack.enter_context(Crew("worker", work, url=url, path=str(path), **asked))
            for _ in range(config.workers)
        ]
        for crew in crews:
            crew.told()
        sent, counts, over = asyncio.run(_produce(url, config, down))
        series = _together([crew.stop() for crew in crews])
    right = _right(path, sent)
    peak, normal, most_tries = _judged(config, series)
    herd = peak / max(normal, 1.0)
    return Findings(
        headline=(
            f"after {config.outage_seconds:g} s without its dependency, the busiest second has"
            f" {herd:.1f} times the normal starts; {counts.dead} of {sent:,} jobs dead"
        ),
        promises=[
            Promise(
                "no job is dead too early, and none is lost",
                f"{counts.succeeded:,} of {sent:,} succeeded, {right:,} of them exactly once by"
                f" a ledger of their own; {counts.dead} dead",
                counts.succeeded == sent == right and counts.dead == 0,
            ),
            Promise(
                "retries do not come back as a herd: at most about twice the normal starts",
                f"{peak:,} in the busiest second, normally {normal:,.0f}",
                herd <= _HERD,
                is_speed=True,
            ),
            Promise("jobs were retried", f"{most_tries:,} retries", most_tries > 0),
            *stage.placed(),
        ],
        results={
            "submitted": sent,
            "succeeded": counts.succeeded,
            "succeeded_once": right,
            "dead": counts.dead,
            "normal_per_s": round(normal, 1),
            "peak_per_s": peak,
            "retries": most_tries,
            "all_done_after_s": round(over - config.outage_seconds, 1),
            "starts": series,
        },
        drawings=[_drawing(config, series, normal)],
        bounds=evidence.bound(sampler.samples),
        series=evidence.series(sampler.samples),
    )


async def work(url: str, path: str, *, slots: int, down: float, up: float) -> Series:
    """Run jobs, which fail from `down` to `up`; when they started."""
    app, world = Longshore(url), Effects(Path(path))
    started: Counter[tuple[int, bool]] = Counter()

    @app.task(name="ask")
    async def ask(seq: int) -> None:
        now = time.perf_counter()
        started[math.floor(now - down), current_job().attempt > 1] += 1
        if down <= now < up:
            raise ConnectionError("the dependency is down")
        world.apply(seq)

    async with app:
        working = asyncio.create_task(app.work(queues=["default"], concurrency=slots))
        say("ready")
        await told_to_stop()
        working.cancel()
        await asyncio.wait([working])
    seconds = sorted({at for at, _ in started})
    return [(at, started[at, False], started[at, True]) for at in seconds]


def _together(series: Sequence[Series]) -> Series:
    """The starts of all workers, second by second."""
    first: Counter[int] = Counter()
    again: Counter[int] = Counter()
    for at, tries, retries in chain.from_iterable(series):
        first[at] += tries
        again[at] += retries
    seconds = range(min(first), max(first) + 1)
    return [(at, first[at], again[at]) for at in seconds]


async def _produce(url: str, config: Outage, down: float) -> tuple[int, QueueCounts, float]:
    """Submit until all that ever failed has succeeded: how many, and what became of them."""
    engine = open_engine(url)
    few = max(int(config.normal * _EVERY), 1)
    begin, sent, more = time.perf_counter(), 0, 0
    up = down + config.outage_seconds
    looked = up
    try:
        while True:
            await engine.submit(_jobs(sent + more, few, config))
            sent += few
            now = time.perf_counter()
            if now >= down and config.burst and not more:
                more = await _burst(engine, sent, config)
            if now > looked + 1:
                looked = now
                (one,) = await engine.counts()
                if not one.scheduled and one.ready + one.running < config.normal:
                    return sent + more, await _last(engine), now - down
                if now - begin > _PATIENCE:
                    raise ExperimentError(f"{one.scheduled} retries are left")
            await asyncio.sleep(max(begin + sent / config.normal - time.perf_counter(), 0.0))
    finally:
        await engine.close()


async def _burst(engine: Engine, sent: int, config: Outage) -> int:
    for more in range(0, config.burst, _BURST):
        await engine.submit(_jobs(sent + more, _BURST, config))
    return -(-config.burst // _BURST) * _BURST


async def _last(engine: Engine) -> QueueCounts:
    """The counts when nothing is left to do."""
    while True:
        (one,) = await engine.counts()
        if not one.scheduled + one.ready + one.running:
            return one
        await asyncio.sleep(0.1)


def _jobs(first: int, count: int, config: Outage) -> list[NewJob]:
    return [
        NewJob(
            id=_ids.make(),
            type="ask",
            payload=codec.encode({"seq": seq}),
            max_attempts=config.max_attempts,
        )
        for seq in range(first, first + count)
    ]


def _right(path: Path, sent: int) -> int:
    """Jobs that succeeded exactly once, by the ledger that the handlers write."""
    world = Effects(path)
    try:
        return sum(world.cell(seq).applied == 1 for seq in range(sent))
    finally:
        world.close()


def _judged(config: Outage, series: Series) -> tuple[int, float, int]:
    """The busiest second after it, the normal one before it, and all retries."""
    before = [first for at, first, _ in series if -config.warm_seconds / 2 <= at < -1]
    after = [first + again for at, first, again in series if at > config.outage_seconds]
    return max(after, default=0), fmean(before or [0]), sum(again for *_, again in series)


def _drawing(config: Outage, series: Series, normal: float) -> Drawing:
    return Drawing(
        title="Starts a second; red: the dependency is down; dashed: twice the normal",
        x="seconds after it went down",
        band=(0.0, config.outage_seconds),
        level=2 * normal,
        lines=[
            Line(
                name="first tries",
                is_bars=True,
                points=[(float(at), float(first)) for at, first, _ in series],
            ),
            Line(
                name="retries",
                is_bars=True,
                points=[(float(at), float(again)) for at, _, again in series],
            ),
        ],
    )


EXPERIMENT = Experiment(
    name="outage",
    page="e15-outage",
    promise="Jobs that fail together come back spread out, and none is dead too early",
    full=Outage(),
    quick=Outage(normal=500, burst=2_000, warm_seconds=8.0, outage_seconds=10.0),
    takes="5 min",
    run=run,
    plant="impatient",
)
