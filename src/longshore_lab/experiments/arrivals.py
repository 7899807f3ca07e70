"""An open loop: jobs arrive at a fixed rate, whether or not the queue keeps up.

Producer, workers and scheduler are processes of their own. Times count from the moment a call
was meant to be made, so that a queue that stalls cannot hide it by holding up the producer.
"""

import asyncio
import tempfile
import time
from array import array
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec

from longshore.bench.load import Load
from longshore.bench.plan import Plan
from longshore.bench.tally import Tallied, Tally, tallied
from longshore.contract import Engine, Exchanged, Session
from longshore.contract.forwarding import ForwardingEngine, ForwardingSession
from longshore.core.retention import Retention
from longshore.engines import open_engine
from longshore.scheduler.promote import Promoter
from longshore.scheduler.service import Scheduler
from longshore.scheduler.settings import Keeping
from longshore.worker.settings import WorkerSettings
from longshore.worker.worker import Worker
from longshore_lab.experiments.crew import Crew, say, told_to_stop
from longshore_lab.experiments.spread import Spread, few, spread

__all__ = ["Arrivals", "Ended", "observe", "produce", "schedule", "work"]

_SECOND = 1_000_000
_BURSTS = 50
"""Calls a second, unless jobs arrive more seldom or calls would be too large."""
_LARGEST = 500
_CALLERS = 32
_WARM_SECONDS = 3.0
"""What is timed at first is left out: connections are opened then, and functions planned."""
_QUIET_SECONDS = 60.0
"""How long the last jobs have, retries and slow ones among them, after the last arrival."""


class Arrivals(msgspec.Struct, frozen=True, kw_only=True):
    """What arrives, and who runs it."""

    plan: Plan
    """The jobs, the store, and the workers; its mode is not asked for."""
    rate: float
    """Jobs a second."""
    seconds: float
    keep_seconds: float | None = None
    """With it a scheduler runs, which deletes what ended so long ago."""

    @property
    def batch(self) -> int:
        """Jobs of one call."""
        return max(1, min(round(self.rate / _BURSTS), _LARGEST))

    @property
    def calls(self) -> int:
        """How many there are."""
        return round(self.rate * self.seconds / self.batch)

    @property
    def warm(self) -> float:
        """Seconds at the beginning of which no times are told."""
        return min(_WARM_SECONDS, self.seconds / 4)


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """What became of it."""

    submitted: int
    ended: int
    """Jobs that succeeded or died, as the workers counted."""
    dead: int
    tally: Tallied
    """How often each job ran, as the handlers wrote it down."""
    seconds: float
    """From the first arrival to the last."""
    late_ms: Spread
    """How long after its time a call was made."""
    submit_ms: Spread
    """From the time a call was meant for until its jobs were durable."""
    wait_ms: Spread
    """From the making of a job until its handler began."""
    claim_ms: Spread
    """Of an exchange that asked for jobs."""


def observe(arrivals: Arrivals) -> Ended:
    """Let them arrive, and wait until nothing is left to do."""
    jobs = arrivals.batch * arrivals.calls
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="arrivals-")))
        files = [folder / f"tally.{number}" for number in range(arrivals.plan.processes)]
        plan = msgspec.to_builtins(arrivals.plan)
        if arrivals.keep_seconds is not None:
            keeping = {"url": arrivals.plan.url, "keep_seconds": arrivals.keep_seconds}
            stack.enter_context(Crew("scheduler", schedule, **keeping))
        known = {"plan": plan, "warm": arrivals.warm}
        workers = [
            stack.enter_context(Crew("worker", work, tally=str(one), jobs=jobs, **known))
            for one in files
        ]
        for one in workers:
            one.told()
        load = {"rate": arrivals.rate, "batch": arrivals.batch, "calls": arrivals.calls}
        producer = stack.enter_context(Crew("producer", produce, **load, **known))
        sent = producer.told(arrivals.seconds * 2 + 60)
        asyncio.run(_quiet(arrivals.plan))
        done = [one.stop() for one in workers]
        found = tallied(files, sent["submitted"], Load(arrivals.plan).lots)
    return Ended(
        submitted=sent["submitted"],
        ended=sum(one["succeeded"] + one["dead"] for one in done),
        dead=sum(one["dead"] for one in done),
        tally=found,
        seconds=sent["seconds"],
        late_ms=spread(sent["late_ms"]),
        submit_ms=spread(sent["submit_ms"]),
        wait_ms=spread(wait for one in done for wait in one["wait_ms"]),
        claim_ms=spread(claim for one in done for claim in one["claim_ms"]),
    )


