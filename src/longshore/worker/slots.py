"""Rooms for running jobs: slot coroutines for async handlers, lanes for the others.

The body of a slot is written out in one piece, because every job goes through it: a coroutine
or a task per job would cost more than all the rest (`bench/worker_hot_path.py`). Two things
that a task per job would give for free are therefore done by hand. Context variables: a slot
whose handler left its context changed is closed, and another takes its room, so nothing leaks
into the next job. That costs the handler about 10 µs; one that leaves the context alone, or
as it was, pays 0.1 µs. Cancellation: a slot whose task was cancelled is closed likewise.
"""

import asyncio
from collections.abc import Awaitable, Sequence
from contextvars import Context, copy_context
from typing import Any, cast

from longshore.contract import Reference
from longshore.core import settle
from longshore.core.job import Claim
from longshore.errors import UnknownTaskError
from longshore.job_context import COMPLETER, CURRENT, REPORTER
from longshore.runtime.clock import SECOND
from longshore.runtime.flight import CELL_BYTES, begin
from longshore.worker.attempt import Attempt, Stop
from longshore.worker.buffer import Buffer
from longshore.worker.completer import Completer
from longshore.worker.executors import Lanes
from longshore.worker.flight_recorder import Flight
from longshore.worker.lease import NEVER, Standing
from longshore.worker.outcome import Judge
from longshore.worker.own_tasks import own_task
from longshore.worker.progress import Bulletin
from longshore.worker.registry import Handler, Registry
from longshore.worker.settings import WorkerSettings
from longshore.worker.settler import Settler

__all__ = ["Slots"]


_TURN = 0.004
"""Seconds in which slots begin jobs without asking whether the loop has been with others. A
slot that comes late in one turn may go on into the next, so it is twice that at most."""
_EARLIER = -1
_CLOSING = 0.1


class _Slot:
    """A coroutine that runs one attempt after another."""

    __slots__ = ("attempt", "is_left", "task")

    def __init__(self) -> None:
        self.attempt: Attempt | None = None
        self.is_left = False  # whether its room was given to others
        self.task: asyncio.Task[None]


class _Handlers(dict[str, Handler]):
    """By type. The slots need not ask whether a type is known: what is not decodes nothing."""

    def __missing__(self, type_name: str) -> Handler:
        def refuse(_: bytes) -> Any:
            raise UnknownTaskError(type_name)

        return Handler(type=type_name, decode=refuse, run=refuse)


