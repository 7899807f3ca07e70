"""The demonstration: jobs under load, a worker killed, a worker frozen, and the count after.

    make demo                 every promise holds, exit status 0
    make demo BREAK=fence     a fault is planted, the checkers find it, exit status 1

Everything is real: processes, signals, one SQLite file. The verdict is not the queue's own. It
comes from ledgers that producer and handlers write for themselves, outside of the queue.
"""

import argparse
import asyncio
import shutil
import sys
import tempfile
from collections.abc import Awaitable, Callable, Sequence

import msgspec
from rich.console import Console

from longshore.contract import Engine
from longshore.engines import open_engine
from longshore_lab import ledger, report
from longshore_lab.board import Board, LiveBoard, PlainBoard, Scene
from longshore_lab.fleet import Actor, ActorFailedError, Fleet
from longshore_lab.kill import Runner
from longshore_lab.ledger import Ledger, now
from longshore_lab.records import FaultKind, Settled
from longshore_lab.sabotage import PLANTS
from longshore_lab.scenery import look
from longshore_lab.trial import Trial
from longshore_lab.verdict import Verdict, judge

__all__ = ["main"]

_WORKERS = 3
_KILL_AT = 0.25
_FREEZE_AT = 0.50
_LOOK_EVERY = 0.15
_GLANCE = 0.01
_PATIENCE = 90.0
_LATE = 5.0


class Demo:
    """The play: everyone starts, one is killed, one is frozen and thawed, all is counted."""

    def __init__(
        self, trial: Trial, fleet: Fleet, engine: Engine, scene: Scene, board: Board
    ) -> None:
        self._trial = trial
        self._fleet = fleet
        self._engine = engine
        self._scene = scene
        self._board = board
        self._runner = Runner(trial, fleet, engine)

    async def play(self) -> None:
        """From the first job to the last, or ActorFailedError when it does not end."""
        await self._runner.man(workers=_WORKERS, schedulers=1)
        self._scene.tell(f"{_WORKERS} workers, one producer and one scheduler started")
        await self._until(lambda: self._finished(_KILL_AT), "a quarter of the jobs")
        await self._kill(self._fleet.alive("worker")[0])
        await self._until(lambda: self._finished(_FREEZE_AT), "half of the jobs")
        await self._freeze(self._fleet.alive("worker")[0])
        await self._until(self._all_done, "the last job")
        self._scene.tell("nothing is left to do")
        await self._fleet.dismiss(within=self._trial.drain_seconds + 10)
        await self._look()

    async def _kill(self, victim: Actor) -> None:
        self._fleet.do(FaultKind.KILL, victim)
        await self._fleet.ended(victim)
        held = await self._runner.held_by(victim)
        heir = await self._fleet.start("worker")
        self._scene.tell(f"kill -9 {victim.name}, which held {held} jobs; {heir.name} starts")

    async def _freeze(self, victim: Actor) -> None:
        await self._fleet.stop_when(victim, lambda: self._runner.is_busy(victim))
        held = await self._runner.held_by(victim)
        self._scene.tell(f"froze {victim.name} with {held} jobs, until its lease is over")
        # At once: a late result shows the fence only while another worker holds the job.
        await self._until(
            lambda: self._is_disowned(victim), "the frozen worker's jobs", every=_GLANCE
        )
        thawed_at = now()
        self._fleet.do(FaultKind.RESUME, victim)
        self._scene.tell(f"thawed {victim.name}; others have its jobs, and it does not know")
        await self._happens(lambda: self._has_settled(victim, thawed_at), within=_LATE)

    async def _until(
        self, is_over: Callable[[], Awaitable[bool]], what: str, *, every: float = _LOOK_EVERY
    ) -> None:
        """Look again and again until it is over."""
        if not await self._happens(is_over, within=_PATIENCE, every=every):
            raise ActorFailedError(f"waited {_PATIENCE:g} s in vain for {what}")

    async def _happens(
        self,
        is_over: Callable[[], Awaitable[bool]],
        *,
        within: float,
        every: float = _LOOK_EVERY,
    ) -> bool:
        clock = asyncio.get_running_loop().time
        try:
            async with asyncio.timeout(within):
                await self._look()
                looked_at = clock()
                while not await is_over():
                    await asyncio.sleep(every)
                    if clock() - looked_at >= _LOOK_EVERY:
                        await self._look()
                        looked_at = clock()
        except TimeoutError:
            return False
        return True

    async def _look(self) -> None:
        self._fleet.check()
        await look(self._scene, self._fleet, self._engine)
        self._board.update()

    async def _finished(self, share: float) -> bool:
        return self._scene.finished >= share * self._trial.jobs

    async def _all_done(self) -> bool:
        return not self._fleet.alive("producer") and not await self._runner.live_jobs()

    async def _is_disowned(self, worker: Actor) -> bool:
        return not await self._runner.held_by(worker)

    async def _has_settled(self, worker: Actor, since: int) -> bool:
        entries = ledger.read(self._trial.ledgers, of=worker.name).entries
        return any(
            isinstance(entry.record, Settled) and entry.record.at > since for entry in entries
        )


