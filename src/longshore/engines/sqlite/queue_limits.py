"""How many jobs of a queue a claim may take."""

from collections import Counter
from collections.abc import Iterable
from functools import lru_cache, partial

import msgspec

from longshore.core import limit_settings
from longshore.core.limit_settings import Order, QueueSettings
from longshore.engines.sqlite.sql import SQL
from longshore.engines.sqlite.transaction import Transaction
from longshore.runtime.decoding import RecordName, decode_or

__all__ = ["Limits", "free", "said"]


class _Limited(msgspec.Struct):
    settings: QueueSettings
    running: int
    empty_at: int | None
    vtime: int


class Limits:
    """What holds for the queues of one claim, and what it takes of them."""

    def __init__(self, transaction: Transaction) -> None:
        self._db = transaction.db
        self._now = transaction.now
        self._queues = {
            queue: _Limited(_read(queue, settings), running, empty_at, vtime)
            for queue, settings, running, empty_at, vtime in _flows(transaction)
        }
        self.look_in: int | None = None
        """When it pays to ask again, if anything was held back."""

    def room(self, queue: str) -> int:
        """How many jobs of the queue may be taken."""
        it = self._queues.get(queue)
        if it is None:
            return limit_settings.NO_LIMIT
        return limit_settings.room(
            it.settings, running=it.running, empty_at=it.empty_at, now=self._now
        )

    def fair_at(self, queue: str) -> int | None:
        """How far a queue is whose tenants take turns; None for any other."""
        it = self._queues.get(queue)
        return it.vtime if it is not None and it.settings.order is Order.FAIR else None

    def took(self, queue: str, jobs: int) -> None:
        """So many were taken."""
        it = self._queues.get(queue)
        if it is None or not jobs:
            return
        it.running += jobs
        it.empty_at = limit_settings.took(it.settings, it.empty_at, jobs=jobs, now=self._now)
        scope = {"queue": queue, "jobs": jobs, "empty_at": it.empty_at}
        self._db.execute(SQL.flow_took, scope)

    def hold_back(self, queue: str) -> None:
        """More of the queue would have been taken."""
        it = self._queues[queue]
        look = limit_settings.look_in(it.settings, it.empty_at, now=self._now)
        self.look_in = look if self.look_in is None else min(look, self.look_in)

    @property
    def full(self) -> set[str]:
        """The queues of which as many run as may."""
        return {
            queue
            for queue, it in self._queues.items()
            if it.settings.max_running is not None and it.running >= it.settings.max_running
        }


def free(transaction: Transaction, queues: Iterable[str]) -> None:
    """Jobs of these queues have ended, one for each mention."""
    db = transaction.db
    limited = {
        queue: (most, running)
        for queue, settings, running, *_ in _flows(transaction)
        if (most := _read(queue, settings).max_running) is not None
    }
    if not limited:
        return
    for queue, jobs in Counter(queues).items():
        if queue in limited:
            most, running = limited[queue]
            db.execute(SQL.flow_free, {"queue": queue, "jobs": jobs})
            if running >= most > running - jobs:
                transaction.freed.add(queue)


def said(transaction: Transaction) -> dict[str, QueueSettings]:
    """What holds for queues of which something is said."""
    return {queue: _read(queue, settings) for queue, settings, *_ in _flows(transaction)}


def _flows(transaction: Transaction) -> list[tuple[str, str, int, int | None, int]]:
    if not transaction.ruled.by_limits:
        return []
    return transaction.db.execute(SQL.flows).fetchall()


@lru_cache(maxsize=1_024)
def _read(queue: str, settings: str) -> QueueSettings:
    """What holds for a queue. Nothing of it is handed out while that cannot be decoded."""
    read = partial(msgspec.json.decode, settings, type=QueueSettings)
    return decode_or(QueueSettings(max_running=0), read, RecordName("queue", queue))
