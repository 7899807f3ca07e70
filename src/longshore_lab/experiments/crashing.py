"""Jobs that kill their own process, or the whole worker, and the healthy ones beside them."""

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random

import msgspec

from longshore.contract import Engine
from longshore.core import codec
from longshore.core.job import Job, NewJob
from longshore.core.state import State
from longshore.engines import open_engine
from longshore.runtime.ids import IdSource
from longshore_lab import crash_app
from longshore_lab.crash_app import BEGAN, ENDED, HEALTHY, MOST_APART, MOST_BESIDE, WAYS
from longshore_lab.experiments.experiment import Config, Experiment, ExperimentError, Stage
from longshore_lab.experiments.findings import Findings, Promise, Table
from longshore_lab.staff import Staff, StaffError

__all__ = ["APART", "BESIDE", "EXPERIMENT", "Crashing", "End", "findings", "mixed", "waves"]

APART, BESIDE = "in a process of its own", "in its worker"
"""Where a job runs first."""

_APP = "longshore_lab.crash_app:app"
_GLANCE = 0.1
_PATIENCE = 240.0
_SECONDS = 0.2
"""How long a healthy job takes, at the most."""
_ids = IdSource()


class Crashing(Config, frozen=True, kw_only=True):
    """How many jobs of each kind, and how many workers."""

    poison: int = 300
    """Jobs that kill the process that they have for themselves."""
    healthy: int = 900
    """Jobs beside those."""
    waves: int = 24
    """Jobs that kill their worker, one after the other."""
    beside: int = 30
    """Healthy jobs around each of those."""
    workers: int = 2
    concurrency: int = 16
    lease_seconds: float = 5.0


class _Order(msgspec.Struct, frozen=True, kw_only=True):
    """One job before it runs."""

    n: int
    job: NewJob
    how: str = ""
    """How it kills; empty for a healthy one."""
    most: int = 0
    """How often it may."""


class End(msgspec.Struct, frozen=True, kw_only=True):
    """One job after it ended: what the queue says of it, and what its handler wrote."""

    where: str
    how: str
    most: int
    runs: int
    """Times that its handler began."""
    ends: int
    """Times that its handler came to its end."""
    is_poison: bool
    """It is dead, for the reason `poison`."""
    succeeded: bool
    failures: int
    crashes: int


def run(stage: Stage, config: Crashing) -> Findings:
    """First the jobs with a process of their own, then those that take their worker along."""
    rng = Random(config.seed)
    try:
        apart, _ = _part(stage, config, APART, [mixed(config, rng)])
        beside, deaths = _part(stage, config, BESIDE, waves(config, rng))
    except StaffError as error:
        raise ExperimentError(str(error)) from error
    return findings([*apart, *beside], deaths, config)


def mixed(config: Crashing, rng: Random) -> list[_Order]:
    """All of the first part, in an order that the seed decides."""
    bad = [
        _poison(n, "apart", rng.choice(WAYS), MOST_APART[n % len(MOST_APART)])
        for n in range(config.poison)
    ]
    orders = bad + _neighbours(config.poison, config.healthy, rng)
    rng.shuffle(orders)
    return orders