async def perform(trial: Trial, scene: Scene, board: Board) -> Verdict:
    """The whole demonstration."""
    engine = open_engine(trial.url)
    book = Ledger(trial.ledgers, "runner", role="runner")
    try:
        await engine.migrate()
        with board:
            async with Fleet(trial, book) as fleet:
                await Demo(trial, fleet, engine, scene, board).play()
        return await judge(trial, engine)
    finally:
        book.close()
        await engine.close()


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status 0 if every promise held, 1 if not, 2 if the demonstration itself failed."""
    options = _options(arguments)
    folder = tempfile.mkdtemp(prefix="longshore-demo-")
    trial = Trial(
        url=f"sqlite:///{folder}/jobs.db",
        folder=folder,
        jobs=options.jobs,
        seed=options.seed,
        lease_seconds=3.0,
        sabotage=options.sabotage,
    )
    console = Console(stderr=options.json)
    is_kept = False
    try:
        status = _run(trial, console, is_silent=options.json)
        is_kept = status != 0 and trial.sabotage is None
    except KeyboardInterrupt:
        status = 130
    finally:
        if not is_kept:
            shutil.rmtree(folder)
    if is_kept:
        console.print(f"  The queue, the ledgers and the logs are in {folder}", highlight=False)
    return status


def _run(trial: Trial, console: Console, *, is_silent: bool) -> int:
    scene = Scene(trial.jobs)
    if not is_silent:
        _introduce(console, trial)
    try:
        verdict = asyncio.run(perform(trial, scene, _board(console, scene, is_silent)))
    except ActorFailedError as error:
        console.print(f"[red]the demonstration failed:[/] {error}")
        return 2
    if is_silent:
        document = {"seed": trial.seed, "sabotage": trial.sabotage, **verdict.document()}
        print(msgspec.json.encode(document).decode())
    else:
        step = "See what a fault looks like: make demo BREAK=fence"
        report.show(console, trial, verdict, next_step=step)
    return 0 if verdict.holds else 1


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m longshore_lab.demo",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    plants = "; ".join(f"{name}: {meaning}" for name, meaning in PLANTS.items())
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--break", dest="sabotage", choices=PLANTS, help=plants)
    parser.add_argument("--json", action="store_true", help="only one JSON line at the end")
    return parser.parse_args(arguments)


def _board(console: Console, scene: Scene, is_silent: bool) -> Board:
    if is_silent:
        return Board()
    return LiveBoard(console, scene) if console.is_terminal else PlainBoard(console, scene)


def _introduce(console: Console, trial: Trial) -> None:
    console.print()
    console.print(
        f"[bold]Longshore[/]: {trial.jobs:,} jobs, {_WORKERS} worker processes,"
        " one SQLite file.",
        highlight=False,
    )
    console.print(
        "Of the jobs 70 % are fast, 20 % slow, 5 % fail and recover, 5 % always fail."
        "\nOne worker will be killed, one frozen past its lease. Producer and handlers keep"
        "\nledgers of their own, outside of the queue; the verdict comes from those.",
        style="dim",
        highlight=False,
    )
    if trial.sabotage:
        console.print(f"[bold yellow]Planted:[/] {PLANTS[trial.sabotage]}.", highlight=False)
    console.print()


if __name__ == "__main__":
    sys.exit(main())
