"""The kill runner: real processes under load, hit by a seeded plan, and then counted.

    python -m longshore_lab.kill --url sqlite:////tmp/jobs.db --jobs 20000 --faults 20

prints one JSON line with the figures and the violations, and exits with 1 if there are any.
The plan is the same for the same seed; what the machine makes of it is not.
"""

import argparse
import asyncio
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random

import msgspec

from longshore.contract import Engine
from longshore.engines import open_engine
from longshore.errors import EngineError
from longshore_lab.fleet import Actor, ActorFailedError, Fleet
from longshore_lab.ledger import Ledger
from longshore_lab.records import FaultKind
from longshore_lab.trial import Trial
from longshore_lab.verdict import Verdict, judge
from longshore_lab.watch import is_talking

__all__ = ["Blow", "Runner", "plan", "run"]

_POLL = 0.1
_BATCH = 100
_LOCK_WAIT = 0.2
_GLANCE = 0.02
_PATIENCE = 60.0
_WEIGHTS: dict[tuple[str, FaultKind], int] = {
    ("worker", FaultKind.KILL): 5,
    ("worker", FaultKind.STOP): 2,
    ("worker", FaultKind.TERMINATE): 2,
    ("producer", FaultKind.KILL): 2,
    ("scheduler", FaultKind.KILL): 1,
}


_WORDS = {
    FaultKind.KILL: "kill -9",
    FaultKind.STOP: "SIGSTOP",
    FaultKind.TERMINATE: "SIGTERM",
}


@dataclass(frozen=True, slots=True)
class Blow:
    """One fault of a plan."""

    after: float
    """Seconds since the one before."""
    role: str
    kind: FaultKind
    choice: float
    """Which of the processes of that role: a share of their number."""


def plan(seed: int, faults: int, *, every: float) -> list[Blow]:
    """As many faults, `every` seconds apart on average."""
    random = Random(seed)
    targets = random.choices(list(_WEIGHTS), list(_WEIGHTS.values()), k=faults)
    return [
        Blow(every * (0.5 + random.random()), role, kind, random.random())
        for role, kind in targets
    ]


class Runner:
    """Keeps a fleet at its strength while it is being hit."""

    def __init__(
        self,
        trial: Trial,
        fleet: Fleet,
        engine: Engine,
        tell: Callable[[str], None] = lambda _: None,
        *,
        handful: float | None = None,
    ) -> None:
        """So many jobs as `handful` says make the loss of a worker worth seeing.

        By default an eighth of what it can hold, as under a load that fills its workers.
        """
        self._trial = trial
        self._fleet = fleet
        self._engine = engine
        self._tell = tell
        self._handful = trial.concurrency / 8 if handful is None else handful
        self._returning: Counter[str] = Counter()

    async def man(self, *, workers: int, schedulers: int) -> None:
        """Start everyone."""
        for role in ["scheduler"] * schedulers + ["worker"] * workers + ["producer"]:
            await self._fleet.start(role)

    async def strike(self, blow: Blow, chores: asyncio.TaskGroup) -> bool:
        """Wait, hit, and leave to `chores` that what was hit comes back; whether it was hit.

        One that cannot be hit is spared for another.
        """
        await asyncio.sleep(blow.after)
        targets = await self._awaited(blow)
        first = int(blow.choice * len(targets))
        for target in targets[first:] + targets[:first]:
            if await self._hit(blow.kind, target):
                self._returning[blow.role] += 1
                is_stop = blow.kind is FaultKind.STOP
                chores.create_task(self._resume(target) if is_stop else self._replace(target))
                return True
        return False

    def end_load(self) -> None:
        """Have the producer of an open loop send no more, and leave."""
        self._trial.enough.touch()

    async def produced(self, *, within: float) -> bool:
        """Wait until the whole load was sent; whether that came."""
        try:
            async with asyncio.timeout(within):
                while self._fleet.alive("producer"):
                    self._fleet.check()
                    await asyncio.sleep(_POLL)
        except TimeoutError:
            return False
        return True

    async def quiesce(self, *, within: float) -> bool:
        """Wait until the load was produced and nothing is left to do; whether that came."""
        try:
            async with asyncio.timeout(within):
                while self._fleet.alive("producer") or await self.live_jobs():
                    self._fleet.check()
                    await asyncio.sleep(_POLL)
        except TimeoutError:
            return False
        return True

    async def live_jobs(self) -> int:
        """Jobs that have not ended; while the store does not answer, as if there were one."""
        try:
            counts = await self._engine.counts()
        except EngineError:
            return 1
        return sum(one.ready + one.scheduled + one.running for one in counts)

    def _targets(self, role: str) -> list[Actor]:
        """Those of the role that run and have not been hit for good."""
        alive = self._fleet.alive(role)
        return [one for one in alive if not one.is_stopped and not one.was_ended]

    async def _awaited(self, blow: Blow) -> list[Actor]:
        """Whom it can hit; waits a while if there is nobody, but somebody will come."""
        until = time.monotonic() + _PATIENCE
        while not (found := await self._found(blow)) and time.monotonic() < until:
            if not await self._may_come(blow):
                break
            self._fleet.check()
            await asyncio.sleep(_GLANCE)
        return found

    async def _found(self, blow: Blow) -> list[Actor]:
        """To hit one that holds no jobs would show little; to ask it to leave, nothing."""
        holding, alive = await self._holding(), self._targets(blow.role)
        if blow.kind is FaultKind.STOP and len(alive) == 1 < len(self._fleet.alive(blow.role)):
            return []  # the others stand still already, and nobody would be left at work
        busy = [one for one in alive if holding[one.name]]
        return busy if blow.kind is FaultKind.TERMINATE else busy or alive

    async def _may_come(self, blow: Blow) -> bool:
        if self._returning[blow.role] or self._fleet.may_leave(blow.role):
            return True
        if blow.kind is not FaultKind.TERMINATE:
            return False
        return bool(self._fleet.alive("producer") or await self.live_jobs())

    async def _holding(self) -> Counter[str]:
        """How many jobs each worker holds; none while the store does not answer."""
        held: Counter[str] = Counter()
        with suppress(EngineError):
            for one in (await self._engine.sessions()).sessions:
                held[one.worker] += one.holding
        return held

    async def _hit(self, kind: FaultKind, target: Actor) -> bool:
        if kind is FaultKind.STOP:
            return await self._freeze(target)
        self._fleet.do(kind, target)
        self._tell(f"{_WORDS[kind]} {target.name}")
        return True

    async def _freeze(self, target: Actor) -> bool:
        """Stop it with jobs in its hands, if there is such a moment; whether it stands."""
        for is_right in (lambda: self.is_busy(target), self.is_writable):
            try:
                await self._fleet.stop_when(target, is_right)
            except ActorFailedError:
                continue
            self._tell(f"{_WORDS[FaultKind.STOP]} {target.name}, for two leases")
            return True
        return False

    async def is_busy(self, worker: Actor) -> bool:
        """It holds enough jobs to make its loss worth seeing, no lock, and awaits no answer."""
        if is_talking(self._trial.talk(worker.name)) or not await self.is_writable():
            return False
        return await self.held_by(worker) >= self._handful

    async def held_by(self, worker: Actor) -> int:
        """How many jobs the sessions of a worker hold; 0 while the store does not answer."""
        return (await self._holding())[worker.name]

    async def _resume(self, target: Actor) -> None:
        await asyncio.sleep(self._trial.lease_seconds * 2)
        self._fleet.do(FaultKind.RESUME, target)
        self._returning[target.role] -= 1
        self._tell(f"SIGCONT {target.name}: others have its jobs, and it does not know")

    async def _replace(self, target: Actor) -> None:
        await self._fleet.ended(target, within=self._trial.drain_seconds + 10)
        await self._fleet.start(target.role)
        self._returning[target.role] -= 1

    async def is_writable(self) -> bool:
        """Whether the store can be written to right now."""
        try:
            async with asyncio.timeout(_LOCK_WAIT):
                await self._engine.ping()
        except (TimeoutError, EngineError):
            return False
        return True


