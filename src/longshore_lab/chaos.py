"""The chaos supervisor: store, disk, wire, clocks and processes, all hit by one seeded plan.

    python -m longshore_lab.chaos --minutes 3 --seed 7
    python -m longshore_lab.chaos --engine sqlite

starts a store and a fleet of its own: a producer that submits over HTTP, workers, a scheduler
and a relay; to a server every connection goes through a wire that misbehaves. It prints what
was done, the verdict of the same checkers that judge every trial, and one JSON line. Jobs
arrive until the last fault was done. Faults of wire, disk and lock end before the lease does,
so that the checkers need no exemption: no job may run twice because of them. The plan is the
same for the same seed; what the machine makes of it is not. Exit code 1 if a promise was
broken.
"""

import argparse
import asyncio
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console

from longshore.contract import Engine
from longshore.engines import open_engine
from longshore.errors import EngineError
from longshore_lab import report
from longshore_lab.aftermath import Hit, idle, look_back, slow, untold
from longshore_lab.fleet import Fleet
from longshore_lab.kill import Blow, Runner
from longshore_lab.ledger import Ledger, now
from longshore_lab.relayed import arrivals, relayed
from longshore_lab.sabotage import PLANTS
from longshore_lab.servers import free_port
from longshore_lab.skew import Clocks, MachinesClock, Skew
from longshore_lab.strokes import ON_A_FILE, ON_A_SERVER, PROCESSES, Harm, Span, Stroke, plan
from longshore_lab.trial import Trial
from longshore_lab.verdict import Verdict, collect, decide, misplaced
from longshore_lab.yards import Yard, open_yard

__all__ = ["HARMS", "Load", "Supervisor", "plan", "run"]

_SECOND = 1_000_000
_LEASE = 15.0
_LEAD = 3.0
_BATCH = 20
_WORKERS = 3
_QUIET = 120.0
_GLANCE = 0.2
_FARTHEST = {"postgresql": 300, "sqlite": 0}
"""Seconds by which clocks may disagree: those of a file's processes are one machine's."""
_FARTHEST_BACK = 10
_AFTER = 5.0
"""Seconds for which jobs arrive after the last fault."""
_OVERRUN = 4
"""The load would last for so many times the plan, if nobody ended it."""
_LONG_SHARE = 0.002
"""Of the jobs run past the lease; about eight at a time at 200 jobs a second."""
_HANDFUL = 1
"""At a load far below what they can do, workers hold a few jobs at a time."""
HARMS = {"postgresql": ON_A_SERVER, "sqlite": ON_A_FILE}
"""What is done, by the kind of the store."""
_SERVICES = ("api", "relay")
"""Which leave when their store is gone as they start, for somebody to start them again."""


@dataclass(frozen=True, slots=True)
class Load:
    """What arrives meanwhile."""

    seed: int
    rate: float
    """Jobs a second."""
    sabotage: str | None = None
    """A fault of `sabotage` that has to be found."""


class Supervisor:
    """Carries out strokes, one after the other."""

    def __init__(
        self, runner: Runner, yard: Yard, clocks: Clocks | None, console: Console
    ) -> None:
        self._runner = runner
        self._yard = yard
        self._clocks = clocks
        self._console = console
        self._began = now()
        self.hits: list[Hit] = []

    @property
    def done(self) -> Counter[str]:
        """How often each kind of fault was done."""
        return Counter(hit.harm.name.lower() for hit in self.hits)

    async def strike(self, stroke: Stroke, chores: asyncio.TaskGroup) -> None:
        """Wait, hit, and make whole again. What cannot be done here is not counted."""
        if stroke.harm in PROCESSES:
            span = await self._signal(stroke, chores)
        else:
            await asyncio.sleep(stroke.after)
            span = await self._trouble(stroke)
        if span is not None:
            self.hits.append(Hit(stroke.harm, span))
        words = stroke.harm if span else f"not done, for there is nothing to hit: {stroke.harm}"
        self._console.print(
            f"{(now() - self._began) / _SECOND:6.1f} s  {words}", highlight=False
        )

    async def _signal(self, stroke: Stroke, chores: asyncio.TaskGroup) -> Span | None:
        role, kind = PROCESSES[stroke.harm]
        blow = Blow(stroke.after, role, kind, stroke.choice)
        return _at_once() if await self._runner.strike(blow, chores) else None

    async def _trouble(self, stroke: Stroke) -> Span | None:
        if stroke.harm not in (Harm.SKEW, Harm.SET_BACK):
            return await self._yard.trouble(stroke)
        if self._clocks is None:
            return None
        if stroke.harm is Harm.SKEW:
            self._clocks.scatter()
        else:
            self._clocks.set_back(1 + round(stroke.choice * (_FARTHEST_BACK - 1)))
        return _at_once()


def _at_once() -> Span:
    at = now()
    return Span(at, at)


