"""The chaos supervisor: PostgreSQL, its wire, clocks and processes, all hit by one seeded plan.

    python -m longshore_lab.chaos --minutes 3 --seed 7

starts a server and a fleet of its own, with every connection through a wire that misbehaves,
and prints what was done, the verdict of the same checkers that judge every trial, and one JSON
line. Faults of the wire end before the lease does, so that the checkers need no exemption: no
job may run twice because of them. The plan is the same for the same seed; what the machine
makes of it is not. Exit code 1 if a promise was broken.
"""

import argparse
import asyncio
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from random import Random
from urllib.parse import urlsplit

import asyncpg
import msgspec
from rich.console import Console

from longshore.engines import open_engine
from longshore_lab import report
from longshore_lab.fleet import Fleet
from longshore_lab.kill import Blow, Runner
from longshore_lab.ledger import Ledger, now
from longshore_lab.records import FaultKind
from longshore_lab.servers import PostgresServer
from longshore_lab.skew import Skew, SkewedClock
from longshore_lab.trial import Trial
from longshore_lab.verdict import Verdict, judge
from longshore_lab.wires import Wire

__all__ = ["Harm", "Stroke", "Supervisor", "plan"]

_SECOND = 1_000_000
_LEASE = 15.0
_LEAD = 3.0
_BATCH = 20
_WORKERS = 3
_QUIET = 120.0
_LONGEST = 4.0
"""Seconds a fault of the wire lasts at most: well within the lease."""


class Harm(StrEnum):
    """What the supervisor does."""

    KILL_WORKER = "kill -9 a worker"
    STOP_WORKER = "SIGSTOP a worker for two leases"
    TERMINATE_WORKER = "SIGTERM a worker"
    KILL_PRODUCER = "kill -9 the producer"
    KILL_SCHEDULER = "kill -9 a scheduler"
    CRASH = "crash the server (pg_ctl stop -m immediate) and start it"
    TERMINATE_BACKENDS = "pg_terminate_backend every connection"
    DELAY = "delay every packet by 50–200 ms"
    RESET = "reset every connection"
    REFUSE = "reset connections, old and new"
    BLACKHOLE = "let nothing through"
    HALF_OPEN = "close the server's side only"
    LOSE_ANSWERS = "carry out what is asked, and lose the answer"
    SKEW = "set the clocks of all processes by up to five minutes"


_WEIGHTS: dict[Harm, int] = {
    Harm.KILL_WORKER: 4,
    Harm.STOP_WORKER: 2,
    Harm.TERMINATE_WORKER: 2,
    Harm.KILL_PRODUCER: 1,
    Harm.KILL_SCHEDULER: 1,
    Harm.CRASH: 2,
    Harm.TERMINATE_BACKENDS: 2,
    Harm.DELAY: 3,
    Harm.RESET: 3,
    Harm.REFUSE: 2,
    Harm.BLACKHOLE: 3,
    Harm.HALF_OPEN: 2,
    Harm.LOSE_ANSWERS: 3,
    Harm.SKEW: 2,
}
_PROCESSES = {
    Harm.KILL_WORKER: ("worker", FaultKind.KILL),
    Harm.STOP_WORKER: ("worker", FaultKind.STOP),
    Harm.TERMINATE_WORKER: ("worker", FaultKind.TERMINATE),
    Harm.KILL_PRODUCER: ("producer", FaultKind.KILL),
    Harm.KILL_SCHEDULER: ("scheduler", FaultKind.KILL),
}


@dataclass(frozen=True, slots=True)
class Stroke:
    """One fault of a plan."""

    after: float
    """Seconds since the one before was over."""
    harm: Harm
    lasts: float
    choice: float
    """Which process, how long a delay, how far a clock: a share of what there is."""


def plan(seed: int, seconds: float, *, every: float = 3.0) -> list[Stroke]:
    """Every kind once, in an order that the seed decides, then by weight."""
    random = Random(seed)
    count = max(int(seconds / every), 1)
    first = random.sample(list(Harm), len(Harm))
    more = random.choices(list(_WEIGHTS), list(_WEIGHTS.values()), k=max(count - len(first), 0))
    return [
        Stroke(
            every * (0.5 + random.random()),
            harm,
            0.5 + random.random() * (_LONGEST - 0.5),
            random.random(),
        )
        for harm in [*first, *more][:count]
    ]


