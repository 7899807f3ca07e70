"""A proof from its first process to its verdict."""

import asyncio
import shutil
import signal
import tempfile
from contextlib import ExitStack, suppress
from pathlib import Path

from rich.console import Console

from longshore.contract import Engine
from longshore.engines import open_engine
from longshore.errors import ConfigError, EngineError, LongshoreError
from longshore_lab.board import Board, LiveBoard, PlainBoard, Scene
from longshore_lab.fleet import ActorFailedError, Fleet
from longshore_lab.kill import Runner
from longshore_lab.ledger import Ledger, now
from longshore_lab.places import search
from longshore_lab.proof import evidence
from longshore_lab.proof.plan import Plan
from longshore_lab.proof.scratch import Scratch, scratch
from longshore_lab.proof.times import times
from longshore_lab.proof.verdict import Proof
from longshore_lab.scenery import look
from longshore_lab.trial import Trial
from longshore_lab.verdict import collect, decide

__all__ = ["EVIDENCE", "board_for", "prove", "scene_of"]

EVIDENCE = "evidence.db"
_LOOK_EVERY = 0.25
_STANDSTILL = 60.0
"""Seconds in which no job ended, after which the rest is taken as never ending."""
_FAREWELL = 10.0
_GLANCES = 40
_RHYTHM = 5.0


def prove(
    plan: Plan,
    board: Board,
    scene: Scene,
    *,
    keep: Path | None = None,
    keeps_store: bool = True,
) -> Proof:
    """Run load and faults, and judge. Leaves nothing behind, unless it is told to `keep` it.

    What a broken promise left is kept all the same, in a folder that the proof names.
    """
    with ExitStack() as stack:
        folder = _folder(keep)
        if keep is None:
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
        try:
            is_kept = keep is not None and keeps_store
            proof = asyncio.run(_prove(plan, board, scene, folder, is_kept=is_kept))
        except asyncio.CancelledError:
            raise KeyboardInterrupt from None
        except ActorFailedError as error:
            raise LongshoreError(f"the proof itself failed: {error}") from error
        if not proof.holds and plan.sabotage is None:
            stack.pop_all()
            return proof.kept_in(folder)
        return proof if keep is None else proof.kept_in(folder)


def scene_of(plan: Plan) -> Scene:
    """What a board has to show, before anything happened."""
    return Scene(0 if plan.in_flight else round(plan.rate * plan.seconds))


def board_for(console: Console, scene: Scene, *, is_silent: bool) -> Board:
    """What shows the proof while it runs."""
    if is_silent:
        return Board()
    scene.rhythm = _RHYTHM
    return LiveBoard(console, scene) if console.is_terminal else PlainBoard(console, scene)


async def _prove(
    plan: Plan, board: Board, scene: Scene, folder: Path, *, is_kept: bool
) -> Proof:
    _heed_signals()
    async with scratch(plan.url, folder, is_kept=is_kept) as store:
        trial = plan.trial(store.url, folder)
        engine = open_engine(trial.url)
        book = Ledger(trial.ledgers, "runner", role="runner")
        try:
            await engine.migrate()
            async with Fleet(trial, book) as fleet:
                with board:
                    await _Play(plan, trial, fleet, engine, scene, board).perform()
            return await _judged(plan, trial, engine, store)
        finally:
            book.close()
            await _all_gone(engine)
            await engine.close()


async def _judged(plan: Plan, trial: Trial, engine: Engine, store: Scratch) -> Proof:
    case = await collect(trial, engine)
    path = Path(trial.folder) / EVIDENCE
    evidence.write(path, case)
    verdict = decide(trial, case)
    if found := await search(trial.url):
        verdict.findings[found.name] = found
    return Proof(
        plan=plan,
        store=store,
        verdict=verdict,
        counts=evidence.count(path),
        times=times(trial, case.history),
    )


class _Play:
    """Everyone starts, is hit by the plan, and leaves when nothing is left to do."""

    def __init__(
        self,
        plan: Plan,
        trial: Trial,
        fleet: Fleet,
        engine: Engine,
        scene: Scene,
        board: Board,
    ) -> None:
        self._plan = plan
        self._trial = trial
        self._fleet = fleet
        self._engine = engine
        self._scene = scene
        self._board = board
        self._runner = Runner(trial, fleet, engine, scene.tell)

    async def perform(self) -> None:
        looking = asyncio.create_task(self._look())
        playing = asyncio.create_task(self._play())
        try:
            await asyncio.wait([looking, playing], return_when=asyncio.FIRST_COMPLETED)
            if looking.done():
                looking.result()
            await playing
        finally:
            for task in (looking, playing):
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task

    async def _play(self) -> None:
        await self._runner.man(workers=self._plan.workers, schedulers=1)
        self._scene.tell(f"{self._plan.workers} workers, a producer and a scheduler started")
        await asyncio.sleep(max(self._trial.begins - now(), 0) / 1_000_000)
        async with asyncio.TaskGroup() as chores:
            for blow in self._plan.blows():
                if now() >= self._trial.ends:
                    break
                await self._runner.strike(blow, chores)
        self._scene.tell("no more faults; waiting until nothing is left to do")
        if not await self._quiet():
            self._scene.tell(f"no job ended for {_STANDSTILL:g} s; counting as it stands")
        await self._fleet.dismiss(within=self._trial.drain_seconds + _FAREWELL)
        await self._glance()

    async def _quiet(self) -> bool:
        """Wait as long as jobs end; whether nothing is left."""
        ended, since = -1, now()
        while True:
            left = await self._runner.live_jobs()
            if not left and not self._fleet.alive("producer"):
                return True
            if self._scene.finished != ended:
                ended, since = self._scene.finished, now()
            if now() - since > _STANDSTILL * 1_000_000:
                return False
            await asyncio.sleep(_LOOK_EVERY)

    async def _look(self) -> None:
        while True:
            await self._glance()
            await asyncio.sleep(_LOOK_EVERY)

    async def _glance(self) -> None:
        self._fleet.check()
        with suppress(EngineError):  # a store that is busy will answer the next time
            await look(self._scene, self._fleet, self._engine)
        if self._plan.in_flight is not None:
            scene = self._scene
            scene.jobs = scene.finished + scene.running + scene.waiting + scene.delayed
        self._board.update()


async def _all_gone(engine: Engine) -> None:
    """Let the keepers of workers that were just killed report it, before the store is gone."""
    with suppress(EngineError, TimeoutError):
        async with asyncio.timeout(_FAREWELL):
            for _ in range(_GLANCES):
                if not (await engine.sessions()).sessions:
                    return
                await asyncio.sleep(_LOOK_EVERY)


def _heed_signals() -> None:
    """What usually ends a process at once is a Ctrl-C here: there is much to put away."""
    task = asyncio.current_task()
    assert task is not None
    for number in (signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)


def _folder(keep: Path | None) -> Path:
    if keep is None:
        return Path(tempfile.mkdtemp(prefix="longshore-prove-"))
    try:
        keep.mkdir(parents=True)
    except OSError as error:
        raise ConfigError(f"--keep needs a new folder, {keep}: {error.strerror}") from error
    return keep.absolute()
