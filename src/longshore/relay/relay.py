"""Read what a sink has not seen, hand it over, and note how far it has come.

One relay at a time reads for a sink, the others stand by; so what a sink gets is in order. A
relay that dies between handing over and noting hands the same events over again, with the
same ids.
"""

import logging
import random
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from longshore.contract.outbox import Outbox
from longshore.core.consumer import Cursor, Quarantined
from longshore.core.event import EXPENDABLE, Event, EventBatch
from longshore.core.outbox_batch import next_portion
from longshore.errors import CursorLostError, EngineBusyError, EngineUnavailableError
from longshore.records import quarantine
from longshore.relay.sink import Refused, Sink, SinkError

__all__ = ["MOST_EVENTS", "Relay", "RelayStats", "TimedOutbox"]

log = logging.getLogger("longshore.relay")

LEASE_US = 10_000_000
_BATCHES = 500
MOST_EVENTS = 5_000
"""At one handing over. When a relay is killed, that is what may be handed over twice; or all
of a batch that is larger."""
_PAUSE = 0.05
_STANDBY = 1.0
_FIRST_RETRY, _LONGEST_RETRY = 0.1, 3.0
"""Seconds. The longest is well within a lease."""
_SECOND = 1_000_000


@dataclass(slots=True)
class RelayStats:
    """What a relay has done for a sink since it started, and how far it is behind."""

    sink: str
    is_active: bool = False
    """It reads for the sink; else another does, or none can."""
    sent: int = 0
    left_out: int = 0
    """Progress that was not handed over, because the sink was far behind."""
    quarantined: int = 0
    failures: int = 0
    """Times that the sink was not able to take events."""
    lag_seconds: float = 0.0
    """How old the last event was when it was handed over."""


class TimedOutbox(Outbox, Protocol):
    """An outbox's engine that also tells its time: a relay's clock may be wrong."""

    async def now(self) -> int:
        """The engine's clock, microseconds since the epoch."""
        ...


class Relay:
    """Ships events to one sink. Any number of them may run for the same sink at once."""

    def __init__(
        self,
        outbox: TimedOutbox,
        sink: Sink,
        *,
        holder: str,
        lease: int = LEASE_US,
        most_late: float = 60.0,
    ) -> None:
        """Progress that is older than `most_late` seconds is left out while catching up."""
        self._outbox = outbox
        self._sink = sink
        self._holder = holder
        self._lease = lease
        self._most_late = most_late
        self._rng = random.Random()
        self._cursor: Cursor | None = None
        self._position = 0
        self._waiting: list[EventBatch] = []
        self._into = 0
        """Events of the first batch that waits which are handed over already."""
        self._retry = _FIRST_RETRY
        self._is_down = False
        self._is_leaving = False
        self.stats = RelayStats(sink.name)

    async def tick(self) -> float:
        """Hand over what there is; look again in a moment, at once while there is more."""
        cursor = self._cursor or await self._take()
        if cursor is None:
            return _STANDBY * self._rng.uniform(0.75, 1.25)
        try:
            return await self._ship(cursor)
        except CursorLostError:
            self._lose()
            log.warning("cursor lost", extra={"sink": self._sink.name})
            return _STANDBY
        except SinkError as error:
            return self._complain(error)

    def leave(self) -> None:
        """Wait no longer for a sink that takes its time."""
        self._is_leaving = True

    async def close(self) -> None:
        """Let another relay go on at once."""
        cursor = self._cursor
        self._lose()
        await self._sink.close()
        if cursor is not None:
            with suppress(CursorLostError):
                await self._outbox.advance(cursor, position=self._position, releases=True)

    async def _take(self) -> Cursor | None:
        cursor = await self._outbox.take_cursor(
            self._sink.name, holder=self._holder, lease=self._lease
        )
        if cursor is None:
            return None
        self._cursor, self._position, self._waiting, self._into = cursor, cursor.position, [], 0
        self.stats.is_active = True
        facts = {"sink": self._sink.name, "position": cursor.position}
        log.info("relay reads", extra=facts)
        if cursor.gone_at is not None:
            log.error("events may be missing", extra={**facts, "since": cursor.gone_at})
        return cursor

    def _lose(self) -> None:
        self._cursor, self._waiting, self.stats.is_active = None, [], False

    async def _ship(self, cursor: Cursor) -> float:
        batches = self._waiting
        if not batches:
            batches = await self._outbox.events(
                after=self._position, limit=_BATCHES, cursor=cursor
            )
        if not batches:
            self.stats.lag_seconds = 0.0
            return _PAUSE

        async def keep() -> None:
            await self._hold(cursor)

        self._waiting = batches
        now, began = await self._outbox.now(), time.monotonic()
        portion = next_portion(batches, MOST_EVENTS, into=self._into)
        events = self._timely(portion.events, now)
        refused = await self._sink.send(events, keep=keep)
        last = batches[max(portion.passed - 1, 0)]
        reached = last.position if portion.passed else self._position
        aside = [quarantine.put(self._aside(one), one.event.tenant) for one in refused]
        await self._outbox.advance(cursor, position=reached, quarantined=aside)
        self._waiting, self._into = batches[portion.passed :], portion.into
        self._position = reached
        self._note(portion.events, sent=len(events) - len(refused), refused=len(refused))
        self._note_lag(last.at, now + int((time.monotonic() - began) * _SECOND))
        return 0.0 if self._waiting or len(batches) == _BATCHES else _PAUSE

    def _timely(self, events: list[Event], now: int) -> list[Event]:
        """Without progress that comes too late to be of use."""
        oldest = now - int(self._most_late * _SECOND)
        return [one for one in events if one.at >= oldest or one.name not in EXPENDABLE]

    async def _hold(self, cursor: Cursor) -> None:
        """Keep the cursor while the sink takes its time."""
        if self._is_leaving:
            raise SinkError("the relay leaves")
        try:
            # A store that is away is no loss yet: nobody can take the cursor either.
            await self._outbox.events(after=self._position, limit=1, cursor=cursor)
            self._note_lag(self._waiting[0].at, await self._outbox.now())
        except (EngineBusyError, EngineUnavailableError, TimeoutError):
            log.debug("cursor not extended", extra={"sink": self._sink.name})

    def _aside(self, one: Refused) -> Quarantined:
        facts = {"sink": self._sink.name, "event_id": one.event.id, "reason": one.reason}
        log.error("event quarantined", extra={**facts, "name_of_event": str(one.event.name)})
        return Quarantined(
            self._sink.name,
            one.event.id,
            one.event.name,
            one.event.job_id,
            one.reason,
            one.body,
        )

    def _note(self, events: list[Event], *, sent: int, refused: int) -> None:
        stats = self.stats
        stats.sent += sent
        stats.quarantined += refused
        stats.left_out += len(events) - sent - refused
        if self._is_down:
            log.info("sink takes events again", extra={"sink": stats.sink})
        self._is_down, self._retry = False, _FIRST_RETRY

    def _note_lag(self, at: int, now: int) -> None:
        self.stats.lag_seconds = max((now - at) / _SECOND, 0.0)

    def _complain(self, error: SinkError) -> float:
        self.stats.failures += 1
        if not self._is_down and not self._is_leaving:
            log.warning(
                "sink unavailable", extra={"sink": self._sink.name, "error": str(error)}
            )
        self._is_down = True
        pause, self._retry = self._retry, min(self._retry * 2, _LONGEST_RETRY)
        return pause * self._rng.uniform(0.75, 1.25)
