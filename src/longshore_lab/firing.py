"""The firing trial: schedulers are killed and stopped, and every due time is counted.

    python -m longshore_lab.firing --url postgresql://localhost/trial --due 1000 --every 3

Three schedulers share one store. Every few seconds one of them is killed, or stopped for
longer than any hiccup and then let go on. A worker that nobody harms writes into a ledger
outside the queue which due time each job ran for. The due times that there should be are
counted by plain arithmetic. Prints one JSON line, and exits with 1 if a due time was missed,
had two jobs, or was none, or if a job is in two places of PostgreSQL's tables or in none.
"""

import argparse
import asyncio
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from random import Random

import msgspec
from msgspec.structs import replace

from longshore.contract import Engine
from longshore.core.schedule import CatchUp, Schedule, declared
from longshore.engines import open_engine
from longshore.records import schedules
from longshore_lab import ledger
from longshore_lab.clerk import TYPE
from longshore_lab.fleet import Fleet
from longshore_lab.kill import Blow, Runner
from longshore_lab.ledger import Ledger
from longshore_lab.misfire import PLANTS
from longshore_lab.places import count_misplaced
from longshore_lab.records import DueRan, Fault, FaultKind
from longshore_lab.trial import Trial

__all__ = ["Beaten", "FiringVerdict", "beaten", "blows_for", "judge", "run"]

_SECOND = 1_000_000
_POLL = 0.1
_EXAMPLES = 5
_DRAIN = 30.0
_ALL = Schedule(name="", type=TYPE, catch_up=CatchUp.ALL, catch_up_limit=1_000)


@dataclass(frozen=True, slots=True)
class Beaten:
    """A schedule, and the beat that its due times keep, written down apart from it."""

    schedule: Schedule
    step: int
    anchor: int = 0

    def due_times(self, after: int, before: int) -> range:
        """Every due time between the two moments, without both of them."""
        first = after - (after - self.anchor) % self.step + self.step
        return range(first, before, self.step)


