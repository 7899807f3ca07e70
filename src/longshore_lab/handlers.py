"""The tasks of the mix: each writes into the ledger what it does, and asks the world once."""

import asyncio
import os

from longshore.app import Longshore
from longshore.job_context import current_job
from longshore_lab.effects import World
from longshore_lab.ledger import Book
from longshore_lab.mix import Kind
from longshore_lab.records import EffectApplied, Outcome, RunBegan, RunEnded
from longshore_lab.trial import Trial

__all__ = ["OrderFailedError", "mixed"]


class OrderFailedError(Exception):
    """The order fails because its mix says so."""


def mixed(trial: Trial, ledger: Book, world: World) -> Longshore:
    """An app with a task for every kind of order."""
    app = Longshore(trial.url)
    workshop = _Workshop(trial, ledger, world)
    for kind in Kind:
        app.task(name=kind, retry_base=0.05, retry_cap=0.5, keep_result=False)(workshop.fill)
    return app


class _Workshop:
    def __init__(self, trial: Trial, ledger: Book, world: World) -> None:
        self._mix = trial.mix
        self._ledger = ledger
        self._ask = world.apply if trial.sabotage == "effects" else world.apply_once
        self._pid = os.getpid()

    async def fill(self, seq: int) -> None:
        job = current_job()
        name, delivery, failures = job.id, job.delivery, job.failures
        order = self._mix.order(seq)
        write = self._ledger.write
        write(RunBegan(self._ledger.now(), name, seq, delivery, job.attempt, self._pid))
        try:
            await asyncio.sleep(order.seconds)
        except asyncio.CancelledError:
            write(RunEnded(self._ledger.now(), name, delivery, Outcome.STOPPED))
            raise
        if failures < order.failures:
            write(RunEnded(self._ledger.now(), name, delivery, Outcome.RAISED))
            raise OrderFailedError(f"order {seq} fails, as it should")
        is_first = self._ask(seq)
        at = self._ledger.now()
        write(
            EffectApplied(at, name, seq, delivery, is_first),
            RunEnded(at, name, delivery, Outcome.RETURNED),
        )
