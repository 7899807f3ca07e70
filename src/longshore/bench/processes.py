"""The processes of a benchmark: one producer, and the workers.

Started as `python -m longshore.bench.processes ROLE NUMBER FOLDER LEADER`, with the plan in the
folder and the process id of whoever runs the benchmark, whose end is theirs too.
"""

import asyncio
import os
import sys
import time
from array import array
from pathlib import Path

import msgspec

from longshore.bench.load import Load
from longshore.bench.plan import Mode, Plan
from longshore.bench.shared_counters import Board
from longshore.bench.tally import Tally
from longshore.runtime.process import loop_factory, settle_in
from longshore.scheduler.promote import Promoter
from longshore.worker.settings import WorkerSettings
from longshore.worker.worker import Worker

__all__ = ["main"]

_SHOW_EVERY = 0.02
_GO, _STOP = 1, 2


class Producer:
    """Submits, and times every call."""

    def __init__(self, plan: Plan, board: Board) -> None:
        self._plan = plan
        self._board = board
        self._load = Load(plan)
        self._specs = self._load.specs()
        self._submitted = self._planned = 0
        self._show_at = self._began = 0.0
        self.samples = array("d")

    async def run(self) -> None:
        """Take part until told to stop."""
        async with self._load.app:
            self._board.show(0, ready=1, count=0)
            if self._plan.mode is not Mode.DRAIN:
                await _until(self._board, _GO)
            if self._plan.mode is Mode.LATENCY:
                await self._ping()
            else:
                self._began = time.perf_counter()
                submit = self._arrive if self._plan.rate else self._submit
                await asyncio.gather(*(submit() for _ in range(self._plan.callers)))
            self._board.show(0, ready=2, count=self._submitted)
            await _until(self._board, _STOP)

    async def _submit(self) -> None:
        app, batch = self._load.app, self._plan.batch
        is_drain = self._plan.mode is Mode.DRAIN
        while self._board.phase < _STOP:
            if is_drain and self._submitted >= self._plan.planned:
                return
            if not is_drain and self._submitted - self._finished() > self._plan.depth:
                await asyncio.sleep(0.002)
                continue
            self._submitted += batch
            specs = [next(self._specs) for _ in range(batch)]
            began = time.perf_counter()
            if batch == 1:
                await app.submit_spec(specs[0])
            else:
                await app.submit_many(specs)
            self._sample(began, is_shown=is_drain)

    async def _arrive(self) -> None:
        """Submit when it is time, late if it has to be; a call is timed from when it was."""
        app, batch = self._load.app, self._plan.batch
        while self._board.phase < _STOP:
            due = self._began + self._planned / self._plan.rate
            self._planned += batch
            if (early := due - time.perf_counter()) > 0:
                await asyncio.sleep(early)
            self._submitted += batch
            await app.submit_many([next(self._specs) for _ in range(batch)])
            self._sample(due)

    def _sample(self, began: float, *, is_shown: bool = False) -> None:
        ended = time.perf_counter()
        self.samples.append((ended - began) * 1e3)
        if ended >= self._show_at or is_shown:
            self._show_at = ended + _SHOW_EVERY
            self._board.show(0, ready=1, count=self._submitted)

    async def _ping(self) -> None:
        """One job after the other; each waits for the last to begin, and then a while.

        The first tenth finds everything being set up, connections and plans, and is not told.
        """
        pings = max(self._plan.jobs // 100, 1)
        for number in range(pings):
            is_sampled = number >= pings // 10
            began = time.perf_counter()
            await self._load.app.submit_many([self._load.ping(is_sampled=is_sampled)])
            if is_sampled:
                self.samples.append((time.perf_counter() - began) * 1e3)
            self._submitted += 1
            while self._started() <= number and self._board.phase < _STOP:
                await asyncio.sleep(0.002)
            await asyncio.sleep(0.01 + number % 7 * 0.002)
            self._board.show(0, ready=1, count=self._submitted)

    def _finished(self) -> int:
        return sum(self._board.count(1 + one) for one in range(self._plan.processes))

    def _started(self) -> int:
        return sum(self._board.started(1 + one) for one in range(self._plan.processes))


class Runner:
    """A worker as anyone runs it, which shows its counts."""

    def __init__(
        self, plan: Plan, board: Board, number: int, tally: Tally | None = None
    ) -> None:
        self._board = board
        self._number = number
        self._load = Load(plan, tally)
        self._settings = WorkerSettings(
            queues=plan.queues,
            concurrency=plan.concurrency,
            claim_batch=plan.claim_batch,
        )
        self.samples = self._load.waits

    async def run(self) -> None:
        """Take part until told to stop."""
        async with self._load.app as app:
            promoter = Promoter(app.engine, on_promoted=lambda _: worker.nudge())
            worker = Worker(
                app.engine, app.registry(), self._settings, ticks=[("promote", promoter.tick)]
            )
            self._show(worker, ready=1)
            await _until(self._board, _GO)
            running = asyncio.create_task(worker.run())
            while self._board.phase < _STOP and not running.done():
                self._show(worker, ready=1)
                await asyncio.sleep(_SHOW_EVERY)
            worker.stop_now()
            await running

    def _show(self, worker: Worker, *, ready: int) -> None:
        done = worker.stats.succeeded + worker.stats.dead
        self._board.show(self._number, ready=ready, count=done, started=self._load.started)


def _runner(plan: Plan, board: Board, number: int, folder: Path) -> Runner:
    if plan.mode is not Mode.DRAIN:
        return Runner(plan, board, number)
    return Runner(plan, board, number, Tally(folder / f"tally.{number}", plan.planned))


async def _until(board: Board, phase: int) -> None:
    while board.phase < phase:
        await asyncio.sleep(0.005)


async def _led(actor: Producer | Runner, leader: int) -> None:
    """The actor's part, which ends with the one who runs the benchmark, however that ends."""
    watching = asyncio.create_task(_leave_with(leader))
    try:
        await actor.run()
    finally:
        watching.cancel()


async def _leave_with(leader: int) -> None:
    while os.getppid() == leader:
        await asyncio.sleep(0.5)
    os._exit(1)


def main() -> None:
    """Run one actor to its end and leave its samples in the folder."""
    role, number, folder = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
    plan = msgspec.json.decode((folder / "plan.json").read_bytes(), type=Plan)
    board = Board(folder / "board")
    actor = (
        Producer(plan, board) if role == "producer" else _runner(plan, board, number, folder)
    )
    settle_in()
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        # Without its number, that of the parent; it may have gone before this is asked.
        leader = int(sys.argv[4]) if len(sys.argv) > 4 else os.getppid()
        runner.run(_led(actor, leader))
    (folder / f"samples.{number}").write_bytes(actor.samples.tobytes())


if __name__ == "__main__":
    main()