class Supervisor:
    """Carries out strokes, one after the other."""

    def __init__(
        self,
        runner: Runner,
        server: PostgresServer,
        wire: Wire,
        clock: SkewedClock | None,
        console: Console,
    ) -> None:
        self._runner = runner
        self._server = server
        self._wire = wire
        self._clock = clock
        self._console = console
        self._began = now()
        self.done: Counter[str] = Counter()

    async def strike(self, stroke: Stroke, chores: asyncio.TaskGroup) -> None:
        """Wait, hit, and make whole again."""
        if stroke.harm in _PROCESSES:
            role, kind = _PROCESSES[stroke.harm]
            await self._runner.strike(Blow(stroke.after, role, kind, stroke.choice), chores)
        else:
            await asyncio.sleep(stroke.after)
            if stroke.harm is Harm.SKEW and self._clock is None:
                return  # nothing was done, so nothing is counted
            await self._trouble(stroke)
        self.done[stroke.harm.name.lower()] += 1
        seconds = (now() - self._began) / _SECOND
        self._console.print(f"{seconds:6.1f} s  {stroke.harm}", highlight=False)

    async def _trouble(self, stroke: Stroke) -> None:
        match stroke.harm:
            case Harm.CRASH:
                await asyncio.to_thread(self._server.restart, immediate=True)
            case Harm.TERMINATE_BACKENDS:
                await self._terminate_backends()
            case Harm.SKEW:
                if self._clock is not None:
                    self._clock.set(round((stroke.choice - 0.5) * 600))
            case _:
                await self._misbehave(stroke)

    async def _misbehave(self, stroke: Stroke) -> None:
        wire = self._wire
        match stroke.harm:
            case Harm.DELAY:
                wire.delay(0.05 + 0.15 * stroke.choice)
            case Harm.RESET:
                wire.reset()
            case Harm.REFUSE:
                wire.refuse()
            case Harm.BLACKHOLE:
                wire.swallow()
            case Harm.HALF_OPEN:
                wire.leave_half_open()
            case _:
                wire.lose_answers()
        await asyncio.sleep(stroke.lasts)
        wire.heal()

    async def _terminate_backends(self) -> None:
        connection = await asyncpg.connect(self._server.url())
        try:
            await connection.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where pid <> pg_backend_pid() and backend_type = 'client backend'"
            )
        finally:
            await connection.close()


async def run(
    strokes: Sequence[Stroke], folder: Path, console: Console, *, seed: int, rate: float
) -> tuple[Trial, Verdict, Counter[str]]:
    """The whole trial on a server of its own."""
    skew = Skew.build(folder)
    clock = None if skew is None else skew.clock("fleet", seconds=0)
    async with PostgresServer(durable=True) as server:
        await asyncio.to_thread(server.create, "chaos")
        direct = server.url("chaos", tcp=True)
        port = urlsplit(direct).port
        assert port is not None
        async with Wire(("127.0.0.1", port)) as wire:
            seconds = sum(one.after + one.lasts for one in strokes) + _LEAD
            trial = Trial(
                url=direct.replace(f":{port}/", f":{wire.port}/"),
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
            )
            engine = open_engine(direct)
            book = Ledger(trial.ledgers, "runner", role="runner")
            try:
                await engine.migrate()
                async with Fleet(trial, book, clock) as fleet:
                    runner = Runner(trial, fleet, engine)
                    supervisor = Supervisor(runner, server, wire, clock, console)
                    await _perform(supervisor, runner, strokes)
                    await fleet.dismiss(within=trial.drain_seconds + 10)
                return trial, await judge(trial, engine), supervisor.done
            finally:
                book.close()
                await engine.close()


async def _perform(supervisor: Supervisor, runner: Runner, strokes: Sequence[Stroke]) -> None:
    await runner.man(workers=_WORKERS, schedulers=1)
    async with asyncio.TaskGroup() as chores:
        for stroke in strokes:
            await supervisor.strike(stroke, chores)
    await runner.quiesce(within=_QUIET)


def main(arguments: Sequence[str] | None = None) -> int:
    """One trial; exit code 1 if a promise was broken."""
    parser = argparse.ArgumentParser(
        prog="python -m longshore_lab.chaos",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--minutes", type=float, default=2.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rate", type=float, default=200.0, help="jobs per second")
    parser.add_argument("--json", action="store_true", help="only one JSON line")
    options = parser.parse_args(arguments)
    console = Console(stderr=options.json, quiet=options.json)
    strokes = plan(options.seed, options.minutes * 60)
    with tempfile.TemporaryDirectory(prefix="longshore-chaos-") as name:
        trial, verdict, done = asyncio.run(
            run(strokes, Path(name), console, seed=options.seed, rate=options.rate)
        )
    report.show(console, trial, verdict)
    document = {"seed": options.seed, "faults": done, **verdict.document()}
    print(msgspec.json.encode(document).decode())
    return 0 if verdict.holds else 1


if __name__ == "__main__":
    sys.exit(main())
