"""A steward's calls, written into a ledger: what it buried, and which due times it fired."""

from collections.abc import Sequence
from typing import Any

from longshore.contract import Engine, Lapsed
from longshore.contract.forwarding import ForwardingEngine
from longshore.core.job import Settlement, Submitted
from longshore.core.schedule import Firing
from longshore_lab.ledger import Book
from longshore_lab.records import Fired, Reclaimed

__all__ = ["noted"]


def noted(engine: Engine, book: Book) -> Engine:
    """The same engine; whoever reclaims or fires through it writes down the answers."""
    return _Noted(engine, book)


class _Noted(ForwardingEngine):
    def __init__(self, engine: Engine, book: Book) -> None:
        super().__init__(engine)
        self._book = book
        self._workers: dict[int, str] = {}

    async def expired_sessions(self, **arguments: Any) -> list[Lapsed]:
        found = await self._inner.expired_sessions(**arguments)
        self._workers |= {one.token: one.worker for one in found}
        return found

    async def end_session(
        self, token: int, settlements: Sequence[Settlement], *, grace: int | None = None
    ) -> int:
        called = self._book.now()
        jobs = await self._inner.end_session(token, settlements, grace=grace)
        worker = self._workers.get(token, "unknown")
        self._book.write(Reclaimed(self._book.now(), called, worker, jobs))
        return jobs

    async def fire(self, firing: Firing) -> list[Submitted]:
        called = self._book.now()
        jobs = await self._inner.fire(firing)
        due = firing.expected
        self._book.write(Fired(self._book.now(), called, firing.name, due, len(jobs)))
        return jobs
