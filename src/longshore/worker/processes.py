"""Runs tasks with `execution="process"`, each job alone in one of the worker's children.

Children are never forks of the worker: it has threads, connections and an event loop that no
fork may touch. They are reused, so a job waits for a start only when the
crew grows, or when its predecessor was killed.
"""

import asyncio
from collections import deque
from collections.abc import Callable

from longshore.core import poison, settle
from longshore.core.job import Claim
from longshore.errors import PayloadError
from longshore.job_context import Reporter
from longshore.runtime.clock import SECOND
from longshore.worker import child_protocol, seccomp_guard
from longshore.worker.attempt import Attempt, Stop
from longshore.worker.flight_recorder import Flight
from longshore.worker.lease import NEVER
from longshore.worker.outcome import Judge
from longshore.worker.pace import Pace
from longshore.worker.process_pool import Crew
from longshore.worker.process_tree import rss_bytes
from longshore.worker.settings import ChildLimits
from longshore.worker.spawned import Spawned
from longshore.worker.starter import Start

__all__ = ["Processes"]

_WATCH = 0.05
"""Seconds between two looks at the memory of jobs that have a limit."""
_DELIVERIES = 3
"""Children that may die before they begin an order, until the job counts as the cause."""


class _Seat:
    """An attempt in the pool: it waits for a child, or has one."""

    __slots__ = ("attempt", "child", "deliveries", "excess_bytes", "pool")

    def __init__(self, pool: "Processes", attempt: Attempt) -> None:
        self.pool = pool
        self.attempt = attempt
        self.child: Spawned | None = None
        self.deliveries = 0
        self.excess_bytes = 0
        """What its child held when that was too much."""

    def cancel(self) -> None:
        """The attempt was told to stop."""
        self.pool.stop(self)


