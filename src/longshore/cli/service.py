"""Processes that stay: a worker, a scheduler, a relay, or all in one."""

import socket
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from longshore.app import Longshore
from longshore.cli import api, event_sinks, logs, metrics, wiring
from longshore.cli.tail import Tail
from longshore.core import units
from longshore.relay.service import RelayService
from longshore.relay.sink import Sink
from longshore.runtime.process import loop_factory, settle_in
from longshore.runtime.ticker import Tick
from longshore.scheduler.service import Scheduler
from longshore.settings import Settings
from longshore.worker.health import Sign
from longshore.worker.keeper import KeeperOffer
from longshore.worker.lookout import Lookout
from longshore.worker.self_signals import refusing_self_signals
from longshore.worker.shutdown import Ending
from longshore.worker.signals import drained_by_signals, run_to_end
from longshore.worker.worker import Worker

__all__ = ["relay", "run", "schedule", "work", "work_and_schedule"]

T = TypeVar("T")


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run it to its end, on the fastest event loop that is installed."""
    settle_in()
    return run_to_end(main, loop_factory=loop_factory())


async def work(
    app: Longshore,
    settings: Settings,
    port: metrics.Port,
    *,
    signs: Sequence[Sign] = (),
    on_open: Callable[[], None] | None = None,
) -> Ending:
    """Work until a signal, or until the worker is worn out or stuck; `signs` show how it is.

    It promotes and reclaims too, so that a fleet without a scheduler retries and recovers;
    over HTTP the service does.
    """
    async with app:
        store = app.store
        wiring.refuse_private(store)
        ticks: list[tuple[str, Tick]] = []
        if store.traits.maintenance:
            lease = units.microseconds(settings.worker.lease)
            ticks = wiring.recovery(app.engine, lease=lease, on_ready=lambda _: worker.nudge())
        worker = Worker(
            store,
            app.registry(
                logs.style(settings.log),
                isolated=app.tasks,
                max_crashes=settings.worker.max_crashes,
            ),
            settings.worker,
            clock=wiring.CLOCK,
            ticks=ticks,
        )
        await app.declare()
        async with metrics.told(app, port):
            with drained_by_signals(worker), refusing_self_signals():
                if on_open is not None:
                    on_open()
                return await worker.run(
                    keeper=_keeper(app, settings, port), lookout=_lookout(settings, signs)
                )


async def schedule(app: Longshore, settings: Settings, port: metrics.Port) -> None:
    """Keep the queue in order until a signal."""
    async with app:
        wiring.refuse_private(app.store)
        scheduler = _scheduler(app, settings)
        await app.store_schedules()
        async with metrics.told(app, port, of_queue=True):
            with drained_by_signals(_Prompt(scheduler)):
                await scheduler.run()


async def relay(
    app: Longshore, settings: Settings, sinks: Sequence[Sink], port: metrics.Port
) -> None:
    """Ship events until a signal."""
    async with app:
        wiring.refuse_private(app.store)
        found = event_sinks.service(app, settings, sinks)
        async with metrics.told(app, port):
            with drained_by_signals(_Prompt(found)):
                await found.run()


async def work_and_schedule(
    app: Longshore, settings: Settings, listening: socket.socket | None = None
) -> Ending:
    """Both in one process until a signal, with a line for everything that happens.

    With a socket that listens, the HTTP service too.
    """
    async with app:
        tail = Tail(app.engine)
        await tail.skip()
        ticks = [("tail", tail.tick)]
        worker = Worker(
            app.engine,
            app.registry(
                logs.style(settings.log),
                isolated=app.tasks if app.engine.traits.shared_between_processes else (),
                max_crashes=settings.worker.max_crashes,
            ),
            # The tail tells of those.
            replace(settings.worker, log_successes=0),
            clock=wiring.CLOCK,
            ticks=ticks,
        )
        scheduler = _scheduler(app, settings, on_ready=lambda _: worker.nudge())
        await app.declare()
        async with (
            scheduler.running(),
            event_sinks.beside(app, settings),
            api.beside(app, settings, listening),
        ):
            with drained_by_signals(worker), refusing_self_signals():
                return await worker.run()


class _Prompt:
    """A service that finishes the tick it is in; there is nothing sooner to ask of it."""

    def __init__(self, service: Scheduler | RelayService) -> None:
        self.drain = service.drain
        self.stop_now = service.drain


def _keeper(app: Longshore, settings: Settings, port: metrics.Port) -> KeeperOffer | None:
    if not settings.worker.keeper:
        return None
    log, worker = settings.log, settings.worker
    return KeeperOffer(
        url=app.url,
        log_level=log.level,
        logs_json=logs.is_json(log),
        metrics_folder=None if port.folder is None else str(port.folder),
        stuck_after=worker.stuck_after.total_seconds(),
        exit_when_stuck=worker.exit_when_stuck,
        ready_file=worker.ready_file,
    )


def _lookout(settings: Settings, signs: Sequence[Sign]) -> Lookout:
    worker = settings.worker
    return Lookout(
        after=worker.stuck_after.total_seconds(),
        clock=wiring.CLOCK,
        signs=signs,
        exits=worker.exit_when_stuck,
        patience=worker.drain_timeout.total_seconds(),
    )


def _scheduler(
    app: Longshore, settings: Settings, on_ready: Callable[[int], None] | None = None
) -> Scheduler:
    scheduler = Scheduler(
        app.engine,
        keeping=settings.keeping,
        lease=units.microseconds(settings.worker.lease),
        clock=wiring.CLOCK,
        on_ready=on_ready,
    )
    scheduler.watch.on_look = metrics.noting(app)
    return scheduler