async def run(
    strokes: Sequence[Stroke],
    folder: Path,
    console: Console,
    *,
    kind: str,
    load: Load,
) -> tuple[Trial, Verdict, dict[str, Any]]:
    """The whole trial on a store of its own; the verdict, what was done, what came of it."""
    skew = Skew.build(folder)
    clocks = None if skew is None else Clocks(skew, load.seed, spread=_FARTHEST[kind])
    seconds = sum(one.after + one.lasts for one in strokes) + _LEAD
    async with open_yard(kind, folder, minutes=seconds / 60) as yard:
        trial = _trial(yard, folder, load=load, seconds=seconds)
        engine = open_engine(yard.direct, clock=_onlookers(kind, clocks))
        book = Ledger(trial.ledgers, "runner", role="runner")
        try:
            await engine.migrate()
            clock_of = None if clocks is None else clocks.of
            async with Fleet(trial, book, clock_of=clock_of, may_leave=_SERVICES) as fleet:
                runner = Runner(trial, fleet, engine, handful=_HANDFUL)
                supervisor = Supervisor(runner, yard, clocks, console)
                await _perform(supervisor, runner, fleet, engine, strokes)
                await fleet.dismiss(within=trial.drain_seconds + 10)
            verdict, told = await _judge(trial, engine, supervisor)
            return trial, verdict, {"no_room": yard.refusals, **told}
        finally:
            book.close()
            await engine.close()


def _onlookers(kind: str, clocks: Clocks | None) -> MachinesClock | None:
    """A server has a clock of its own; with a file all go by that of their machine."""
    return MachinesClock(clocks) if kind == "sqlite" and clocks is not None else None


async def _judge(
    trial: Trial, engine: Engine, supervisor: Supervisor
) -> tuple[Verdict, dict[str, Any]]:
    """By the checkers of every trial, and by those of what was done."""
    case = await collect(trial, engine)
    verdict, hits, history = decide(trial, case), supervisor.hits, case.history
    shipped = arrivals(trial.topic)
    findings = [
        await relayed(engine, shipped),
        untold(supervisor.done, verdict.figures),
        idle(hits, history),
        slow(hits, history),
    ]
    if trial.url.startswith("postgresql"):
        findings.append(await misplaced(trial.url))
    verdict.findings.update({one.name: one for one in findings})
    aftermath = asdict(look_back(hits, history))
    again = len(shipped) - len(set(shipped))
    return verdict, {"faults": supervisor.done, **aftermath, "sent_again": again}


def _trial(yard: Yard, folder: Path, *, load: Load, seconds: float) -> Trial:
    return Trial(
        url=yard.url,
        folder=str(folder),
        seed=load.seed,
        # The end of the load is said when the last fault was done, however late that is.
        jobs=round(load.rate * seconds * _OVERRUN),
        batch=_BATCH,
        rate=load.rate,
        begins=now() + int(_LEAD * _SECOND),
        lease_seconds=_LEASE,
        long_share=_LONG_SHARE,
        has_keepers=True,
        door=free_port(),
        sabotage=load.sabotage,
    )


async def _perform(
    supervisor: Supervisor,
    runner: Runner,
    fleet: Fleet,
    engine: Engine,
    strokes: Sequence[Stroke],
) -> None:
    for role in _SERVICES:
        await fleet.start(role)
    await runner.man(workers=_WORKERS, schedulers=1)
    attending = asyncio.create_task(_attend(fleet))
    try:
        async with asyncio.TaskGroup() as chores:
            for stroke in strokes:
                await supervisor.strike(stroke, chores)
            await asyncio.sleep(_AFTER)
            runner.end_load()
        await runner.quiesce(within=_QUIET)
        await _shipped(engine, within=_QUIET)
    finally:
        attending.cancel()


async def _attend(fleet: Fleet) -> None:
    """Start services again that have left by themselves, as whoever runs them would."""
    for _ in count():
        await asyncio.sleep(_GLANCE)
        await fleet.attend()


async def _shipped(engine: Engine, *, within: float) -> None:
    """Return when the relay has nothing left to ship, or takes too long."""
    try:
        async with asyncio.timeout(within):
            for _ in count():
                try:
                    if all(not one.behind for one in await engine.consumers()):
                        return
                except EngineError:
                    pass  # it will answer the next time
                await asyncio.sleep(_GLANCE)
    except TimeoutError:
        return  # whatever is missing is found by its checker


def main(arguments: Sequence[str] | None = None) -> int:
    """One trial; exit code 1 if a promise was broken."""
    parser = argparse.ArgumentParser(
        prog="python -m longshore_lab.chaos",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--engine", choices=HARMS, default="postgresql")
    parser.add_argument("--minutes", type=float, default=2.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rate", type=float, default=200.0, help="jobs per second")
    parser.add_argument("--plant", choices=PLANTS, help="a fault that has to be found")
    parser.add_argument("--json", action="store_true", help="only one JSON line")
    options = parser.parse_args(arguments)
    console = Console(stderr=options.json, quiet=options.json)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # there is a disk to put away
    kind = options.engine
    load = Load(options.seed, options.rate, options.plant)
    strokes = plan(options.seed, options.minutes * 60, of=HARMS[kind])
    with tempfile.TemporaryDirectory(prefix="longshore-chaos-") as name:
        trial, verdict, told = asyncio.run(
            run(strokes, Path(name), console, kind=kind, load=load)
        )
    report.show(console, trial, verdict)
    document = {"engine": kind, "seed": options.seed, **told, **verdict.document()}
    print(msgspec.json.encode(document).decode())
    return 0 if verdict.holds else 1


if __name__ == "__main__":
    sys.exit(main())
