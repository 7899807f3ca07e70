"""One process of a trial: producer, worker, scheduler, relay, HTTP service, or clerk.

Started by a fleet: `python -m longshore_lab.actor ROLE NAME TRIAL`.
"""

import asyncio
import ctypes
import logging
import os
import signal
import sys
import threading
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import NoReturn

from longshore.contract import Engine
from longshore.relay.service import RelayService
from longshore.relay.settings import RelaySettings
from longshore.scheduler.promote import Promoter
from longshore.scheduler.reclaim import Reclaimer
from longshore.scheduler.service import Scheduler
from longshore.worker.keeper import KeeperOffer
from longshore.worker.registry import Registry
from longshore.worker.settings import WorkerSettings
from longshore.worker.worker import Worker
from longshore_lab.clerk import keep_book
from longshore_lab.clock import DozingClock
from longshore_lab.effects import Effects
from longshore_lab.handlers import mixed
from longshore_lab.ledger import Ledger
from longshore_lab.producer import produce
from longshore_lab.relayed import FileSink
from longshore_lab.sabotage import open_planted
from longshore_lab.trial import Trial
from longshore_lab.watch import Talk, watched

__all__ = ["main"]

_SECOND = 1_000_000
_PR_SET_PDEATHSIG = 1
_NEVER = 1_000


def main() -> None:
    """Play the part until it is over, or until the fleet is gone."""
    role, name, packed = sys.argv[1:]
    if sys.platform == "linux":
        # One that is stopped reads no pipe.
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if role == "api":
        _serve(Trial.unpack(packed))
    threading.Thread(target=_leave_with_the_fleet, daemon=True).start()
    logging.basicConfig(level=logging.ERROR)
    asyncio.run(_play(_ROLES[role], Trial.unpack(packed), role=role, name=name))


async def _play(part: "_Part", trial: Trial, *, role: str, name: str) -> None:
    place = trial.entrance if role == "producer" else trial.url
    engine = open_planted(place, trial.sabotage)
    book = Ledger(trial.ledgers, name, role=role)
    try:
        await part(trial, engine, book)
    finally:
        await engine.close()


async def _work(trial: Trial, engine: Engine, book: Ledger) -> None:
    app = mixed(trial, book, Effects(trial.world))
    clock = DozingClock()
    lease = int(trial.lease_seconds * _SECOND)
    worker = Worker(
        watched(engine, book, clock, Talk(trial.talk(book.actor))),
        # Handlers write into this process's ledger, so suspects cannot run in children; and
        # without children a fleet that is hit again and again cannot tell whose doing it was.
        Registry(task.handler(max_crashes=_NEVER) for task in app.tasks.values()),
        WorkerSettings(
            concurrency=trial.concurrency,
            lease=timedelta(microseconds=lease),
            drain_timeout=timedelta(seconds=trial.drain_seconds),
            name=book.actor,
        ),
        clock=clock,
        ticks=[
            ("promote", Promoter(engine).tick),
            ("reclaim", Reclaimer(engine, lease=lease).tick),
        ],
    )
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, worker.drain)
    await worker.run(keeper=_keeper(trial))


def _keeper(trial: Trial) -> KeeperOffer | None:
    return KeeperOffer(url=trial.url, log_level="error") if trial.has_keepers else None


async def _schedule(trial: Trial, engine: Engine, book: Ledger) -> None:
    scheduler = Scheduler(engine, lease=int(trial.lease_seconds * _SECOND))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, scheduler.drain)
    await scheduler.run()


async def _relay(trial: Trial, engine: Engine, book: Ledger) -> None:
    settings = RelaySettings(lease=timedelta(seconds=trial.lease_seconds / 3))
    service = RelayService(engine, [FileSink(trial.topic)], settings)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, service.drain)
    await service.run()


def _serve(trial: Trial) -> NoReturn:
    """Become the service as users have it."""
    words = ("--url", trial.url, "api", "--host", "127.0.0.1", "--port", f"{trial.door}")
    environment = {**os.environ, "LONGSHORE_LOG_LEVEL": "error"}
    os.execve(sys.executable, [sys.executable, "-m", "longshore", *words], environment)


_Part = Callable[[Trial, Engine, Ledger], Awaitable[None]]
_ROLES: dict[str, _Part] = {
    "producer": produce,
    "worker": _work,
    "scheduler": _schedule,
    "relay": _relay,
    "clerk": keep_book,
}


def _leave_with_the_fleet() -> None:
    # Not through sys.stdin: a thread that waits there cannot be left behind at the end.
    os.read(0, 1)
    os._exit(1)


if __name__ == "__main__":
    main()
