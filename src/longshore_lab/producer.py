"""The producer: sends the orders of a mix, and can be killed at any moment.

Its successor reads what it wrote down and sends again whatever was not answered for: the same
ids, which the queue must recognise, or the same idempotency keys under new ids.
"""

import asyncio
from collections.abc import Callable
from itertools import count
from typing import Protocol

import msgspec

from longshore.contract import Producer
from longshore.core import codec, ids
from longshore.core.job import JobId, NewJob
from longshore.errors import EngineError
from longshore.runtime.ids import IdSource
from longshore_lab import ledger
from longshore_lab.batch import Batch, open_batches
from longshore_lab.ledger import Book, Ledger
from longshore_lab.loops import Depths, arrive, keep_up
from longshore_lab.mix import Order
from longshore_lab.records import SubmitAcknowledged, SubmitCalled, SubmitUnknown
from longshore_lab.trial import Trial

__all__ = ["Load", "Sender", "produce"]

_AGAIN = 0.05


class Load(Producer, Depths, Protocol):
    """As much of an engine as a producer needs."""


async def produce(trial: Trial, engine: Load, book: Ledger) -> None:
    """Send everything that no producer before had an answer for."""
    sender = Sender(trial, engine, book, IdSource().make)
    written = ledger.read(trial.ledgers, of="producer-*").entries
    batches = open_batches(trial, written)
    if trial.rate:
        await arrive(trial, batches, sender.send)
    elif trial.in_flight:
        await keep_up(trial, engine, batches, sender.send)
    else:
        for batch in batches:
            await sender.send(batch)
            await asyncio.sleep(trial.pace)


class Sender:
    """Sends batches, and writes down what it sends and what it hears."""

    def __init__(
        self, trial: Trial, engine: Producer, book: Book, make_id: Callable[[], JobId]
    ) -> None:
        self._trial = trial
        self._mix = trial.mix
        self._engine = engine
        self._book = book
        self._make_id = make_id

    async def send(self, batch: Batch) -> None:
        """Call submit until it answers."""
        for number in count(1):
            if await self._call(batch, f"{batch.number}.{number}"):
                return
            await asyncio.sleep(_AGAIN)

    async def _call(self, batch: Batch, name: str) -> bool:
        """Whether an answer came. Without one the jobs may be sent again, by anyone."""
        jobs = {seq: self._job(batch, self._mix.order(seq)) for seq in batch.orders}
        self._write_called(name, jobs)
        batch.known.update((seq, ids.text(job.id)) for seq, job in jobs.items())
        try:
            answers = await self._engine.submit(list(jobs.values()))
        except EngineError as error:
            self._book.write(SubmitUnknown(self._book.now(), name, str(error)))
            return False
        at = self._book.now()
        self._book.write(
            *(
                SubmitAcknowledged(
                    at, ids.text(job.id), seq, name, ids.text(answer.id), answer.verdict
                )
                for (seq, job), answer in zip(jobs.items(), answers, strict=True)
            )
        )
        return True

    def _job(self, batch: Batch, order: Order) -> NewJob:
        every = self._trial.keyed_every
        has_keys = every > 0 and batch.number % every == 0
        known = None if has_keys else batch.known.get(order.seq)
        job = NewJob(
            id=ids.parse(known) if known else self._make_id(),
            type=order.kind,
            payload=codec.encode({"seq": order.seq}),
            max_attempts=self._trial.max_attempts,
            idempotency_key=f"order {order.seq}" if has_keys else None,
        )
        if not has_keys:
            return job
        return msgspec.structs.replace(job, fingerprint=codec.fingerprint(job))

    def _write_called(self, name: str, jobs: dict[int, NewJob]) -> None:
        at = self._book.now()
        self._book.write(
            *(
                SubmitCalled(
                    at,
                    ids.text(job.id),
                    seq,
                    name,
                    self._mix.order(seq).fate,
                    job.max_attempts,
                    job.idempotency_key,
                )
                for seq, job in jobs.items()
            )
        )