async def _quiet(plan: Plan) -> None:
    engine = open_engine(plan.url)
    try:
        for _ in range(int(_QUIET_SECONDS / 0.25)):
            counts = await engine.counts()
            if not sum(one.ready + one.running + one.scheduled for one in counts):
                return
            await asyncio.sleep(0.25)
    finally:
        await engine.close()


async def produce(
    plan: dict[str, Any], *, rate: float, batch: int, calls: int, warm: float
) -> dict[str, Any]:
    """Submit at the rate; what was sent and how long the calls took."""
    load = Load(msgspec.convert(plan, Plan))
    specs = load.specs()
    late, took = array("d"), array("d")
    places = asyncio.Semaphore(_CALLERS)

    async def call(due: float) -> None:
        try:
            await load.app.submit_many([next(specs) for _ in range(batch)])
            if due >= began + warm:
                took.append((time.perf_counter() - due) * 1e3)
        finally:
            places.release()

    async with load.app, asyncio.TaskGroup() as group:
        began = time.perf_counter()
        for number in range(calls):
            due = began + number * batch / rate
            await asyncio.sleep(max(due - time.perf_counter(), 0.0))
            await places.acquire()
            if due >= began + warm:
                late.append(max(time.perf_counter() - due, 0.0) * 1e3)
            group.create_task(call(due))
        passed = time.perf_counter() - began
    return {
        "submitted": calls * batch,
        "seconds": round(passed, 3),
        "late_ms": few(late),
        "submit_ms": few(took),
    }


async def work(plan: dict[str, Any], *, tally: str, jobs: int, warm: float) -> dict[str, Any]:
    """Run jobs until told to stop; what was done, and how long claims took."""
    asked = msgspec.convert(plan, Plan)
    load = Load(asked, Tally(Path(tally), jobs))
    claims = array("d")
    settings = WorkerSettings(
        queues=asked.queues,
        concurrency=asked.concurrency,
        claim_batch=asked.claim_batch,
        drain_timeout=timedelta(seconds=5),
    )
    async with load.app as app:
        promoter = Promoter(app.engine, on_promoted=lambda _: worker.nudge())
        worker = Worker(
            timed(app.engine, claims),
            app.registry(),
            settings,
            ticks=[("promote", promoter.tick)],
        )
        running = asyncio.create_task(worker.run())
        warming = asyncio.create_task(_warmed(load, claims, warm))
        say("ready")
        await told_to_stop()
        warming.cancel()
        worker.drain()
        await running
    return {
        "succeeded": worker.stats.succeeded,
        "dead": worker.stats.dead,
        "wait_ms": few(load.waits),
        "claim_ms": few(claims),
    }


async def _warmed(load: Load, claims: "array[float]", seconds: float) -> None:
    """Forget the times of so many seconds from the first job on."""
    while True:
        await asyncio.sleep(0.05)
        if load.started:
            break
    await asyncio.sleep(seconds)
    del load.waits[:], claims[:]


async def schedule(url: str, keep_seconds: float) -> None:
    """A scheduler that keeps little, until it is ended."""
    kept = int(keep_seconds * _SECOND)
    retention = Retention(succeeded=kept, cancelled=kept, dead=kept, outbox=kept)
    engine = open_engine(url)
    scheduler = Scheduler(engine, keeping=Keeping(retention=retention))
    async with scheduler.running():
        await told_to_stop()
    await engine.close()


def timed(engine: Engine, claims: "array[float]") -> Engine:
    """The same engine; sessions opened through it note how long their claims take, in ms."""
    return _TimedEngine(engine, claims)


class _TimedEngine(ForwardingEngine):
    def __init__(self, engine: Engine, claims: "array[float]") -> None:
        super().__init__(engine)
        self._claims = claims

    async def open_session(self, **arguments: Any) -> Session:
        session = await self._inner.open_session(**arguments)
        return _TimedSession(session, self._claims)


class _TimedSession(ForwardingSession):
    def __init__(self, session: Session, claims: "array[float]") -> None:
        super().__init__(session)
        self._claims = claims

    async def exchange(
        self, number: int, *, want: int = 0, queues: Sequence[str] | None = None, **rest: Any
    ) -> Exchanged:
        began = time.perf_counter()
        answer = await self._inner.exchange(number, want=want, queues=queues, **rest)
        if want:
            self._claims.append((time.perf_counter() - began) * 1e3)
        return answer
