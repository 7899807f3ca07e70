"""Many sessions on one store, each of which claims and settles without running anything.

On PostgreSQL each has a connection of its own, as so many worker processes would have.
"""

import asyncio
import time
from array import array
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from longshore.bench.shared_counters import Board
from longshore.contract import Engine, Session
from longshore.core.job import NewJob, Settlement
from longshore.core.settle import succeeded
from longshore.engines import open_engine
from longshore.errors import EngineBusyError, EngineUnavailableError
from longshore.runtime.ids import IdSource
from longshore_lab.experiments.crew import Crew, say, told_to_stop
from longshore_lab.experiments.spread import Spread, few, spread

__all__ = ["Crowd", "Pace", "Shares", "fill", "hold", "pace", "share", "shares"]

_LEASE = 60_000_000
_BATCH = 500
_FILLERS = 4
_WARM_SECONDS = 1.0
_WARM_CALLS = 5
"""Of each session, before anything counts: a new connection plans its functions, which takes
the server tens of milliseconds each time, and hundreds of them would be all that is seen."""
_WARM_PATIENCE = 180.0
_ids = IdSource()


class Crowd(msgspec.Struct, frozen=True, kw_only=True):
    """How many sessions, and how they claim."""

    url: str
    sessions: int
    want: int
    """Jobs per claim."""
    seconds: float
    ahead: int = 50_000
    """Jobs that producers keep ready."""
    processes: int = 2
    """Processes that the sessions are spread over."""
    is_apart: bool = False
    """Each settles with one call and claims with the next, instead of both with one."""


class Pace(msgspec.Struct, frozen=True, kw_only=True):
    """What they did."""

    jobs_per_s: float
    claim_ms: Spread
    """Of one exchange: settles the claims of the one before, and claims again."""
    resent: int
    """Calls that failed and were sent again."""
    empty: int
    """Claims that found nothing."""


class Shares(msgspec.Struct, frozen=True, kw_only=True):
    """How a backlog was shared."""

    seconds: float
    ideal_seconds: float
    """If nobody had ever waited."""
    busiest: float
    """The jobs of the busiest session, over the mean."""
    idle: int
    """Sessions that got nothing."""


