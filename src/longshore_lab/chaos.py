"""The chaos supervisor: store, disk, wire, clocks and processes, all hit by one seeded plan.

    python -m longshore_lab.chaos --minutes 3 --seed 7
    python -m longshore_lab.chaos --engine sqlite

starts a store and a fleet of its own: a producer that submits over HTTP, workers, a scheduler
and a relay; to a server every connection goes through a wire that misbehaves. It prints what
was done, the verdict of the same checkers that judge every trial, and one JSON line. Faults of
wire, disk and lock end before the lease does, so that the checkers need no exemption: no job
may run twice because of them. The plan is the same for the same seed; what the machine makes
of it is not. Exit code 1 if a promise was broken.
"""

import argparse
import asyncio
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from itertools import count
from pathlib import Path

import msgspec
from rich.console import Console

from longshore.engine import Engine
from longshore.engines import open_engine
from longshore.errors import EngineError
from longshore_lab import report
from longshore_lab.fleet import Fleet
from longshore_lab.kill import Blow, Runner
from longshore_lab.ledger import Ledger, now
from longshore_lab.relayed import arrivals, relayed
from longshore_lab.servers import free_port
from longshore_lab.skew import Skew, SkewedClock
from longshore_lab.strokes import ON_A_FILE, ON_A_SERVER, PROCESSES, Harm, Stroke, plan
from longshore_lab.trial import Trial
from longshore_lab.verdict import Verdict, judge
from longshore_lab.yards import Yard, open_yard

__all__ = ["HARMS", "Supervisor", "plan", "run"]

_SECOND = 1_000_000
_LEASE = 15.0
_LEAD = 3.0
_BATCH = 20
_WORKERS = 3
_QUIET = 120.0
_GLANCE = 0.2
_FARTHEST = 300
_FARTHEST_BACK = 10
HARMS = {"postgresql": ON_A_SERVER, "sqlite": ON_A_FILE}
"""What is done, by the kind of the store."""
_SERVICES = ("api", "relay")
"""Which leave when their store is gone as they start, for somebody to start them again."""


class Supervisor:
    """Carries out strokes, one after the other."""

    def __init__(
        self, runner: Runner, yard: Yard, clock: SkewedClock | None, console: Console
    ) -> None:
        self._runner = runner
        self._yard = yard
        self._clock = clock
        self._ahead = 0
        self._console = console
        self._began = now()
        self.done: Counter[str] = Counter()

    async def strike(self, stroke: Stroke, chores: asyncio.TaskGroup) -> None:
        """Wait, hit, and make whole again. What cannot be done here is not counted."""
        if stroke.harm in PROCESSES:
            role, kind = PROCESSES[stroke.harm]
            await self._runner.strike(Blow(stroke.after, role, kind, stroke.choice), chores)
            is_done = True
        else:
            await asyncio.sleep(stroke.after)
            is_done = await self._trouble(stroke)
        self.done[stroke.harm.name.lower()] += is_done
        words = stroke.harm if is_done else f"not possible here: {stroke.harm}"
        self._console.print(
            f"{(now() - self._began) / _SECOND:6.1f} s  {words}", highlight=False
        )

    async def _trouble(self, stroke: Stroke) -> bool:
        match stroke.harm:
            case Harm.SKEW:
                return self._set(round((stroke.choice - 0.5) * 2 * _FARTHEST))
            case Harm.SET_BACK:
                return self._set(self._ahead - 1 - round(stroke.choice * (_FARTHEST_BACK - 1)))
            case _:
                return await self._yard.trouble(stroke)

    def _set(self, seconds: int) -> bool:
        if self._clock is None:
            return False
        self._ahead = seconds
        self._clock.set(seconds)
        return True


async def run(
    strokes: Sequence[Stroke],
    folder: Path,
    console: Console,
    *,
    kind: str,
    seed: int,
    rate: float,
) -> tuple[Trial, Verdict, dict[str, int]]:
    """The whole trial on a store of its own; the verdict, and what was done."""
    skew = Skew.build(folder)
    clock = None if skew is None else skew.clock("fleet", seconds=0)
    seconds = sum(one.after + one.lasts for one in strokes) + _LEAD
    async with open_yard(kind, folder, minutes=seconds / 60) as yard:
        trial = _trial(yard, folder, seed=seed, rate=rate, seconds=seconds)
        engine = open_engine(yard.direct)
        book = Ledger(trial.ledgers, "runner", role="runner")
        try:
            await engine.migrate()
            async with Fleet(trial, book, clock, may_leave=_SERVICES) as fleet:
                runner = Runner(trial, fleet, engine)
                supervisor = Supervisor(runner, yard, clock, console)
                await _perform(supervisor, runner, fleet, engine, strokes)
                await fleet.dismiss(within=trial.drain_seconds + 10)
            verdict = await judge(trial, engine)
            shipped = arrivals(trial.topic)
            verdict.findings["relayed"] = await relayed(engine, shipped)
            told = {"no_room": yard.refusals, "sent_again": len(shipped) - len(set(shipped))}
            return trial, verdict, {**supervisor.done, **told}
        finally:
            book.close()
            await engine.close()


def _trial(yard: Yard, folder: Path, *, seed: int, rate: float, seconds: float) -> Trial:
    return Trial(
        url=yard.url,
        folder=str(folder),
        seed=seed,
        jobs=round(rate * seconds),
        batch=_BATCH,
        rate=rate,
        begins=now() + int(_LEAD * _SECOND),
        lease_seconds=_LEASE,
        # What runs past the lease would make a short trial a long one.
        long_share=0.0,
        has_keepers=True,
        door=free_port(),
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
    parser.add_argument("--json", action="store_true", help="only one JSON line")
    options = parser.parse_args(arguments)
    console = Console(stderr=options.json, quiet=options.json)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # there is a disk to put away
    kind = options.engine
    strokes = plan(options.seed, options.minutes * 60, of=HARMS[kind])
    with tempfile.TemporaryDirectory(prefix="longshore-chaos-") as name:
        trial, verdict, done = asyncio.run(
            run(strokes, Path(name), console, kind=kind, seed=options.seed, rate=options.rate)
        )
    report.show(console, trial, verdict)
    document = {"engine": kind, "seed": options.seed, "faults": done, **verdict.document()}
    print(msgspec.json.encode(document).decode())
    return 0 if verdict.holds else 1


if __name__ == "__main__":
    sys.exit(main())
