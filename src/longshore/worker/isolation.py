"""Child processes for suspects: jobs that may be what killed the workers they ran in.

A suspect has a fresh child to itself, whatever its task's execution is, so that nothing which
another job left behind in the process can be what kills it.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from longshore.core.job import Claim
from longshore.errors import ConfigError
from longshore.running import Reporter
from longshore.worker import wire
from longshore.worker.attempt import Attempt
from longshore.worker.processes import Processes
from longshore.worker.registry import Registry
from longshore.worker.settings import ChildLimits

__all__ = ["Isolation", "MakePool"]

log = logging.getLogger("longshore.worker")


class MakePool(Protocol):
    """Makes a pool of child processes."""

    def __call__(
        self,
        setup: wire.Setup,
        limits: ChildLimits,
        *,
        on_ended: Callable[[list[Attempt]], None],
        on_unfit: Callable[[str], None],
    ) -> Processes:
        """A pool that has not been opened."""
        ...


class Isolation:
    """Runs suspects. There is no child before the first of them.

    Where the tasks cannot be imported in a child, this is no fault of the worker: it takes no
    more suspects, and gives back those that no child has.
    """

    def __init__(
        self,
        registry: Registry,
        limits: ChildLimits,
        make: MakePool,
        *,
        on_ended: Callable[[list[Attempt]], None],
        on_refused: Callable[[list[Claim]], None],
    ) -> None:
        self._registry = registry
        self._limits = replace(limits, jobs=1)
        self._make = make
        self._on_ended = on_ended
        self._on_refused = on_refused
        self._loop: asyncio.AbstractEventLoop
        self._reporter: Reporter
        self._pool: Processes | None = None
        self._unfit: set[str] = set()
        """Types whose jobs need the worker's own process."""
        self._is_broken = False
        self.fault: BaseException | None = None
        """Never: see above."""

    @property
    def has_room(self) -> bool:
        """Another suspect would find a child, or be the reason to start one."""
        return self._pool is not None and not self._is_broken and self._pool.has_room

    @property
    def room(self) -> int:
        """For how many more there is a child."""
        return self._limits.most - len(self.running)

    @property
    def running(self) -> set[Attempt]:
        """Every suspect that was started and whose end the loop has not yet seen."""
        return set() if self._pool is None else self._pool.running

    def open(self, loop: asyncio.AbstractEventLoop, reporter: Reporter) -> None:
        """Work on this loop; what handlers say goes there."""
        self._loop = loop
        self._reporter = reporter

    def takes(self, type_name: str) -> bool:
        """Suspects of this type can be run here."""
        if type_name not in self._registry.isolated or type_name in self._unfit:
            return False
        if self._pool is None and not self._is_broken:
            self._pool = self._opened()
        return not self._is_broken

    def start(self, attempt: Attempt) -> None:
        """Run it as soon as a child is there; its end comes through `on_ended`."""
        if self._pool is not None:
            self._pool.start(attempt)

    def take_waiting(self) -> list[Claim]:
        """Take back what no child has yet."""
        return [] if self._pool is None else self._pool.take_waiting()

    async def close(self) -> None:
        """End every child."""
        if self._pool is not None:
            await self._pool.close()

    def _opened(self) -> Processes | None:
        types = tuple(sorted(self._registry.isolated))
        try:
            setup = wire.Setup.here(self._registry.origin(types), types, self._limits)
        except ConfigError as error:
            self._break(error)
            return None
        pool = self._make(setup, self._limits, on_ended=self._ended, on_unfit=self._unfit.add)
        pool.open(self._loop, self._reporter)
        return pool

    def _ended(self, ended: list[Attempt]) -> None:
        pool = self._pool
        if pool is not None and pool.fault is not None and not self._is_broken:
            self._break(pool.fault)
            self._on_refused(pool.take_waiting())
        self._on_ended(ended)

    def _break(self, why: BaseException) -> None:
        self._is_broken = True
        log.warning("suspects run alone, not in child processes", extra={"error": str(why)})