def pace(crowd: Crowd) -> Pace:
    """Let them claim as fast as they can, for a while."""
    with TemporaryDirectory(prefix="longshore-crowd-") as folder, ExitStack() as stack:
        path = str(Path(folder) / "board")
        board = Board(Path(path))
        each = max(crowd.sessions // crowd.processes, 1)
        places = range(1, min(crowd.processes, crowd.sessions) + 1)
        known = {"url": crowd.url, "board": path}
        asked = {"want": crowd.want, "is_apart": crowd.is_apart}
        filler = {**known, "holders": len(places), "ahead": crowd.ahead}
        stack.enter_context(Crew("producer", fill, **filler)).told()
        holders = [
            stack.enter_context(
                Crew("worker", hold, place=place, sessions=each, **asked, **known)
            )
            for place in places
        ]
        for one in holders:
            one.told(_WARM_PATIENCE)
        time.sleep(_WARM_SECONDS)
        began, first = time.perf_counter(), sum(map(board.count, places))
        time.sleep(crowd.seconds)
        done, passed = sum(map(board.count, places)) - first, time.perf_counter() - began
        found = [one.stop() for one in holders]
    return Pace(
        jobs_per_s=round(done / passed, 1),
        claim_ms=spread(took for one in found for took in one["took_ms"]),
        resent=sum(one["resent"] for one in found),
        empty=sum(one["empty"] for one in found),
    )


def shares(crowd: Crowd, *, jobs: int, job_ms: float) -> Shares:
    """Let them work off a backlog, each one job after the other."""
    asked = {"sessions": crowd.sessions, "want": crowd.want, "jobs": jobs, "job_ms": job_ms}
    with Crew("worker", share, url=crowd.url, **asked) as crew:
        return msgspec.convert(crew.told(120), Shares)


async def fill(url: str, board: str, holders: int, ahead: int) -> None:
    """Keep some jobs ahead of the sessions, until told to stop."""
    engine, shown, sent = open_engine(url), Board(Path(board)), 0

    async def produce() -> None:
        nonlocal sent
        while True:
            if sent - sum(shown.count(1 + one) for one in range(holders)) > ahead:
                await asyncio.sleep(0.02)
                continue
            sent += _BATCH
            await _submit(engine, _BATCH)

    await _submit(engine, ahead)
    sent += ahead
    tasks = [asyncio.create_task(produce()) for _ in range(_FILLERS)]
    say("ready")
    await told_to_stop()
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    await engine.close()


async def hold(
    url: str, board: str, *, place: int, sessions: int, want: int, is_apart: bool = False
) -> dict[str, Any]:
    """Sessions that exchange until told to stop; how long each call took."""
    engine = open_engine(url)
    holder = _Holder(Board(Path(board)), place=place, want=want, is_apart=is_apart)
    opened = await _opened(engine, sessions, place)
    tasks = [asyncio.create_task(holder.exchange(session)) for session in opened]
    await holder.warm(sessions)
    say("ready")
    await told_to_stop()
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    await engine.close()
    return {"took_ms": few(holder.took), "resent": holder.resent, "empty": holder.empty}


class _Holder:
    """What the sessions of one process have in common."""

    def __init__(self, board: Board, *, place: int, want: int, is_apart: bool) -> None:
        self._board = board
        self._place = place
        self._want = want
        self._is_apart = is_apart
        self._done = 0
        self._warm = asyncio.Semaphore(0)
        self.took = array("d")
        self.resent = 0
        self.empty = 0

    async def warm(self, sessions: int) -> None:
        """Return when each session has made its first calls; those are not told."""
        for _ in range(sessions):
            await self._warm.acquire()
        del self.took[:]

    async def exchange(self, session: Session) -> None:
        """Settle and claim without end; a call that fails is sent again."""
        number, settlements = 1, list[Settlement]()
        while True:
            began = time.perf_counter()
            want = 0 if self._is_apart and settlements else self._want
            try:
                answer = await session.exchange(number, settlements=settlements, want=want)
            except (EngineBusyError, EngineUnavailableError):
                self.resent += 1
                await asyncio.sleep(0.05)
                continue
            self.took.append((time.perf_counter() - began) * 1e3)
            self._done += len(settlements)
            self._board.show(self._place, ready=1, count=self._done)
            if number == _WARM_CALLS:
                self._warm.release()
            number += 1
            settlements = [
                succeeded(one, started_at=answer.now, finished_at=answer.now)
                for one in answer.claims
            ]
            if want and not answer.claims:
                self.empty += 1
                await session.wait(1.0)


async def share(
    url: str, *, sessions: int, want: int, jobs: int, job_ms: float
) -> dict[str, Any]:
    """Work off a backlog; who got how much of it."""
    engine = open_engine(url)
    await _submit(engine, jobs)
    opened = await _opened(engine, sessions, 1)
    had, left = [0] * sessions, jobs
    began = time.perf_counter()

    async def one(place: int, session: Session) -> None:
        nonlocal left
        number, settlements = 1, list[Settlement]()
        while left > 0:
            answer = await session.exchange(number, settlements=settlements, want=want)
            number, settlements = number + 1, []
            had[place] += len(answer.claims)
            if answer.claims:
                await asyncio.sleep(len(answer.claims) * job_ms / 1e3)
                left -= len(answer.claims)
            else:
                await asyncio.sleep(job_ms / 1e3)
            settlements = [
                succeeded(one, started_at=answer.now, finished_at=answer.now)
                for one in answer.claims
            ]

    await asyncio.gather(*(one(place, session) for place, session in enumerate(opened)))
    seconds = time.perf_counter() - began
    await engine.close()
    return {
        "seconds": round(seconds, 3),
        "ideal_seconds": round(jobs * job_ms / 1e3 / sessions, 3),
        "busiest": round(max(had) / (jobs / sessions), 2),
        "idle": had.count(0),
    }


async def _submit(engine: Engine, count: int) -> None:
    for begin in range(0, count, _BATCH):
        few_jobs = [
            NewJob(id=_ids.make(), type="noop", payload=b"{}")
            for _ in range(min(_BATCH, count - begin))
        ]
        await engine.submit(few_jobs)


async def _opened(engine: Engine, count: int, place: int) -> Sequence[Session]:
    async def one(number: int) -> Session:
        return await engine.open_session(
            worker=f"worker-{place}-{number}", queues=["default"], types=["noop"], lease=_LEASE
        )

    return await asyncio.gather(*(one(number) for number in range(count)))
