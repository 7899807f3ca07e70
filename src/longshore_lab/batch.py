"""The calls of a producer: which orders travel together."""

from collections.abc import Iterable, Iterator

import msgspec

from longshore_lab.records import Entry, SubmitAcknowledged, SubmitCalled
from longshore_lab.trial import Trial

__all__ = ["Batch", "open_batches"]


class Batch(msgspec.Struct):
    """The jobs of one call, with the ids an earlier producer gave them."""

    number: int
    orders: range
    known: dict[int, str]


def open_batches(trial: Trial, written: Iterable[Entry]) -> Iterator[Batch]:
    """Every batch of the trial that was not wholly answered for, in order."""
    known: dict[int, str] = {}
    answered: set[int] = set()
    for entry in written:
        match entry.record:
            case SubmitCalled() as called:
                known[called.seq] = called.job
            case SubmitAcknowledged() as answer:
                answered.add(answer.seq)
            case _:
                pass
    for number, first in enumerate(range(0, trial.jobs, trial.batch)):
        orders = range(first, min(first + trial.batch, trial.jobs))
        if not answered.issuperset(orders):
            yield Batch(number, orders, {seq: known[seq] for seq in orders if seq in known})
