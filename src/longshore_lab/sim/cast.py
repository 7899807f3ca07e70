"""The parts that are played: producers, workers and schedulers, of the product's own code."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextvars import copy_context
from datetime import timedelta
from random import Random
from typing import Any

import msgspec

from longshore.core.ids import TAIL_BYTES, tails
from longshore.core.job import JobId, NewJob, Submitted
from longshore.engine import Engine
from longshore.errors import EngineUnavailableError
from longshore.runtime.beat import Tick
from longshore.scheduler.promote import Promoter
from longshore.scheduler.reclaim import Reclaimer
from longshore.scheduler.service import Scheduler
from longshore.worker.registry import Registry
from longshore.worker.settings import WorkerSettings
from longshore.worker.worker import Worker
from longshore_lab.batch import open_batches
from longshore_lab.clerk import TYPE, keeping_book
from longshore_lab.handlers import mixed
from longshore_lab.producer import Sender
from longshore_lab.sim.loop import ACTOR, Actor
from longshore_lab.sim.stage import Chronicle, Line, SimBook, SimClock, SimWorld
from longshore_lab.trial import Trial
from longshore_lab.watch import watched

__all__ = ["Part", "Player", "Script"]

_SECOND = 1_000_000
_PATIENCE = 2.0
_NEVER = 1_000


class Script(msgspec.Struct, frozen=True, kw_only=True):
    """What is different from world to world, besides the faults; drawn from the seed."""

    trial: Trial
    workers: int
    schedulers: int
    concurrency: int
    claim_batch: int
    seconds: float
    """How long there is trouble."""

    @classmethod
    def drawn(cls, seed: int, rng: Random) -> "Script":
        """The script of a seed."""
        return cls(
            trial=Trial(
                url="sqlite://:memory:",
                folder="",
                seed=seed,
                jobs=rng.randint(4, 24),
                batch=rng.choice((1, 2, 5)),
                pace=rng.choice((0.0, 0.1, 1.0)),
                keyed_every=rng.choice((0, 1, 2)),
                lease_seconds=rng.choice((6.0, 10.0)),
                max_attempts=rng.randint(3, 5),
                slow_scale=rng.choice((0.1, 1.0, 4.0)),
                long_share=rng.choice((0.0, 0.1, 0.2)),
            ),
            workers=rng.choice((1, 2, 2, 3)),
            schedulers=rng.choice((0, 1, 1, 2)),
            concurrency=rng.choice((1, 2, 8)),
            claim_batch=rng.choice((1, 3, 8)),
            seconds=rng.choice((10.0, 20.0, 40.0)),
        )


class Part(msgspec.Struct, frozen=True):
    """Everything a player acts with."""

    script: Script
    engine: Engine
    book: SimBook
    clock: SimClock
    rng: Random
    chronicle: Chronicle
    world: SimWorld


class Player:
    """One actor at work, as the director sees it."""

    def __init__(self, role: str, actor: Actor, line: Line, part: Part) -> None:
        self.role = role
        self.actor = actor
        self.line = line
        self.drain: Callable[[], None] = lambda: None
        context = copy_context()
        context.run(ACTOR.set, actor)
        loop = asyncio.get_running_loop()
        self.task = loop.create_task(_ROLES[role](part, self), context=context)

    @property
    def is_over(self) -> bool:
        """It has played its part to the end, or was killed."""
        return self.actor.is_dead or self.task.done()


async def _produce(part: Part, player: Player) -> None:
    trial, rng = part.script.trial, part.rng

    def make_id() -> JobId:
        prefix = (part.clock.now() // 1000).to_bytes(6, "big")
        return JobId(prefix + tails(rng.randbytes(TAIL_BYTES))[0])

    sender = Sender(trial, _Patient(part.engine), part.book, make_id)
    written = [one for one in part.chronicle.entries if one.actor.startswith("producer")]
    for batch in open_batches(trial, written):
        await sender.send(batch)
        await asyncio.sleep(trial.pace)


class _Patient:
    """A producer's view of the engine: after a while it counts the answer as lost."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def submit(self, jobs: Sequence[NewJob], *, apart: bool = False) -> list[Submitted]:
        try:
            async with asyncio.timeout(_PATIENCE):
                return await self._engine.submit(jobs, apart=apart)
        except TimeoutError:
            raise EngineUnavailableError("no answer") from None


async def _work(part: Part, player: Player) -> None:
    trial, clock, rng = part.script.trial, part.clock, part.rng
    lease = int(trial.lease_seconds * _SECOND)
    app = mixed(trial, part.book, part.world)
    app.task(name=TYPE, keep_result=False)(keeping_book(part.book))
    worker = Worker(
        watched(part.engine, part.book),
        # Suspects would run in processes of their own, which no seed rules.
        Registry(task.handler(max_crashes=_NEVER) for task in app.tasks.values()),
        WorkerSettings(
            name=part.book.actor,
            concurrency=part.script.concurrency,
            claim_batch=part.script.claim_batch,
            lease=timedelta(microseconds=lease),
            drain_timeout=timedelta(seconds=2),
        ),
        clock=clock,
        rng=rng,
        ticks=[
            ("promote", _seldom(Promoter(part.engine, rng=rng).tick)),
            ("reclaim", Reclaimer(part.engine, lease=lease, clock=clock, rng=rng).tick),
        ],
    )
    player.drain = worker.drain
    await worker.run()


def _seldom(tick: Tick) -> Tick:
    """Ten times a second, as workers do it, is most of what would happen in a world."""

    async def tick_seldom() -> float:
        return max(await tick(), 1.0)

    return tick_seldom


async def _schedule(part: Part, player: Player) -> None:
    lease = int(part.script.trial.lease_seconds * _SECOND)
    scheduler = Scheduler(part.engine, lease=lease, clock=part.clock, rng=part.rng)
    player.drain = scheduler.drain
    await scheduler.run()


_ROLES: dict[str, Callable[[Part, Player], Coroutine[Any, Any, None]]] = {
    "producer": _produce,
    "worker": _work,
    "scheduler": _schedule,
}
