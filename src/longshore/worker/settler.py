"""Collects what has ended, until the next exchange takes it to the engine."""

import logging
from collections import Counter
from collections.abc import Container, Iterable, Sequence

import msgspec

from longshore.contract import Reference
from longshore.core import settle
from longshore.core.job import Claim, Settlement
from longshore.core.state import Verb
from longshore.worker.attempt import Attempt, Stop
from longshore.worker.flight_recorder import Flight
from longshore.worker.hooks import Hooks
from longshore.worker.job_metrics import Meter
from longshore.worker.lease import Standing
from longshore.worker.log_fields import Successes
from longshore.worker.wakeup import Bell

__all__ = ["Batch", "Settler"]

log = logging.getLogger("longshore.worker")


class Batch(msgspec.Struct, frozen=True):
    """What one exchange settles, and what to count once it is accepted."""

    settlements: list[Settlement]
    claims: list[Claim]
    """Of each settlement, what it settles."""
    attempts: int
    """How many of them are attempts that ended, and not jobs given back."""
    special: list[Settlement]
    """Those that are not plain successes."""
    cells: list[int]
    """Where the flight record tells of the attempts."""
    cancelled: list[Attempt]
    """Those that were cancelled and have hooks."""

    def only(self, references: Container[Reference]) -> "Batch":
        """What of it settles these claims."""
        pairs = [
            (claim, one)
            for claim, one in zip(self.claims, self.settlements, strict=True)
            if (one.handle, one.delivery) in references
        ]
        return Batch(
            settlements=[one for _, one in pairs],
            claims=[claim for claim, _ in pairs],
            attempts=0,
            special=[one for one in self.special if (one.handle, one.delivery) in references],
            cells=[],
            cancelled=[one for one in self.cancelled if one.reference in references],
        )


class Settler:
    """Holds the attempts that ended and the claims to give back. Nothing leaves it twice."""

    def __init__(
        self, standing: Standing, flight: Flight, meter: Meter, *, log_successes: int
    ) -> None:
        self.standing = standing
        self._flight = flight
        self._meter = meter
        self.successes = Successes(standing.worker, log_successes)
        self._stats = standing.stats
        self._decided: list[tuple[Claim, Settlement]] = []
        self._left: list[Attempt] = []
        self._sent: Batch | None = None
        self.ended: list[Attempt] = []
        """Appended to directly by the slots; the same list for ever."""
        self.ring_at = 1
        """How many ended attempts are worth waking the fetcher for."""
        self.bell = Bell()
        self.hooks = Hooks(on_idle=self.bell.set)

    def __len__(self) -> int:
        return len(self.ended) + len(self._decided)

    def add(self, attempts: Iterable[Attempt]) -> None:
        """Take attempts that ended elsewhere than in a slot coroutine."""
        for attempt in attempts:
            if attempt.stop is not Stop.LOST:
                self.ended.append(attempt)
            elif attempt.cell >= 0:
                self._flight.release([attempt.cell])
        if len(self.ended) >= self.ring_at:
            self.bell.set()

    def release(self, claims: Sequence[Claim]) -> None:
        """Give back jobs that never started."""
        if claims:
            log.info("jobs released", extra={"count": len(claims)})
            self._decided.extend((claim, settle.released(claim)) for claim in claims)
            self.bell.set()

    def settle(self, claim: Claim, settlement: Settlement) -> None:
        """Settle a claim that no handler runs for."""
        self._decided.append((claim, settlement))
        self.bell.set()

    def leave(self, attempt: Attempt, settlement: Settlement) -> None:
        """Settle an attempt whose handler is left behind; whatever it does now is lost."""
        attempt.stop = Stop.LOST
        self.settle(attempt.claim, settlement)
        if _is_hooked(attempt, settlement):
            self._left.append(attempt)

    def references(self) -> Iterable[Reference]:
        """The claims that are held only to be settled, those on their way included."""
        yield from (attempt.reference for attempt in self.ended)
        sent = self._sent.settlements if self._sent else []
        decided = (one for _, one in self._decided)
        yield from ((one.handle, one.delivery) for one in [*decided, *sent])

    def forget(self) -> Batch:
        """The session is gone, and with it the right to settle; what was not known to be."""
        sent, rest = self._sent, self.take()
        self._sent = None
        batches = [rest] if sent is None else [sent, rest]
        self._flight.release([cell for one in batches for cell in one.cells])
        return Batch(
            settlements=[settled for one in batches for settled in one.settlements],
            claims=[claim for one in batches for claim in one.claims],
            attempts=0,
            special=[settled for one in batches for settled in one.special],
            cells=[],
            cancelled=[attempt for one in batches for attempt in one.cancelled],
        )

    def take(self) -> Batch:
        """Everything there is, as one batch."""
        ended = self.ended[:]
        self.ended.clear()
        put_by, self._decided = self._decided, []
        decided = [one for _, one in put_by]
        # Built in one go, for this is done for every job.
        offset = self.standing.engine_time(0.0)
        succeeded = settle.succeeded
        settlements = [
            attempt.settlement
            or succeeded(
                attempt.claim,
                started_at=offset + int(attempt.started * 1e6),
                finished_at=offset + int(attempt.finished * 1e6),
                result=attempt.result,
            )
            for attempt in ended
        ]
        special = [one.settlement for one in ended if one.settlement is not None] + decided
        cells = [cell for attempt in ended if (cell := attempt.cell) >= 0]
        cancelled, self._left = self._left, []
        if special:
            cancelled += [one for one in ended if _is_hooked(one, one.settlement)]
        claims = [attempt.claim for attempt in ended] + [claim for claim, _ in put_by]
        self._sent = Batch(
            settlements=settlements + decided,
            claims=claims,
            attempts=len(ended),
            special=special,
            cells=cells,
            cancelled=cancelled,
        )
        return self._sent

    def accepted(self, batch: Batch, stale: Sequence[Reference]) -> None:
        """The engine has applied the batch, except for what it found stale."""
        # What a lost session had left may be accepted while this one's batch is on its way.
        if batch is self._sent:
            self._sent = None
        if not batch.settlements:
            return
        self._flight.release(batch.cells)
        stats = self._stats
        verbs = Counter(one.verb for one in batch.special)
        stats.succeeded += len(batch.settlements) - len(batch.special)
        failures = [one.failure for one in batch.special if one.failure and one.charge]
        stats.failed += len(failures)
        stats.timeouts += sum(why.kind == "timeout" for why in failures)
        stats.retried += verbs[Verb.RETRY]
        stats.snoozed += verbs[Verb.SNOOZE]
        stats.dead += verbs[Verb.KILL]
        stats.cancelled += verbs[Verb.CANCEL]
        stats.released += verbs[Verb.RELEASE]
        refused = set(stale)
        self._meter.count(
            batch.claims, batch.settlements, special=len(batch.special), refused=refused
        )
        self.successes.tell(batch.claims, batch.settlements)
        for attempt in batch.cancelled:
            if attempt.reference not in refused:
                self.hooks.run(attempt)
        for handle, delivery in stale:
            stats.stale += 1
            log.warning("settlement refused", extra={"handle": handle, "delivery": delivery})


def _is_hooked(attempt: Attempt, settlement: Settlement | None) -> bool:
    """It ran, ends as cancelled, and its task wants to do something about that."""
    return (
        settlement is not None
        and settlement.verb is Verb.CANCEL
        and settlement.started_at is not None
        and bool(attempt.handler.on_cancelled)
    )