def waves(config: Crashing, rng: Random) -> list[list[_Order]]:
    """One killer each, somewhere among its neighbours."""
    found: list[list[_Order]] = []
    for wave in range(config.waves):
        first = wave * (config.beside + 1)
        most = MOST_BESIDE[wave % len(MOST_BESIDE)]
        orders = _neighbours(first + 1, config.beside, rng)
        killer = _poison(first, "beside", rng.choice(WAYS), most)
        # Not among the last: its neighbours should be at work when it begins.
        orders.insert(rng.randrange(len(orders) // 2 + 1), killer)
        found.append(orders)
    return found


def _poison(n: int, where: str, how: str, most: int) -> _Order:
    return _Order(n=n, job=_job(f"{where}.{most}", n=n, how=how), how=how, most=most)


def _neighbours(first: int, count: int, rng: Random) -> list[_Order]:
    return [
        _Order(
            n=n, job=_job(rng.choice(HEALTHY), n=n, seconds=round(rng.uniform(0, _SECONDS), 3))
        )
        for n in range(first, first + count)
    ]


def _job(type_name: str, **arguments: object) -> NewJob:
    # One failure is one too many: a crash is none, neither the guilty's nor a neighbour's.
    payload = codec.encode(arguments)
    return NewJob(id=_ids.make(), type=type_name, payload=payload, max_attempts=1)


def _part(
    stage: Stage, config: Crashing, where: str, waves: Sequence[Sequence[_Order]]
) -> tuple[list[End], int]:
    """How the jobs ended, and how many workers died of them."""
    folder = stage.folder / where.replace(" ", "-")
    folder.mkdir()
    slots, lease = f"{config.concurrency}", f"{config.lease_seconds:g}s"
    options = ("--concurrency", slots, "--lease", lease)
    with stage.store() as url, Staff(url, _APP, folder, *options) as staff:
        staff.hire(config.workers)
        ended, deaths = asyncio.run(_played(url, staff, waves, may_die=where == BESIDE))
        staff.dismiss()
    orders = [one for wave in waves for one in wave]
    stage.say(f"{where}: {len(orders):,} jobs, {deaths} workers died")
    return _ends(where, orders, ended, folder), deaths


async def _played(
    url: str, staff: Staff, waves: Sequence[Sequence[_Order]], *, may_die: bool
) -> tuple[list[Job], int]:
    engine, deaths = open_engine(url), 0
    try:
        for wave in waves:
            await engine.submit([one.job for one in wave])
            deadline = time.monotonic() + _PATIENCE
            while await _live(engine) and time.monotonic() < deadline:
                deaths += staff.mend() if may_die else 0
                staff.check()
                await asyncio.sleep(_GLANCE)
            # The other worker may have done it all before this one was missed.
            deaths += staff.mend() if may_die else 0
        return [await engine.get(one.job.id) for wave in waves for one in wave], deaths
    finally:
        await engine.close()


async def _live(engine: Engine) -> int:
    return sum(one.ready + one.scheduled + one.running for one in await engine.counts())


def _ends(where: str, orders: Sequence[_Order], jobs: Sequence[Job], folder: Path) -> list[End]:
    began, ended = crash_app.read(folder, BEGAN), crash_app.read(folder, ENDED)
    return [
        End(
            where=where,
            how=one.how,
            most=one.most,
            runs=began[one.n],
            ends=ended[one.n],
            is_poison=job.state is State.DEAD and job.reason == "poison",
            succeeded=job.state is State.SUCCEEDED,
            failures=job.failures,
            crashes=job.crashes,
        )
        for one, job in zip(orders, jobs, strict=True)
    ]


def findings(ends: Sequence[End], deaths: int, config: Crashing) -> Findings:
    """What queue and handlers say of the guilty and of the innocent."""
    bad, good = [one for one in ends if one.how], [one for one in ends if not one.how]
    right = sum(one.is_poison and one.runs == one.most for one in bad)
    harmed = sum(not one.succeeded or one.failures > 0 for one in good)
    return Findings(
        headline=(
            f"{right:,} of {len(bad):,} jobs that kill their process dead as `poison` after"
            f" exactly `max_crashes` runs; {harmed} of {len(good):,} neighbours dead or charged"
            f" a failure, over {deaths} dead workers"
        ),
        promises=[*_of_the_guilty(bad), *_of_the_innocent(good), _breadth(deaths, config)],
        results={
            "poison": len(bad),
            "right": right,
            "healthy": len(good),
            "harmed": harmed,
            "crashes_of_healthy": sum(one.crashes for one in good),
            "workers_died": deaths,
        },
        tables=[_guilty(bad), _innocent(good)],
    )


def _of_the_guilty(bad: Sequence[End]) -> list[Promise]:
    wrong = [one for one in bad if one.runs != one.most]
    dead = sum(one.is_poison for one in bad)
    return [
        Promise(
            "every job that kills its process is dead, for the reason `poison`",
            f"{dead:,} of {len(bad):,}",
            dead == len(bad),
        ),
        Promise(
            "it ran exactly `max_crashes` times, by the handlers' own book",
            f"{len(wrong)} did not"
            + "".join(f"; {one.runs} for {one.most}" for one in wrong[:3]),
            not wrong,
        ),
        Promise(
            "it is charged no failure",
            f"{sum(one.failures for one in bad)}",
            not any(one.failures for one in bad),
        ),
    ]


def _of_the_innocent(good: Sequence[End]) -> list[Promise]:
    undone = sum(not one.succeeded or not one.ends for one in good)
    apart = [one for one in good if one.where == APART]
    return [
        Promise(
            "every healthy job succeeds, and its handler came to its end",
            f"{undone} of {len(good):,} did not",
            undone == 0,
        ),
        Promise(
            "no healthy job is charged a failure",
            f"{sum(one.failures for one in good)}",
            not any(one.failures for one in good),
        ),
        Promise(
            "beside jobs with a process of their own none even runs twice",
            f"{sum(one.runs for one in apart):,} runs of {len(apart):,}",
            all(one.runs == 1 and not one.crashes for one in apart),
        ),
    ]


def _breadth(deaths: int, config: Crashing) -> Promise:
    # The last run of each is in a process of its own, and takes no worker along.
    due = sum(MOST_BESIDE[wave % len(MOST_BESIDE)] - 1 for wave in range(config.waves))
    return Promise(
        "every run but the last took its worker along (or this shows nothing)",
        f"{deaths} workers died of {due} runs",
        deaths == due,
    )


def _guilty(bad: Sequence[End]) -> Table:
    kinds = sorted({(one.where, one.how, one.most) for one in bad})
    rows = [
        [
            *(where, how, str(most)),
            f"{len(those)}",
            ", ".join(map(str, sorted({one.runs for one in those}))),
            f"{sum(one.is_poison for one in those)}",
        ]
        for where, how, most in kinds
        if (
            those := [
                one for one in bad if (one.where, one.how, one.most) == (where, how, most)
            ]
        )
    ]
    head = ["where it runs first", "how", "`max_crashes`", "jobs", "runs of each", "poison"]
    return Table("Jobs that kill their process", head, rows)


def _innocent(good: Sequence[End]) -> Table:
    rows = [
        [
            f"beside those {where}",
            f"{len(those):,}",
            f"{sum(one.succeeded for one in those):,}",
            f"{sum(one.failures for one in those):,}",
            f"{sum(one.runs for one in those):,}",
            f"{sum(one.crashes for one in those):,}",
        ]
        for where in (APART, BESIDE)
        if (those := [one for one in good if one.where == where])
    ]
    head = ["healthy jobs", "jobs", "succeeded", "failures", "runs", "crashes"]
    return Table("Their neighbours", head, rows)


EXPERIMENT = Experiment(
    name="crashing",
    page="e26-crashing",
    promise="A job that kills its worker ends, and alone",
    full=Crashing(),
    quick=Crashing(poison=30, healthy=60, waves=3, beside=16),
    takes="4 min",
    run=run,
    plant="uncounted",
)
