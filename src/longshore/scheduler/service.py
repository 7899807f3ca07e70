"""The scheduler: nine ticks in one process, any number of processes on one store."""

import asyncio
import logging
import random
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

from longshore.contract import Engine
from longshore.operations.outbox_alarm import Watch
from longshore.runtime.background import beside
from longshore.runtime.clock import Clock, SystemClock
from longshore.runtime.ids import IdSource
from longshore.runtime.schema_watch import Outlook
from longshore.runtime.ticker import Beat
from longshore.scheduler.audit_chain import Chainer
from longshore.scheduler.breakers import BreakerWatch
from longshore.scheduler.fire import Firer
from longshore.scheduler.notify import Notifier
from longshore.scheduler.promote import Promoter
from longshore.scheduler.prune import Pruner
from longshore.scheduler.reclaim import Reclaimer
from longshore.scheduler.settings import Keeping

__all__ = ["Scheduler"]

log = logging.getLogger("longshore.scheduler")

DEFAULT_LEASE_US = 30_000_000


class Scheduler:
    """Promotes, reclaims, fires, prunes, notifies till drained. Stateless: kill it any time."""

    def __init__(
        self,
        engine: Engine,
        *,
        keeping: Keeping | None = None,
        lease: int = DEFAULT_LEASE_US,
        clock: Clock | None = None,
        rng: random.Random | None = None,
        on_ready: Callable[[int], None] | None = None,
    ) -> None:
        """`lease` is the fleet's longest; `on_ready` hears of every batch made ready here."""
        clock = clock or SystemClock()
        rng = rng or random.Random()
        keeping = keeping or Keeping()
        promoter = Promoter(engine, rng=rng, on_promoted=on_ready)
        reclaimer = Reclaimer(engine, lease=lease, clock=clock, rng=rng, on_reclaimed=on_ready)
        firer = Firer(engine, IdSource(clock), clock=clock, rng=rng, on_fired=on_ready)
        pruner = Pruner(engine, keeping.retention, rng=rng)
        self.watch = Watch(engine, most=keeping.most_unread, rng=rng)
        self._outlook = Outlook(engine.ping, on_refused=self.drain, rng=rng)
        self._beats = [
            Beat("promote", promoter.tick),
            Beat("reclaim", reclaimer.tick),
            Beat("fire", firer.tick),
            Beat("prune", pruner.tick),
            Beat("breakers", BreakerWatch(engine).tick),
            Beat("outbox", self.watch.tick),
            Beat("notify", Notifier(engine, IdSource(clock)).tick),
            Beat("audit", Chainer(engine, transitions=keeping.transitions).tick),
            Beat("schema", self._outlook.tick),
        ]

    async def run(self) -> None:
        """Return when drained; SchemaError when the store goes where it cannot follow."""
        log.info("scheduler started")
        async with asyncio.TaskGroup() as group:
            for beat in self._beats:
                group.create_task(beat.run(), name=f"longshore-{beat.name}")
        log.info("scheduler drained")
        self._outlook.leave()

    def running(self) -> AbstractAsyncContextManager[None]:
        """Run inside the block, drained at its end. What the block raises goes through."""
        return beside(self.run(), self.drain, name="longshore-scheduler")

    def drain(self) -> None:
        """Finish the ticks under way, then return from run."""
        for beat in self._beats:
            beat.stop()