class Processes:
    """Runs each attempt in a child process that has nothing else to do."""

    def __init__(
        self,
        start: Start,
        limits: ChildLimits,
        *,
        judge: Judge,
        flight: Flight,
        on_ended: Callable[[list[Attempt]], None],
        on_unfit: Callable[[str], None],
    ) -> None:
        self._limits = limits
        self._on_unfit = on_unfit
        self._clock = judge.clock
        self._judge = judge
        self._flight = flight
        self._on_ended = on_ended
        self._loop: asyncio.AbstractEventLoop
        self._reporter: Reporter
        self._crew = Crew(
            start,
            limits,
            on_report=self._reported,
            on_progress=self._progressed,
            on_gone=self._gone,
            on_change=self._call_collect,
        )
        self._waiting: deque[_Seat] = deque()
        self._seats: dict[Spawned, _Seat] = {}
        self._ended: list[Attempt] = []
        self._is_called = False
        self._pace = Pace(limits.most)
        self._watching: asyncio.TimerHandle | None = None
        self.running: set[Attempt] = set()
        """Every attempt that was started and whose end the loop has not yet seen."""

    @property
    def has_room(self) -> bool:
        """Another attempt would find a child, or be the reason to start one."""
        return len(self.running) < self._limits.most

    @property
    def room(self) -> int:
        """How many more attempts could begin within moments."""
        return self._limits.most - len(self.running) + self._pace.ahead

    @property
    def fault(self) -> BaseException | None:
        """What keeps the pool from running anything: never a handler's doing."""
        return self._crew.fault

    @property
    def children(self) -> list[int]:
        """The process ids of all children, those on their way out included."""
        return self._crew.pids

    def open(self, loop: asyncio.AbstractEventLoop, reporter: Reporter) -> None:
        """Work on this loop; what handlers say goes there."""
        self._loop = loop
        self._reporter = reporter
        self._crew.open(loop)

    def start(self, attempt: Attempt) -> None:
        """Run the attempt as soon as a child is free; its end comes through `on_ended`."""
        self.running.add(attempt)
        seat = _Seat(self, attempt)
        attempt.task = seat
        self._wait(seat)
        self._dispatch()

    def take_waiting(self) -> list[Claim]:
        """Take back what no child has yet."""
        waiting, self._waiting = self._waiting, deque[_Seat]()
        for seat in waiting:
            seat.attempt.task = None
            self.running.discard(seat.attempt)
        return [seat.attempt.claim for seat in waiting]

    def stop(self, seat: _Seat) -> None:
        """Tell the handler, and kill it if it does not end in time."""
        child, attempt = seat.child, seat.attempt
        if child is None:
            self._waiting.remove(seat)
            is_cancel = attempt.stop is Stop.CANCEL
            attempt.settlement = (
                settle.cancelled(attempt.claim, "cancel was requested")
                if is_cancel
                else settle.released(attempt.claim)
            )
            self._collect_soon(seat)
        elif attempt.stop is Stop.LOST:
            # Someone else may run the job by now, so this one must not go on.
            child.kill()
        else:
            child.terminate()
            child.kill_after(self._limits.grace)

    async def close(self) -> None:
        """End every child, whatever it does. When this returns, none is left."""
        if self._watching is not None:
            self._watching.cancel()
        await self._crew.close()

    def _wait(self, seat: _Seat) -> None:
        # What no child has yet has not started: there is nothing to tell the engine.
        attempt = seat.attempt
        attempt.is_start_known, attempt.deadline, attempt.finished = True, NEVER, 0.0
        self._waiting.append(seat)

    def _dispatch(self) -> None:
        """Give what waits to idle children, and have as many as are needed, and one ahead."""
        while self._waiting and (child := self._crew.take()) is not None:
            self._order(child, self._waiting.popleft())
        self._crew.grow(max(len(self._waiting), int(bool(self.running))))

    def _order(self, child: Spawned, seat: _Seat) -> None:
        attempt = seat.attempt
        timeout = attempt.claim.timeout
        seconds = None if timeout is None else timeout / SECOND
        attempt.started = now = self._clock.monotonic()
        attempt.deadline = NEVER if seconds is None else now + seconds
        attempt.is_start_known = False
        # One that has taken a worker along from inside a child must not do so again; where
        # nothing keeps it from that, its worker's death speaks against it as if it ran there.
        is_feared = poison.is_feared(attempt.claim, attempt.handler.max_crashes)
        is_fenced = is_feared and seccomp_guard.is_possible()
        self._flight.begin(attempt, in_child=is_fenced or not is_feared)
        seat.child = child
        seat.deliveries += 1
        self._seats[child] = seat
        beyond = seccomp_guard.targets() if is_fenced else ()
        child.send(child_protocol.Order(attempt.claim, seconds, self._reporter.now(), beyond))
        if self._watching is None and self._memory_limit(seat) is not None:
            self._watching = self._loop.call_later(_WATCH, self._watch)

    def _progressed(self, child: Spawned, said: child_protocol.Progress) -> None:
        seat = self._seats.get(child)
        if seat is not None:
            self._reporter.report(seat.attempt, said.fraction, said.message)

    def _reported(self, child: Spawned, report: child_protocol.Report) -> None:
        seat = self._seats.pop(child)
        attempt, judge = seat.attempt, self._judge
        attempt.finished = self._clock.monotonic()
        if isinstance(report, child_protocol.Returned):
            attempt.result = report.result
            attempt.settlement = judge.returned(attempt)
        elif isinstance(report, child_protocol.Raised):
            attempt.settlement = judge.raised(attempt, report.error())
        elif isinstance(report, child_protocol.Undecodable):
            attempt.settlement = judge.undecodable(attempt, PayloadError(report.message))
        elif isinstance(report, child_protocol.Unstorable):
            attempt.settlement = judge.unstorable(attempt, report.message)
        elif isinstance(report, child_protocol.Unfit):
            attempt.settlement = judge.misplaced(attempt)
            if report.is_for_good:
                self._on_unfit(attempt.claim.type)
        if attempt.stop:
            self._crew.discard(child)
        else:
            self._crew.give_back(child, report)
        self._end(seat)

    def _gone(self, child: Spawned) -> None:
        seat = self._seats.pop(child, None)
        if seat is None:
            return
        attempt, judge = seat.attempt, self._judge
        seat.child = None
        if child.was_reset and not attempt.stop and seat.deliveries < _DELIVERIES:
            # It was dead before it could begin: the job had nothing to do with it.
            if attempt.cell >= 0:
                self._flight.release([attempt.cell])
                attempt.cell = -1
            self._wait(seat)
            return
        attempt.finished = self._clock.monotonic()
        if seat.excess_bytes:
            limit = self._memory_limit(seat) or 0
            attempt.settlement = judge.exceeded(attempt, seat.excess_bytes, limit)
        elif attempt.stop:
            grace = self._limits.grace
            why = settle.failure("killed", f"it did not stop within {grace:g} s")
            attempt.settlement = judge.raised(attempt, child_protocol.ForeignError(why))
        else:
            attempt.settlement = judge.crashed(attempt, child.epitaph)
        self._end(seat)

    def _end(self, seat: _Seat) -> None:
        self._flight.end(seat.attempt)
        self._collect_soon(seat)

    def _collect_soon(self, seat: _Seat) -> None:
        seat.child = None
        seat.attempt.task = None
        self._ended.append(seat.attempt)
        self._call_collect()

    def _call_collect(self) -> None:
        if not self._is_called:
            self._is_called = True
            self._loop.call_soon(self._collect)

    def _collect(self) -> None:
        """Tell of all that ended in this turn of the loop, and see what there is to do."""
        self._is_called = False
        ended, self._ended = self._ended, []
        self.running.difference_update(ended)
        self._pace.ended(len(ended), self._loop.time())
        self._dispatch()
        if ended or self.fault is not None:
            self._on_ended(ended)

    def _memory_limit(self, seat: _Seat) -> int | None:
        own = seat.attempt.handler.memory_bytes
        return self._limits.memory_bytes if own is None else own

    def _watch(self) -> None:
        """Kill who holds more memory than it may."""
        self._watching = None
        limited = [
            (child, seat, limit)
            for child, seat in self._seats.items()
            if (limit := self._memory_limit(seat)) is not None
        ]
        for child, seat, limit in limited:
            if (held := rss_bytes(child.runs_as)) > limit and not seat.excess_bytes:
                seat.excess_bytes = held
                child.kill()
        if limited:
            self._watching = self._loop.call_later(_WATCH, self._watch)
