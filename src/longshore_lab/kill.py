"""The kill runner: real processes under load, hit by a seeded plan, and then counted.

    python -m longshore_lab.kill --url sqlite:////tmp/jobs.db --jobs 20000 --faults 20

prints one JSON line with the figures and the violations, and exits with 1 if there are any.
The plan is the same for the same seed; what the machine makes of it is not.
"""

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from random import Random

import msgspec

from longshore.engine import Engine
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
    ) -> None:
        self._trial = trial
        self._fleet = fleet
        self._engine = engine
        self._tell = tell

    async def man(self, *, workers: int, schedulers: int) -> None:
        """Start everyone."""
        for role in ["scheduler"] * schedulers + ["worker"] * workers + ["producer"]:
            await self._fleet.start(role)

    async def strike(self, blow: Blow, chores: asyncio.TaskGroup) -> None:
        """Wait, hit, and leave to `chores` that what was hit comes back."""
        await asyncio.sleep(blow.after)
        if blow.kind is FaultKind.TERMINATE:
            targets = await self._at_work(blow.role)
        else:
            busy = await self._busy()
            alive = self._targets(blow.role)
            # To hit one that has nothing to do would show little.
            targets = [one for one in alive if one.name in busy] or alive
        if not targets:
            return
        target = targets[int(blow.choice * len(targets))]
        if blow.kind is FaultKind.STOP:
            await self._freeze(target)
            chores.create_task(self._resume(target))
        else:
            self._fleet.do(blow.kind, target)
            self._tell(f"{_WORDS[blow.kind]} {target.name}")
            chores.create_task(self._replace(target))

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

    async def _at_work(self, role: str) -> list[Actor]:
        """Targets that hold jobs: to ask the others to leave would show little.

        Waits for one, as long as there is work; empty when that is done.
        """
        while self._fleet.alive("producer") or await self.live_jobs():
            busy = await self._busy()
            if found := [one for one in self._targets(role) if one.name in busy]:
                return found
            self._fleet.check()
            await asyncio.sleep(_GLANCE)
        return []

    async def _busy(self) -> set[str]:
        """The workers that hold jobs; none while the store does not answer."""
        try:
            return {one.worker for one in await self._engine.sessions() if one.holding}
        except EngineError:
            return set()

    async def _freeze(self, target: Actor) -> None:
        """Stop it with jobs in its hands, if there is such a moment."""
        try:
            await self._fleet.stop_when(target, lambda: self.is_busy(target))
        except ActorFailedError:
            await self._fleet.stop_when(target, self.is_writable)
        self._tell(f"{_WORDS[FaultKind.STOP]} {target.name}, for two leases")

    async def is_busy(self, worker: Actor) -> bool:
        """It holds enough jobs to make its loss worth seeing, no lock, and awaits no answer."""
        if is_talking(self._trial.talk(worker.name)) or not await self.is_writable():
            return False
        sessions = await self._engine.sessions()
        held = sum(one.holding for one in sessions if one.worker == worker.name)
        return held >= self._trial.concurrency / 8

    async def _resume(self, target: Actor) -> None:
        await asyncio.sleep(self._trial.lease_seconds * 2)
        self._fleet.do(FaultKind.RESUME, target)
        self._tell(f"SIGCONT {target.name}: others have its jobs, and it does not know")

    async def _replace(self, target: Actor) -> None:
        await self._fleet.ended(target, within=self._trial.drain_seconds + 10)
        await self._fleet.start(target.role)

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
