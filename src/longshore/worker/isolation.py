"""Child processes for suspects: jobs that may be what killed the workers they ran in.

A suspect has a fresh child to itself, whatever its task's execution is, so that nothing which
another job left behind in the process can be what kills it.
"""

import asyncio
import logging
from collections.abc import Callable, Collection
from dataclasses import replace
from functools import partial
from typing import Protocol

from longshore.core.job import Claim
from longshore.errors import ConfigError
from longshore.job_context import Reporter
from longshore.worker import child_protocol
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
        setup: child_protocol.Setup,
        limits: ChildLimits,
        *,
        on_ended: Callable[[list[Attempt]], None],
        on_unfit: Callable[[str], None],
    ) -> Processes:
        """A pool that has not been opened."""
        ...


class _Kind:
    """Types that the same children can run, and the pool of these children."""

    def __init__(self, types: Collection[str]) -> None:
        self.types = tuple(sorted(types))
        self.pool: Processes | None = None
        """None before the first suspect."""
        self.is_broken = False
        """No child can run these types, so no more suspects of them are taken."""


class Isolation:
    """Runs suspects. There is no child before the first of them.

    Children for the app's own tasks import the app. Children for built-in tasks do not, so
    they work where the app cannot be imported. Where a child cannot import what it needs, this
    is no fault of the worker: it takes no more suspects of these types, and gives back those
    that no child has.
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
        self._all_kinds = (
            _Kind(registry.isolated - registry.builtin),
            _Kind(registry.isolated & registry.builtin),
        )
        self._kinds = {name: kind for kind in self._all_kinds for name in kind.types}
        self._unfit: set[str] = set()
        """Types whose jobs need the worker's own process."""
        self.fault: BaseException | None = None
        """Never: see above."""

    @property
    def has_room(self) -> bool:
        """Another suspect would find a child, or be the reason to start one."""
        return self.room > 0

    @property
    def room(self) -> int:
        """For how many more there is a child."""
        return self._limits.most - len(self.running)

    @property
    def running(self) -> set[Attempt]:
        """Every suspect that was started and whose end the loop has not yet seen."""
        return {attempt for pool in self._pools for attempt in pool.running}

    def open(self, loop: asyncio.AbstractEventLoop, reporter: Reporter) -> None:
        """Work on this loop; what handlers say goes there."""
        self._loop = loop
        self._reporter = reporter

    def takes(self, type_name: str) -> bool:
        """Suspects of this type can be run here."""
        kind = self._kinds.get(type_name)
        if kind is None or type_name in self._unfit:
            return False
        if kind.pool is None and not kind.is_broken:
            kind.pool = self._opened(kind)
        return not kind.is_broken

    def start(self, attempt: Attempt) -> None:
        """Run it as soon as a child is there; its end comes through `on_ended`."""
        kind = self._kinds[attempt.claim.type]
        if kind.pool is None or kind.is_broken:
            self._on_refused([attempt.claim])
        else:
            kind.pool.start(attempt)

    def take_waiting(self) -> list[Claim]:
        """Take back what no child has yet."""
        return [claim for pool in self._pools for claim in pool.take_waiting()]

    async def close(self) -> None:
        """End every child."""
        for pool in self._pools:
            await pool.close()

    @property
    def _pools(self) -> list[Processes]:
        return [kind.pool for kind in self._all_kinds if kind.pool is not None]

    def _opened(self, kind: _Kind) -> Processes | None:
        try:
            origin = self._registry.origin(kind.types)
        except ConfigError as error:
            self._break(kind, error)
            return None
        pool = self._make(
            child_protocol.Setup.here(origin, kind.types, self._limits),
            self._limits,
            on_ended=partial(self._ended, kind),
            on_unfit=self._unfit.add,
        )
        pool.open(self._loop, self._reporter)
        return pool

    def _ended(self, kind: _Kind, ended: list[Attempt]) -> None:
        pool = kind.pool
        if pool is not None and pool.fault is not None and not kind.is_broken:
            self._break(kind, pool.fault)
            self._on_refused(pool.take_waiting())
        self._on_ended(ended)

    def _break(self, kind: _Kind, why: BaseException) -> None:
        kind.is_broken = True
        log.warning(
            "suspects run alone, not in child processes",
            extra={"error": str(why), "tasks": list(kind.types)},
        )
