"""The parts that are played, by the product's own code: from producers to relays."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from contextvars import copy_context
from datetime import timedelta
from random import Random
from typing import Any

import msgspec

from longshore.contract import Engine
from longshore.core import ids
from longshore.core.ids import TAIL_BYTES, tails
from longshore.core.job import JobId, NewJob, Submitted
from longshore.core.state import State
from longshore.errors import (
    EngineError,
    EngineUnavailableError,
    IllegalTransitionError,
    JobNotFoundError,
)
from longshore.relay.relay import Relay
from longshore.relay.sink import Sink
from longshore.runtime.ticker import Beat, Tick
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
from longshore_lab.records import (
    CancelAnswer,
    CancelAnswered,
    CancelCalled,
    SubmitCalled,
)
from longshore_lab.sim.loop import ACTOR, Actor
from longshore_lab.sim.stage import Chronicle, Line, SimBook, SimClock, SimWorld
from longshore_lab.stewards import noted
from longshore_lab.trial import Trial
from longshore_lab.watch import watched

__all__ = ["Part", "Player", "Script"]

_SECOND = 1_000_000
_PATIENCE = 2.0
_NEVER = 1_000
_MOST_CANCELS = 6
_RELAY_LEASE = 3 * _SECOND


class Script(msgspec.Struct, frozen=True, kw_only=True):
    """What is different from world to world, besides the faults; drawn from the seed."""

    trial: Trial
    workers: int
    schedulers: int
    relays: int
    cancellers: int
    concurrency: int
    claim_batch: int
    seconds: float
    """How long there is trouble."""
    has_steps: bool
    """Clocks are set, too."""
    dozes: bool
    """Who is stopped may not know it afterwards."""

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
            relays=rng.choice((0, 1, 2)),
            cancellers=rng.choice((0, 1)),
            concurrency=rng.choice((1, 2, 8)),
            claim_batch=rng.choice((1, 3, 8)),
            seconds=rng.choice((10.0, 20.0, 40.0)),
            has_steps=rng.random() < 0.35,
            dozes=rng.random() < 0.5,
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
    sink: Sink


class Player:
    """One actor at work, as the director sees it."""

    def __init__(self, role: str, actor: Actor, line: Line, part: Part) -> None:
        self.role = role
        self.actor = actor
        self.line = line
        self.clock = part.clock
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

    async def submit(
        self,
        jobs: Sequence[NewJob],
        *,
        independent: bool = False,
        max_wait: float | None = None,
    ) -> list[Submitted]:
        try:
            async with asyncio.timeout(_PATIENCE):
                return await self._engine.submit(
                    jobs, independent=independent, max_wait=max_wait
                )
        except TimeoutError:
            raise EngineUnavailableError("no answer") from None


async def _work(part: Part, player: Player) -> None:
    trial, clock, rng = part.script.trial, part.clock, part.rng
    lease = int(trial.lease_seconds * _SECOND)
    app = mixed(trial, part.book, part.world)
    app.task(name=TYPE, keep_result=False)(keeping_book(part.book))
    steward = noted(part.engine, part.book)
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
            ("reclaim", Reclaimer(steward, lease=lease, clock=clock, rng=rng).tick),
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
    engine = noted(part.engine, part.book)
    scheduler = Scheduler(engine, lease=lease, clock=part.clock, rng=part.rng)
    player.drain = scheduler.drain
    await scheduler.run()


async def _cancel(part: Part, player: Player) -> None:
    rng, book = part.rng, part.book
    for _ in range(rng.randint(1, _MOST_CANCELS)):
        await asyncio.sleep(rng.random() * rng.choice((0.1, 1.0, 5.0)))
        sent = [
            one.record.job
            for one in part.chronicle.entries
            if isinstance(one.record, SubmitCalled)
        ]
        # The newest are those that workers are about to claim.
        some = sent[-3:] if rng.random() < 0.7 else sent
        if not some:
            continue
        job, called = rng.choice(some), book.now()
        book.write(CancelCalled(called, job))
        answer = await _ask_to_cancel(part.engine, job)
        if answer is not None:
            book.write(CancelAnswered(book.now(), called, job, answer))


async def _ask_to_cancel(engine: Engine, job: str) -> CancelAnswer | None:
    try:
        async with asyncio.timeout(_PATIENCE):
            (found,) = await engine.change(
                "cancel", [ids.parse(job)], reason="no longer wanted"
            )
    except JobNotFoundError:
        return CancelAnswer.NO_JOB
    except IllegalTransitionError:
        return CancelAnswer.TOO_LATE
    except (EngineError, TimeoutError):
        return None
    is_over = found.state is State.CANCELLED
    return CancelAnswer.CANCELLED if is_over else CancelAnswer.ASKED


class _Relay(Relay):
    def __init__(self, part: Part) -> None:
        super().__init__(part.engine, part.sink, holder=part.book.actor, lease=_RELAY_LEASE)
        self._rng = part.rng


async def _ship(part: Part, player: Player) -> None:
    relay = _Relay(part)
    beat = Beat("relay", _seldom(relay.tick))
    player.drain = beat.stop
    await beat.run()
    with suppress(EngineError):
        await relay.close()


_ROLES: dict[str, Callable[[Part, Player], Coroutine[Any, Any, None]]] = {
    "producer": _produce,
    "worker": _work,
    "scheduler": _schedule,
    "canceller": _cancel,
    "relay": _ship,
}
