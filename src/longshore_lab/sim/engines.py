"""The engines that can live in a simulation: the model, and SQLite with its real SQL."""

import asyncio
from collections.abc import Callable

from longshore.contract import Engine
from longshore.engines.sqlite import submission
from longshore.engines.sqlite.connection import Store
from longshore.engines.sqlite.engine import SqliteEngine
from longshore.engines.sqlite.ordering_key_queries import DepthSource
from longshore.engines.sqlite.writer import Writer
from longshore.runtime.backpressure import Depths
from longshore.runtime.clock import Clock
from longshore.testing.model import ModelEngine

__all__ = ["ENGINES", "Opener"]

Opener = Callable[[Clock], Engine]


class _WriterHere(Writer):
    """Writes in the calling thread."""

    def _hand_over(self, loop: asyncio.AbstractEventLoop) -> None:
        calls = self._gathered.pop(loop, None)
        if calls is not None:
            self._serve(calls)


class _SqliteHere(SqliteEngine):
    """SQLite without a thread of its own, and without a look at a clock that is real."""

    def __init__(self, clock: Clock) -> None:
        store = Store(path=":memory:", clock=clock)
        super().__init__(store)
        self._depths = Depths(DepthSource(self._read), clock.monotonic)
        self._writer = _WriterHere(store, submission.submit, self._waker.wake)


ENGINES: dict[str, Opener] = {"model": ModelEngine, "sqlite": _SqliteHere}
"""By the name they have on the command line."""