class Slots:
    """A fixed number of rooms: each is free, or has a slot, a thread or a child at work."""

    def __init__(
        self,
        registry: Registry,
        settings: WorkerSettings,
        *,
        standing: Standing,
        settler: Settler,
        judge: Judge,
        flight: Flight,
    ) -> None:
        self._handlers = _Handlers(
            (name, handler) for name in registry.types if (handler := registry.get(name))
        )
        self._standing = standing
        self._settler = settler
        self._judge = judge
        self._flight = flight
        self._clock = standing.clock
        self._buffer = Buffer()
        self._parked: list[asyncio.Future[None]] = []
        self._coming = 0
        """Slots that have a room and have not yet looked for a claim."""
        self._turn = 0
        """Counts how often the loop was with others after a turn of the slots had begun."""
        self._is_turn_new = False
        """The loop has not been with others since the turn began."""
        self._turn_ends = -NEVER
        self._slots: dict[_Slot, None] = {}
        self._context = Context()
        self._loop: asyncio.AbstractEventLoop
        self.bulletin = Bulletin(standing, settler.bell)
        self.lanes = Lanes(
            registry,
            settings,
            judge=judge,
            flight=flight,
            on_ended=self._ended_elsewhere,
            on_refused=self._refused,
        )
        self.rooms = settings.concurrency
        self.free = settings.concurrency
        """Rooms with nothing in them. A parked slot coroutine has given its room back."""
        self.rings_when_free = False
        """The fetcher wants to hear of every room that becomes free."""
        self.fault: BaseException | None = None
        """What broke a slot: a fault of the worker itself, never of a handler."""

    @property
    def waiting(self) -> int:
        """Claims that wait for a room."""
        return len(self._buffer.claims) + self.lanes.waiting

    @property
    def spare(self) -> int:
        """Rooms for which no claim waits; below zero, claims for which there is no room."""
        return self.free + self._coming - self.waiting

    def attempts(self) -> list[Attempt]:
        """Every attempt whose handler runs, wanted or not."""
        return [slot.attempt for slot in self._slots if slot.attempt] + self.lanes.attempts

    def references(self) -> list[Reference]:
        """Everything held here under the session: waiting or running."""
        claims = [*self._buffer.claims, *self.lanes.claims]
        running = (one.claim for one in self.attempts() if one.stop is not Stop.LOST)
        return [(claim.handle, claim.delivery) for claim in [*claims, *running]]

    def open(self) -> None:
        """Begin, in the loop and the context of the caller."""
        self._loop = asyncio.get_running_loop()
        self._context = copy_context()
        self._context.run(COMPLETER.set, Completer(self._standing, self._loop))
        self._context.run(REPORTER.set, self.bulletin)
        self.bulletin.open(self._loop)
        self.lanes.open(self._loop, self._context, self.bulletin)

    def accept(self, claims: Sequence[Claim], by_turns: Sequence[str] = ()) -> Sequence[Claim]:
        """Run these as soon as there is room; those that would wait for long come back."""
        now = self._clock.monotonic()
        claims, surplus = self.lanes.take_in(claims, now, by_turns)
        self._buffer.add(claims, now, by_turns)
        self._fill()
        return surplus

    def take_waiting(self, *, since: float = NEVER) -> list[Claim]:
        """Take back what has been waiting for a room since this instant, or all."""
        if since is not NEVER:
            return self._buffer.take_older(since) + self.lanes.take_older(since)
        return self.take_unstarted() + self.lanes.aside.take_all()

    def take_unstarted(self) -> list[Claim]:
        """Take back everything that could start at any moment."""
        unbegun = self.lanes.take_unbegun()
        self.free += len(unbegun)
        return self._buffer.take_all() + self.lanes.take_all() + unbegun

    def run(self, claim: Claim, *, in_child: bool) -> None:
        """Run it as soon as there is room: in a child process, where that can be had."""
        if not (in_child and self.lanes.isolation.takes(claim.type)):
            unfit = self.accept([claim])
        elif self.lanes.isolate(claim, self._clock.monotonic()):
            unfit = ()
            self._fill()
        else:
            unfit = [claim]
        # Those that hold all children do not end.
        self._settler.release(unfit)

    def stop(self, references: Sequence[Reference], why: Stop) -> None:
        """Stop these: handlers are told, and what still waits does not start."""
        if not references:
            return
        named = set(references)
        now = self._clock.monotonic()
        for attempt in self.attempts():
            if attempt.reference in named and attempt.stop < why:
                attempt.tell(why, now)
        for claim in self._buffer.take_named(named) + self.lanes.take_named(named):
            if why is Stop.CANCEL:
                self._settler.settle(claim, settle.cancelled(claim, "cancel was requested"))

    def abandon(self) -> None:
        """Nothing here is this worker's any more: stop all handlers, start nothing."""
        now = self._clock.monotonic()
        self.take_waiting()
        for attempt in self.attempts():
            attempt.tell(Stop.LOST, now)

    def leave_behind(self, attempt: Attempt) -> None:
        """Give its room to others: the handler heeds nothing, and runs on without one."""
        next(one for one in self._slots if one.attempt is attempt).is_left = True
        self.free += 1
        self._room_is_free()

    async def close(self) -> None:
        """End every slot, and whatever handler still runs in one."""
        self.take_waiting()
        now = self._clock.monotonic()
        for attempt in self.attempts():
            attempt.tell(Stop.DRAIN, now)
        tasks = [slot.task for slot in self._slots]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=_CLOSING)
        await self.lanes.close()

    def _fill(self) -> None:
        """Put what waits into free rooms, as long as the lease allows a start."""
        if not self._standing.is_live:
            return
        self.free -= self.lanes.fill(self.free)
        self._call_slots(len(self._buffer.claims))

    def _call_slots(self, claims: int) -> None:
        """Call a slot or two, if those that are coming are too few for so many claims.

        Each of them calls two more: handlers that never wait are run by few slots, and
        handlers that do have all the slots they need within a few turns of the loop.
        """
        for _ in range(min(2, self.free, claims - self._coming)):
            self.free -= 1
            self._coming += 1
            if self._parked:
                self._parked.pop().set_result(None)
            else:
                self._open_slot()

    def _open_slot(self) -> None:
        slot = _Slot()
        slot.task = self._context.run(own_task, self._live(slot), runs=lambda: slot.attempt)
        self._slots[slot] = None

    async def _live(self, slot: _Slot) -> None:
        """Serve until the slot is unfit, and leave its room to others."""
        try:
            await self._serve(slot)
        except Exception as fault:
            # Not swallowed: the fetcher raises it. A slot that died alone would strand its job.
            self.fault = fault
            self._settler.bell.set()
        finally:
            self._slots.pop(slot, None)
            self.free += not slot.is_left
        self._room_is_free()

    def _ended_elsewhere(self, ended: list[Attempt]) -> None:
        self.free += len(ended)
        if self.lanes.fault is not None:
            self.fault = self.fault or self.lanes.fault
            self._settler.bell.set()
        self._settler.add(ended)
        self._room_is_free()

    def _refused(self, claims: list[Claim]) -> None:
        """No child can run these suspects."""
        self.free += len(claims)
        self.lanes.aside.add(claims, self._clock.monotonic())
        self._settler.bell.set()

    def _room_is_free(self) -> None:
        self._fill()
        if self.rings_when_free:
            self._settler.bell.set()

    async def _serve(self, slot: _Slot) -> None:  # noqa: C901, PLR0915  # in one piece: see above
        claims, (for_threads, for_children) = self._buffer.claims, self.lanes.queues
        handlers, settler, ended = self._handlers, self._settler, self._settler.ended
        monotonic, task = self._clock.monotonic, slot.task
        record, cell = self._flight.record, -1
        now, turn = self._arrived(), _EARLIER
        is_fit = True
        while is_fit:
            if not claims or now >= self._turn_ends or for_threads or for_children:
                pause = self._pause(now, turn) if claims else self._park()
                if pause is not None:
                    await pause
                    now, turn = self._arrived(), _EARLIER
                    continue
            turn = self._turn
            claim = claims.popleft()
            handler = handlers[claim.type]
            timeout = claim.timeout
            deadline = NEVER if timeout is None else now + timeout / SECOND
            if record is not None:
                # Before the handler starts, and written out for its speed: see `Flight`.
                try:
                    cell = record.free.pop()
                except IndexError:
                    cell = record.spare()
                at = cell * CELL_BYTES
                begin(record.cells, at, now, claim.handle, claim.delivery, deadline)
            slot.attempt = attempt = Attempt(claim, deadline, handler, now, task, cell)
            CURRENT.set(attempt)
            context = copy_context()
            try:
                arguments = handler.decode(claim.payload)
            except Exception as error:
                self._undecodable(attempt, error)
            else:
                try:
                    result = await cast(Awaitable[object], handler.run(arguments))
                    if result is not None:
                        self._judge.keep(attempt, result)
                except BaseException as error:
                    is_fit = self._raised(attempt, error)
            slot.attempt = None
            attempt.finished = now = monotonic()
            if attempt.stop:
                self._stopped(attempt)
                is_fit = is_fit and not slot.is_left
            else:
                if record is not None:
                    if attempt.settlement is None and attempt.result is None:
                        record.ends[cell] = now
                    else:
                        self._flight.end(attempt)
                ended.append(attempt)
            if len(ended) >= settler.ring_at:
                settler.bell.set()
            try:
                # The same variables are the same tree: no values are compared, as a rule.
                is_fit = is_fit and copy_context() == context and not task.cancelling()
            except Exception:
                # A value that cannot be compared was put there by the handler.
                is_fit = False

    def _pause(self, now: float, turn: int) -> Awaitable[None] | None:
        """What a slot whose last job began in this turn has to wait for, before the next.

        A process that was stopped and resumed comes by here before its next job, because its
        turn is over: so no handler starts past the lease, however late it was resumed.
        """
        lends = not self.free and self.lanes.can_start
        if lends or not self._standing.is_live:
            return self._park()
        if now >= self._turn_ends and not self._is_turn_new:
            self._begin_turn(now)
        # Where the turn has passed, the handler has waited, and others had the loop.
        if now < self._turn_ends or turn != self._turn:
            return None
        self._coming += 1
        return asyncio.sleep(0)

    def _begin_turn(self, now: float) -> None:
        self._turn_ends = min(now + _TURN, self._standing.until)
        self._is_turn_new = True
        self._loop.call_soon(self._pass_turn)

    def _pass_turn(self) -> None:
        self._is_turn_new = False
        self._turn += 1

    def _park(self) -> asyncio.Future[None]:
        """Leave the room, until there is a claim for the slot."""
        waiter = self._loop.create_future()
        self._parked.append(waiter)
        self.free += 1
        if self.lanes.waiting:
            self._fill()
        if self.rings_when_free:
            self._settler.bell.set()
        return waiter

    def _arrived(self) -> float:
        """A slot that has its room looks for a claim; the time."""
        self._coming -= 1
        others = len(self._buffer.claims) - 1
        if others > self._coming and self.free:
            self._call_slots(others)
        return self._clock.monotonic()

    def _undecodable(self, attempt: Attempt, error: Exception) -> None:
        attempt.finished = self._clock.monotonic()
        attempt.settlement = self._judge.undecodable(attempt, error)

    def _raised(self, attempt: Attempt, error: BaseException) -> bool:
        """Decide how the attempt ends; whether its slot is fit for another."""
        attempt.finished = self._clock.monotonic()
        attempt.settlement = self._judge.raised(attempt, error)
        # GeneratorExit may mean that this very coroutine is being closed.
        return isinstance(error, Exception)

    def _stopped(self, attempt: Attempt) -> None:
        """The end of an attempt that was told to stop."""
        if attempt.settlement is None:
            attempt.settlement = self._judge.returned(attempt)
        self._flight.end(attempt)
        self._settler.add([attempt])