async def run(
    trial: Trial,
    blows: Sequence[Blow],
    *,
    workers: int,
    within: float,
    schedulers: int = 2,
) -> Verdict:
    """Carry out the plan, wait at most `within` seconds for the dust to settle, and judge."""
    engine = open_engine(trial.url)
    ledger = Ledger(trial.ledgers, "runner", role="runner")
    try:
        await engine.migrate()
        async with Fleet(trial, ledger) as fleet:
            runner = Runner(trial, fleet, engine)
            await runner.man(workers=workers, schedulers=schedulers)
            async with asyncio.TaskGroup() as chores:
                for blow in blows:
                    await runner.strike(blow, chores)
            await runner.quiesce(within=within)
            await fleet.dismiss(within=trial.drain_seconds + 10)
        return await judge(trial, engine)
    finally:
        ledger.close()
        await engine.close()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one trial and print its figures as one JSON line."""
    parser = argparse.ArgumentParser(prog="longshore_lab.kill", description=__doc__)
    parser.add_argument("--url", help="the store; by default a SQLite file that is thrown away")
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--faults", type=int, default=10)
    parser.add_argument("--every", type=float, default=1.0, help="seconds between two faults")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--lease", type=float, default=3.0, help="seconds")
    parser.add_argument(
        "--within", type=float, default=120.0, help="seconds until all is quiet"
    )
    parser.add_argument("--folder", help="where to keep ledgers and logs; must be new")
    options = parser.parse_args(arguments)
    with _folder(options.folder) as folder:
        trial = Trial(
            url=options.url or f"sqlite:///{folder}/jobs.db",
            folder=folder,
            seed=options.seed,
            jobs=options.jobs,
            batch=_BATCH,
            # The producer should still be at it when the last fault strikes.
            pace=options.faults * options.every * _BATCH / options.jobs,
            lease_seconds=options.lease,
        )
        blows = plan(options.seed, options.faults, every=options.every)
        verdict = asyncio.run(run(trial, blows, workers=options.workers, within=options.within))
    document = {"seed": options.seed, "jobs": options.jobs, **verdict.document()}
    print(msgspec.json.encode(document).decode())
    return 0 if verdict.holds else 1


def _folder(wish: str | None) -> AbstractContextManager[str]:
    if wish is None:
        return tempfile.TemporaryDirectory(prefix="longshore-kill-")
    Path(wish).mkdir(parents=True)
    return nullcontext(wish)


if __name__ == "__main__":
    sys.exit(main())