def beaten(tenths: int, *, catch_up: Sequence[CatchUp] = (CatchUp.ALL,)) -> list[Beaten]:
    """So many schedules with ten due times a second, and six with one in one to three.

    The slower ones take turns with the policies; the fast ones catch everything up.
    """
    fast = [
        Beaten(
            replace(_ALL, name=f"tenth-{n}", every=_SECOND // 10, anchor=n * 17_000),
            _SECOND // 10,
            n * 17_000,
        )
        for n in range(tenths)
    ]
    slow = [
        Beaten(replace(_ALL, name=f"{zone} {n}s", cron=cron, timezone=zone), n * _SECOND)
        for n, cron in ((1, "* * * * * *"), (2, "*/2 * * * * *"), (3, "*/3 * * * * *"))
        for zone in ("UTC", "Europe/Berlin")
    ]
    policies = (catch_up[n % len(catch_up)] for n in range(len(slow)))
    return fast + [
        Beaten(replace(one.schedule, catch_up=policy), one.step)
        for one, policy in zip(slow, policies, strict=True)
    ]


@dataclass(slots=True)
class FiringVerdict:
    """What the ledger says of the due times that there should have been."""

    due: int = 0
    """How many there were."""
    due_of: dict[str, int] = field(default_factory=dict[str, int])
    """How many of them each schedule had."""
    missed: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    doubled: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    """More than one job ran for them."""
    strange: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    """Jobs ran for them, and they are no due times."""
    misplaced: int | None = None
    """Jobs that are not in exactly one place of PostgreSQL's tables; None elsewhere."""
    kills: int = 0
    stops: int = 0
    late_ms: dict[str, float] = field(default_factory=dict[str, float])
    """From the due time to the run: median, 99th of a hundred, and the longest."""

    @property
    def holds(self) -> bool:
        """Each due time had one job, and each job has one place."""
        wrong = self.missed or self.doubled or self.strange or self.misplaced
        return self.due > 0 and not wrong

    def document(self) -> dict[str, object]:
        """The figures, with a few examples of what went wrong."""
        return {
            "due": self.due,
            "due_of": self.due_of,
            "missed": len(self.missed),
            "doubled": len(self.doubled),
            "strange": len(self.strange),
            "misplaced": self.misplaced,
            "kills": self.kills,
            "stops": self.stops,
            "late_ms": self.late_ms,
            "examples": [*self.missed, *self.doubled, *self.strange][:_EXAMPLES],
        }


def judge(
    expected: set[tuple[str, int]], ran: Iterable[DueRan], *, engine_ahead: int = 0
) -> FiringVerdict:
    """Compare the due times that there should be with those that jobs ran for."""
    jobs: defaultdict[tuple[str, int], set[str]] = defaultdict(set)
    late: list[int] = []
    for line in ran:
        jobs[line.schedule, line.due].add(line.job)
        late.append(line.at + engine_ahead - line.due)
    late.sort()
    return FiringVerdict(
        due=len(expected),
        due_of=dict(Counter(name for name, _ in sorted(expected))),
        missed=sorted(expected - jobs.keys()),
        doubled=sorted(due for due, those in jobs.items() if len(those) > 1),
        strange=sorted(jobs.keys() - expected),
        late_ms={
            name: round(late[int(share * (len(late) - 1))] / 1_000, 1)
            for name, share in (("p50", 0.5), ("p99", 0.99), ("max", 1.0))
            if late
        },
    )


def blows_for(seed: int, count: int, *, every: float) -> list[Blow]:
    """Kill one scheduler, stop one, and so on, `every` seconds apart on average."""
    rng = Random(seed)
    kinds = (FaultKind.KILL, FaultKind.STOP)
    return [
        Blow(every * (0.5 + rng.random()), "scheduler", kinds[n % 2], rng.random())
        for n in range(count)
    ]


async def run(
    trial: Trial, beats: Sequence[Beaten], blows: Sequence[Blow], *, within: float
) -> FiringVerdict:
    """Declare the schedules, let the blows fall, and wait until all is caught up and run."""
    engine = open_engine(trial.url)
    book = Ledger(trial.ledgers, "runner", role="runner")
    try:
        await engine.migrate()
        async with Fleet(trial, book) as fleet, asyncio.timeout(within):
            await _man(trial, fleet)
            begun = await engine.now()
            ahead = begun - ledger.now()
            for one in beats:
                await schedules.put(engine, declared(one.schedule, now=begun))
            await _suffer(Runner(trial, fleet, engine), fleet, engine, blows)
        ends = {one.name: one.next_due or 0 for one in await schedules.every(engine)}
    finally:
        book.close()
        await engine.close()
    expected = {
        (one.schedule.name, due)
        for one in beats
        for due in one.due_times(begun, ends[one.schedule.name])
    }
    pages = ledger.read(trial.ledgers, of="clerk-*")
    ran = [entry.record for entry in pages.entries if isinstance(entry.record, DueRan)]
    verdict = judge(expected, ran, engine_ahead=ahead)
    verdict.kills, verdict.stops = _fallen(trial)
    verdict.misplaced = await count_misplaced(trial.url)
    return verdict


def _fallen(trial: Trial) -> tuple[int, int]:
    """How many schedulers were killed and stopped, whatever was planned."""
    entries = ledger.read(trial.ledgers, of="runner").entries
    kinds = Counter(one.record.kind for one in entries if isinstance(one.record, Fault))
    return kinds[FaultKind.KILL], kinds[FaultKind.STOP]


async def _man(trial: Trial, fleet: Fleet) -> None:
    for role in ("clerk", "scheduler", "scheduler", "scheduler"):
        await fleet.start(role)
    # A process that is hit before it does anything proves nothing.
    while not all((trial.ledgers / f"{one.name}.jsonl").exists() for one in fleet.actors):
        fleet.check()
        await asyncio.sleep(_POLL)


async def _suffer(runner: Runner, fleet: Fleet, engine: Engine, blows: Sequence[Blow]) -> None:
    async with asyncio.TaskGroup() as chores:
        for blow in blows:
            await runner.strike(blow, chores)
    await _caught_up(fleet, engine, await engine.now())
    for actor in fleet.alive("scheduler"):
        fleet.do(FaultKind.TERMINATE, actor)
        await fleet.ended(actor, within=_DRAIN)
    while await runner.live_jobs():
        fleet.check()
        await asyncio.sleep(_POLL)
    await fleet.dismiss(within=_DRAIN)


async def _caught_up(fleet: Fleet, engine: Engine, moment: int) -> None:
    while any((one.next_due or moment) <= moment for one in await schedules.every(engine)):
        fleet.check()
        await asyncio.sleep(_POLL)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one trial and print its figures as one JSON line."""
    parser = argparse.ArgumentParser(prog="longshore_lab.firing", description=__doc__)
    parser.add_argument("--url", help="the store; by default a SQLite file that is thrown away")
    parser.add_argument("--due", type=int, default=1_000, help="at least so many due times")
    parser.add_argument("--every", type=float, default=3.0, help="seconds between two faults")
    parser.add_argument("--pause", type=float, default=7.0, help="seconds that a stop lasts")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--break", dest="sabotage", choices=PLANTS)
    options = parser.parse_args(arguments)
    beats = beaten(2, catch_up=tuple(CatchUp))
    rate = sum(_SECOND / one.step for one in beats)
    blows = blows_for(
        options.seed, int(options.due / rate / options.every) + 2, every=options.every
    )
    with tempfile.TemporaryDirectory(prefix="longshore-firing-") as folder:
        trial = Trial(
            url=options.url or f"sqlite:///{folder}/jobs.db",
            folder=folder,
            lease_seconds=options.pause / 2,
            sabotage=options.sabotage,
        )
        seconds = 2 * options.due / rate + 120
        verdict = asyncio.run(run(trial, beats, blows, within=seconds))
    print(msgspec.json.encode({"seed": options.seed, **verdict.document()}).decode())
    return 0 if verdict.holds else 1


if __name__ == "__main__":
    sys.exit(main())
