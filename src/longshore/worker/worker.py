"""Worker: the parts put together, and how they start and end."""

import asyncio
import logging
import os
import socket
from collections.abc import Sequence
from dataclasses import replace
from random import Random

from longshore.contract import JobStore
from longshore.errors import LongshoreError
from longshore.observe.engine import metrics_of
from longshore.runtime.clock import Clock, SystemClock
from longshore.runtime.schema_watch import Outlook
from longshore.runtime.ticker import Beat, Tick
from longshore.worker.fetcher import Fetcher
from longshore.worker.flight_recorder import Flight
from longshore.worker.guard import Guard
from longshore.worker.hunger import Hunger
from longshore.worker.job_metrics import Meter
from longshore.worker.keeper import KeeperOffer, KeeperProcess
from longshore.worker.lease import Identity, Standing
from longshore.worker.lookout import Lookout
from longshore.worker.order import QueueOrder
from longshore.worker.outcome import Judge
from longshore.worker.own_tasks import guarding_loop, own_task
from longshore.worker.registry import Registry
from longshore.worker.renewer import Renewer
from longshore.worker.retry_budgets import Budgets
from longshore.worker.settings import WorkerSettings
from longshore.worker.settler import Settler
from longshore.worker.shutdown import Departure, Ending
from longshore.worker.slots import Slots
from longshore.worker.stats import WorkerStats
from longshore.worker.timeouts import Sweep

__all__ = ["Worker"]

log = logging.getLogger("longshore.worker")

_LEAVING = 1.5
_TIDYING = 0.2
_SHOWN_EVERY = 1.0
_LOOKS = 3
"""How often a hungry worker is seen to be hungry before it is called stuck."""


