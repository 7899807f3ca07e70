"""Keeps jobs that may be what kills workers away from the others, as `core.poison` says.

A suspect goes to a child process. One that has to be alone waits until everything else here has
ended, and until the engine knows that it starts; then it runs, and for a while nothing else is
claimed. Both have their limits, so that one such job cannot keep a worker from its work.
"""

import logging
from collections.abc import Sequence
from random import Random
from typing import Any

from longshore.contract import Reference
from longshore.core import poison, settle
from longshore.core.job import Claim
from longshore.runtime.clock import SECOND
from longshore.worker.attempt import Stop
from longshore.worker.lease import NEVER, Standing
from longshore.worker.log_fields import facts
from longshore.worker.registry import Execution, Handler, Registry
from longshore.worker.settler import Settler
from longshore.worker.slots import Slots

__all__ = ["Guard"]

log = logging.getLogger("longshore.worker")

_PATIENCE = 10.0
"""Seconds in which other jobs may end, before one that should be alone runs beside them."""
_SOLITUDE = 60.0
"""Seconds for which a job that may have killed its workers is left alone."""
_SHORT_SOLITUDE = 5.0
"""The same for jobs whose workers vanished before their start was known: within a second."""
_PUT_OFF = 1.0
_LONGEST_PUT_OFF = 30.0


class Guard:
    """Sorts what was claimed, and runs one job at a time alone."""

    def __init__(
        self,
        registry: Registry,
        *,
        slots: Slots,
        settler: Settler,
        standing: Standing,
        rng: Random,
    ) -> None:
        self._registry = registry
        self._slots = slots
        self._settler = settler
        self._standing = standing
        self._clock = standing.clock
        self._rng = rng
        self._aside = slots.lanes.aside
        self._next: Claim | None = None
        """What waits for the others to end."""
        self._is_known = False
        """The engine knows of its start."""
        self._begin_by = NEVER
        self._alone: Reference | None = None
        """What runs alone."""
        self._alone_until = NEVER

    @property
    def is_shut(self) -> bool:
        """Nothing should be claimed now."""
        return self._alone is not None or bool(self._aside.claims)

    @property
    def is_start_due(self) -> bool:
        """The engine has to hear of a start before it happens."""
        return self._next is not None and not self._is_known and self._is_quiet()

    @property
    def delay(self) -> float:
        """Seconds until there is something to do here, whatever else happens."""
        until = self._alone_until if self._alone is not None else self._begin_by
        return max(until - self._clock.monotonic(), 0.0) if self.is_shut else NEVER

    def sort(self, claims: Sequence[Claim]) -> Sequence[Claim]:
        """Take those out that must not run as usual."""
        odd = [one for one in claims if one.crashes or one.lapses]
        taken: set[int] = set()
        late: list[Claim] = []
        for claim in odd:
            handler = self._registry.get(claim.type)
            if handler is not None and self._is_set_apart(claim, handler, late):
                taken.add(id(claim))
        self._put_off(late)
        return [one for one in claims if id(one) not in taken] if taken else claims

    def starts(self) -> list[Reference]:
        """The start that the engine has to hear of with this exchange."""
        if self._next is None or not self.is_start_due:
            return []
        return [(self._next.handle, self._next.delivery)]

    def started(self, starts: Sequence[Reference]) -> None:
        """The engine has heard of these."""
        if self._next is not None and (self._next.handle, self._next.delivery) in starts:
            self._is_known = True

    async def advance(self) -> None:
        """Do what is due: let a job be alone no longer, try one, or start one."""
        if self._alone is not None:
            is_over = self._alone not in self._slots.references()
            if not is_over and self._clock.monotonic() < self._alone_until:
                return
            self._alone = None
        if not self._aside.claims:
            self._next = None
        elif self._next is not self._aside.claims[0]:
            await self._summon(self._aside.claims[0])
        elif self._is_known and self._is_quiet():
            self._start(self._aside.claims.popleft())

    def _is_set_apart(self, claim: Claim, handler: Handler, late: list[Claim]) -> bool:
        lanes, most = self._slots.lanes, handler.max_crashes
        is_suspect = claim.crashes > 0 and poison.is_suspect(claim, most)
        is_isolated = is_suspect and lanes.isolation.takes(claim.type)
        is_exposed = is_suspect and not (is_isolated or handler.execution is Execution.PROCESS)
        if poison.runs_alone(claim, most) or is_exposed:
            if self.is_shut:
                late.append(claim)
            else:
                self._aside.add([claim], self._clock.monotonic())
            return True
        if is_isolated and not lanes.isolate(claim, self._clock.monotonic()):
            late.append(claim)
        return is_isolated

    def _put_off(self, late: list[Claim]) -> None:
        """There is no room for these for now. Each later than the last: they go one by one."""
        for place, claim in enumerate(late, 1):
            seconds = min(_PUT_OFF * place, _LONGEST_PUT_OFF) * self._rng.uniform(0.75, 1.25)
            self._settler.settle(claim, settle.put_off(claim, int(seconds * SECOND)))

    async def _summon(self, claim: Claim) -> None:
        """Look into its history, if there is enough of that, and make room for it."""
        handler = self._registry.get(claim.type)
        if handler is not None and poison.must_be_tried(claim, handler.max_crashes):
            history = await self._standing.history(claim.id)
            if not self._aside.claims or self._aside.claims[0] is not claim:
                return  # it was cancelled, or given back, meanwhile
            if poison.is_convicted(history):
                self._aside.claims.popleft()
                self._settler.settle(claim, settle.condemned(claim))
                log.warning("job dead", extra=self._facts(claim) | {"reason": "poison"})
                return
            now = self._standing.engine_time(self._clock.monotonic())
            wait = poison.rest(claim, history, max_crashes=handler.max_crashes, now=now)
            if wait:
                self._aside.claims.popleft()
                self._settler.settle(claim, settle.put_off(claim, wait))
                return
        self._next, self._is_known = claim, False
        self._begin_by = self._clock.monotonic() + _PATIENCE
        self._settler.release(self._slots.take_unstarted())
        log.info("job waits to run alone", extra=self._facts(claim))

    def _is_quiet(self) -> bool:
        """Nothing else runs, or it has been given time enough."""
        is_late = self._clock.monotonic() >= self._begin_by
        return is_late or all(one.stop is Stop.LOST for one in self._slots.attempts())

    def _start(self, claim: Claim) -> None:
        handler, now = self._registry.get(claim.type), self._clock.monotonic()
        most = poison.MAX_CRASHES if handler is None else handler.max_crashes
        is_suspect = claim.crashes > 0 and poison.is_suspect(claim, most)
        self._next, self._alone = None, (claim.handle, claim.delivery)
        self._alone_until = now + (_SOLITUDE if is_suspect else _SHORT_SOLITUDE)
        self._slots.run(claim, in_child=is_suspect)

    def _facts(self, claim: Claim) -> dict[str, Any]:
        doubts = {"crashes": claim.crashes, "lapses": claim.lapses}
        return facts(claim, self._standing.worker) | doubts
