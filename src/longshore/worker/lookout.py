"""Sees from a thread of its own whether a worker can still claim, and says so when it cannot.

A thread, because the event loop may be what stands still. It cannot run either while a handler
holds the interpreter; that case is the keeper's, who misses the thread (`keeper.watch`).
"""

import asyncio
import faulthandler
import logging
import os
import tempfile
import threading
from collections.abc import Sequence
from typing import Protocol

from longshore.runtime.clock import Clock
from longshore.runtime.flight import FlightRecord
from longshore.worker.health import Condition, Health, Sign

__all__ = ["EXIT_STUCK", "Lookout", "Watched"]

log = logging.getLogger("longshore.worker")

EXIT_STUCK = 76
"""A worker leaves with this when it is stuck and was told to leave then."""

_EVERY = 1.0
_LONGEST_GAP = 5 * _EVERY
_LOOKS = 8
_HEARING = 5.0
"""Seconds in which an event loop that is alive hears that it should give up."""
_LEAVING = 3.0
"""Seconds that a worker may need to leave, beside those it waits for its jobs."""
_JOINING = 1.0
_CALLS = 3


class Watched(Protocol):
    """What is seen of a worker; asked from another thread than the worker's."""

    @property
    def able_at(self) -> float | None:
        """When it was last known to be able to claim; None before its first session."""
        ...

    @property
    def is_hungry(self) -> bool:
        """Jobs wait that it serves and asks for, and it gets none."""
        ...

    @property
    def is_leaving(self) -> bool:
        """It was asked to go."""
        ...

    @property
    def begins_again(self) -> bool:
        """It goes for a fresh process to take its place."""
        ...

    def give_up(self) -> None:
        """Leave, because it is stuck. Called on the worker's event loop."""
        ...


class Lookout:
    """Looks every second; a worker that could not claim for `after` seconds is stuck.

    Whoever has nothing to claim is not stuck, nor is whoever has no room for more. Time in
    which this process did not run does not count.
    """

    def __init__(
        self,
        *,
        after: float,
        clock: Clock,
        signs: Sequence[Sign] = (),
        exits: bool = False,
        patience: float = 0.0,
    ) -> None:
        """With `exits` a stuck worker is ended, `patience` seconds after it was asked to go."""
        self._after = after
        self._clock = clock
        self._signs = signs
        self._exits = exits
        self._patience = patience
        self._watched: Watched
        self._loop: asyncio.AbstractEventLoop | None = None
        self._owner = 0
        self._counted_from = self._looked = 0.0
        self._heard = 0.0
        """When the event loop last answered."""
        self._is_asked = False
        self._asked_to_go: float | None = None
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self.record: FlightRecord | None = None
        """Tells the keeper that this thread runs."""
        self.health = Health(Condition.STARTING)
        """As of the last look; what a health endpoint should answer."""

    def start(self, watched: Watched) -> None:
        """Watch from now on; to be called on the event loop of the watched."""
        self._loop = asyncio.get_running_loop()
        self._owner = threading.get_ident()
        self.begin(watched)
        self._thread = threading.Thread(target=self._run, name="lookout", daemon=True)
        self._thread.start()

    def begin(self, watched: Watched) -> None:
        """Count from now; whoever has no thread calls `look` as well."""
        self._watched = watched
        self._counted_from = self._looked = self._heard = self._clock.monotonic()
        self._show()

    def stop(self) -> None:
        """The worker leaves; whatever shows that it is ready is taken down."""
        self._over.set()
        if self._thread is not None:
            self._thread.join(_JOINING)
        self.health = self._parting()
        self._show()

    def look(self) -> None:
        """See how the worker is, and say so if that has changed."""
        now = self._clock.monotonic()
        if now - self._looked > _LONGEST_GAP:
            self._counted_from = self._heard = now
        self._looked = now
        if self.record is not None:
            self.record.glance(now)
        self._ask_loop()
        before, self.health = self.health, self._judge(now)
        if self.health.condition is not before.condition:
            self._tell(before, now)
        self._show()
        if self._exits and self._asked_to_go is None and self._is_stuck:
            self._ask_to_go(now)
        self._end_if_overdue(now)

    @property
    def _is_stuck(self) -> bool:
        return self.health.condition is Condition.STUCK

    def _run(self) -> None:
        while not self._over.wait(min(_EVERY, self._after / _LOOKS)):
            self.look()

    def _ask_loop(self) -> None:
        # One question at a time: a loop that stands still is not buried under them.
        if self._loop is not None and not self._is_asked and not self._loop.is_closed():
            self._is_asked = True
            self._loop.call_soon_threadsafe(self._hear)

    def _hear(self) -> None:
        self._is_asked, self._heard = False, self._clock.monotonic()

    def _judge(self, now: float) -> Health:
        if self._watched.is_leaving:
            return self._parting()
        able_at = self._watched.able_at
        silent = now - max(able_at or 0.0, self._counted_from)
        if silent >= self._after:
            return Health(Condition.STUCK, self._reason(now))
        return Health(Condition.STARTING if able_at is None else Condition.READY)

    def _parting(self) -> Health:
        if self._watched.begins_again:
            # Not leaving: systemd would wait for the end of the process, and then kill it.
            return Health(Condition.STARTING, "it is worn out, and begins again")
        return Health(Condition.LEAVING)

    def _reason(self, now: float) -> str:
        if self._is_frozen(now):
            return "the event loop stands still"
        if self._watched.is_hungry:
            return "jobs wait that it serves, and it gets none"
        return "the engine does not answer"

    def _is_frozen(self, now: float) -> bool:
        """The event loop has not answered for long."""
        return self._loop is not None and now - self._heard >= self._after / 2

    def _tell(self, before: Health, now: float) -> None:
        if self._is_stuck:
            facts: dict[str, object] = {"why": self.health.why, "seconds": self._after}
            if self._is_frozen(now) and (place := self._place()):
                facts["at"] = place
            log.error("worker is stuck", extra=facts)
        elif before.condition is Condition.STUCK and self.health.is_ready:
            log.warning("worker can claim again")

    def _place(self) -> str | None:
        """Where the event loop's thread is, innermost first: the handler that blocks it."""
        with tempfile.TemporaryFile() as page:
            faulthandler.dump_traceback(page, all_threads=True)
            page.seek(0)
            told = page.read().decode(errors="replace")
        _, _, mine = told.partition(f"0x{self._owner:016x} ")
        calls = mine.partition("\n\n")[0].splitlines()[1:][:_CALLS]
        return " < ".join(call.strip().removeprefix("File ") for call in calls) or None

    def _show(self) -> None:
        for sign in self._signs:
            sign.show(self.health)

    def _ask_to_go(self, now: float) -> None:
        self._asked_to_go = now
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._watched.give_up)

    def _end_if_overdue(self, now: float) -> None:
        """Leave for a worker that was asked to, and does not come to it."""
        if self._asked_to_go is None or self._over.is_set():
            return
        limit = self._patience + _LEAVING if self._watched.is_leaving else _HEARING
        if now - self._asked_to_go >= limit or self._is_frozen(now):
            log.error("stuck worker ended", extra={"why": self.health.why})
            os._exit(EXIT_STUCK)