class Worker:
    """Claims jobs, runs their handlers and settles them, under one lease, in one event loop.

    `ticks` are run beside it, by name: a fleet that promotes and reclaims for itself needs no
    scheduler for its retries and recoveries. A worker runs once.
    """

    def __init__(
        self,
        engine: JobStore,
        registry: Registry,
        settings: WorkerSettings | None = None,
        *,
        clock: Clock | None = None,
        ticks: Sequence[tuple[str, Tick]] = (),
        rng: Random | None = None,
    ) -> None:
        settings = settings or WorkerSettings()
        self._settings = settings
        self._clock = clock or SystemClock()
        self._ticks = ticks
        self._has_run = False
        self.name = settings.name or f"{socket.gethostname()}:{os.getpid()}"
        self.stats = WorkerStats()
        self._metrics = metrics_of(engine)
        rng = rng or Random()
        lease = settings.lease.total_seconds()
        identity = Identity(
            worker=self.name,
            queues=QueueOrder(settings.queues).names,
            types=registry.types,
            lease=lease,
        )
        self._outlook = Outlook(
            engine.ping, on_refused=self._become_outdated, has_looked=True, rng=rng
        )
        self._identity = identity
        self._backoffs = registry.backoffs
        self.keeper: KeeperProcess | None = None
        """The process beside this one, while it runs with one."""
        self._departure = Departure()
        self._standing = Standing(
            engine, identity, clock=self._clock, stats=self.stats, rng=rng
        )
        self._hunger = Hunger(
            self._standing, every=settings.stuck_after.total_seconds() / _LOOKS
        )
        self._flight = Flight(self._standing.engine_time)
        budgets = Budgets(self._standing, rng)
        self._settler = Settler(
            self._standing,
            self._flight,
            Meter(self._metrics, budgets),
            log_successes=settings.log_successes,
        )
        judge = Judge(self._standing, budgets, rng)
        self._slots = Slots(
            registry,
            settings,
            standing=self._standing,
            settler=self._settler,
            judge=judge,
            flight=self._flight,
        )
        self._sweep = Sweep(
            self._slots,
            self._settler,
            judge=judge,
            departure=self._departure,
            clock=self._clock,
            on_worn_out=self._wear_out,
        )
        guard = Guard(
            registry,
            slots=self._slots,
            settler=self._settler,
            standing=self._standing,
            rng=rng,
        )
        self._fetcher = Fetcher(
            settings,
            slots=self._slots,
            settler=self._settler,
            sweep=self._sweep,
            guard=guard,
            departure=self._departure,
        )
        self._renewer = Renewer(
            self._standing,
            self._slots,
            self._settler,
            every=lease / 3,
            on_lost=self._fetcher.lose,
            on_quiet=self.drain,
        )

    @property
    def is_live(self) -> bool:
        """It has a session whose lease is not over: it can claim and settle."""
        return self._standing.is_live

    @property
    def able_at(self) -> float | None:
        """When it was last known to be able to claim; None before its first session."""
        answered, hungry = self._standing.answered, self._hunger.since
        return answered if answered is None or hungry is None else min(answered, hungry)

    @property
    def is_hungry(self) -> bool:
        """Jobs wait that it serves and asks for, and it gets none."""
        return self._hunger.since is not None

    @property
    def is_leaving(self) -> bool:
        """It was asked to go, or goes by itself."""
        return self._departure.ending is not None

    @property
    def begins_again(self) -> bool:
        """It is worn out, and goes for a fresh process to take its place."""
        return self._departure.ending is Ending.WORN_OUT

    async def run(
        self,
        *,
        until_idle: bool = False,
        horizon: float = 0.0,
        keeper: KeeperOffer | None = None,
        lookout: Lookout | None = None,
    ) -> Ending:
        """Work until asked to leave, or until there is nothing to do.

        Idle means: nothing runs here, nothing is ready, nothing is due within `horizon`
        seconds. Raises what broke the worker; a handler never does. SchemaError when the store
        goes where this code cannot follow, after a drain. Cancelling this is `stop_now`. With
        `keeper` a process beside this one keeps the lease, and reports this one's death; a
        `lookout` sees whether it can claim.
        """
        if self._has_run:
            raise LongshoreError("this worker has run; make another")
        self._has_run = True
        self._fetcher.until_idle = horizon if until_idle else None
        if keeper is not None:
            self._open_keeper(keeper)
        self._slots.open()
        self._metrics.refreshers.append(self._show_slots)
        beats = self._beats()
        if lookout is not None:
            beats.append(Beat("hunger", self._hunger.tick))
            lookout.record = self._flight.record
            lookout.start(self)
        tasks = [own_task(beat.run(), name=beat.name) for beat in beats]
        fetching = own_task(self._fetcher.run(), name="fetch")
        try:
            with guarding_loop(asyncio.get_running_loop()):
                await asyncio.shield(fetching)
        except asyncio.CancelledError:
            # What has ended is still settled, within a second: a job must not run twice
            # because someone was in a hurry.
            self.stop_now()
            await asyncio.wait([fetching], timeout=_LEAVING)
            raise
        finally:
            await self._tidy(beats, [*tasks, fetching], lookout)
        if self._departure.ending is Ending.OUTDATED:
            self._outlook.leave()
        return self._departure.ending or Ending.DRAINED

    def drain(self) -> None:
        """Stop claiming, give back what has not started, and leave when the rest has ended.

        Handlers that still run after the drain timeout are stopped; their jobs go back too.
        """
        self._leave(Ending.DRAINED, self._settings.drain_timeout.total_seconds())

    def stop_now(self) -> None:
        """Leave within a second: handlers are stopped, their jobs go back uncharged."""
        self._leave(Ending.DRAINED, 0.0)

    def give_up(self) -> None:
        """Leave as after `drain`, because it is stuck."""
        self._leave(Ending.STUCK, self._settings.drain_timeout.total_seconds())

    def nudge(self) -> None:
        """Look for work now."""
        self._fetcher.nudge()

    def _wear_out(self) -> None:
        self._leave(Ending.WORN_OUT, self._settings.drain_timeout.total_seconds())

    def _become_outdated(self) -> None:
        self._leave(Ending.OUTDATED, self._settings.drain_timeout.total_seconds())

    def _leave(self, ending: Ending, patience: float) -> None:
        facts = {"worker": self.name, "ending": str(ending), "patience": patience}
        log.info("worker asked to leave", extra=facts)
        self._departure.ask(ending, self._clock.monotonic() + patience)
        self._standing.leave_at = self._departure.leave_by
        self._settler.release(self._slots.take_waiting())
        self._sweep.wake()
        self._fetcher.look()

    def _beats(self) -> list[Beat]:
        beats = [
            self._sweep.beat,
            self._fetcher.lost.beat,
            Beat("renew", self._renewer.tick),
            Beat("schema", self._outlook.tick),
            Beat("meter", self._tell_every_second),
        ]
        beats += [Beat(name, tick) for name, tick in self._ticks]
        if self.keeper is not None:
            beats.append(Beat("keeper", self.keeper.tick))
        return beats

    async def _tell_every_second(self) -> float:
        self._show_slots()
        self._settler.successes.turn()
        return _SHOWN_EVERY

    def _show_slots(self) -> None:
        slots, gauge = self._slots, self._metrics.worker_slots
        gauge.set(slots.rooms - slots.free, "busy")
        gauge.set(slots.free, "free")
        gauge.set(slots.waiting, "waiting")

    async def _tidy(
        self, beats: list[Beat], tasks: Sequence[asyncio.Task[None]], lookout: Lookout | None
    ) -> None:
        for beat in beats:
            beat.stop()
        self._metrics.refreshers.remove(self._show_slots)
        self._settler.successes.turn()
        await self._slots.close()
        await self._settler.hooks.close()
        await asyncio.wait(tasks, timeout=_TIDYING)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks, timeout=_TIDYING)
        await self._standing.close()
        if self.keeper is not None:
            await self.keeper.close()
        if lookout is not None:
            lookout.stop()

    def _open_keeper(self, offer: KeeperOffer) -> None:
        rooms, clock, stats = self._settings.concurrency, self._clock, self.stats
        try:
            self.keeper = KeeperProcess(
                replace(offer, backoffs=self._backoffs),
                self._identity,
                rooms=rooms,
                clock=clock,
                stats=stats,
            )
        except (AttributeError, OSError) as error:
            # It takes Linux 5.3. Without one the worker renews its lease itself, as ever.
            log.warning("no keeper here", extra={"worker": self.name, "error": str(error)})
            return
        self._standing.record = self._flight.record = self.keeper.record
        self.keeper.start()
