"""Rooms for running jobs: a pool of slot coroutines for async handlers, threads for the others.

The body of a slot is written out in one piece, because every job goes through it: a coroutine
or a task per job would cost more than all the rest (`bench/worker_hot_path.py`). Two things
that a task per job would give for free are therefore done by hand. Context variables: a slot
whose handler left its context changed is closed, and another takes its room, so nothing leaks
into the next job. That costs the handler about 10 µs; one that leaves the context alone, or
as it was, pays 0.1 µs. Cancellation: a slot whose task was cancelled is closed likewise.
"""

import asyncio
import logging
from collections.abc import Awaitable, Sequence
from contextvars import Context, copy_context
from typing import Any, cast

from longshore.core import settle
from longshore.core.job import Claim
from longshore.engine import Reference
from longshore.errors import UnknownTaskError
from longshore.running import COMPLETER, CURRENT
from longshore.runtime.clock import SECOND
from longshore.runtime.flight import CELL_BYTES, begin
from longshore.worker.attempt import Attempt, Stop
from longshore.worker.buffer import Buffer
from longshore.worker.completer import Completer
from longshore.worker.flight import Flight
from longshore.worker.outcome import Judge
from longshore.worker.registry import Execution, Handler, Registry
from longshore.worker.settings import WorkerSettings
from longshore.worker.settler import Settler
from longshore.worker.standing import NEVER, Standing
from longshore.worker.threads import Threads

__all__ = ["Slots"]

log = logging.getLogger("longshore.worker")

_TURN = 0.004
"""Seconds that all slots together may keep the event loop from everything else."""
_SHORTEST_TURN = 0.0001
_CLOSING = 0.2


class _Slot:
    """A coroutine that runs one attempt after another."""

    __slots__ = ("attempt", "task")

    def __init__(self) -> None:
        self.attempt: Attempt | None = None
        self.task: asyncio.Task[None]


class _Handlers(dict[str, Handler]):
    """By type. The slots need not ask whether a type is known: what is not decodes nothing."""

    def __missing__(self, type_name: str) -> Handler:
        def refuse(_: bytes) -> Any:
            raise UnknownTaskError(type_name)

        return Handler(type=type_name, decode=refuse, run=refuse)


class Slots:
    """A fixed number of rooms: each is free, or has a slot coroutine or a thread at work."""

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
        clock = standing.clock
        self._handlers = _Handlers(
            (name, handler) for name in registry.types if (handler := registry.get(name))
        )
        self._uses_threads = any(
            handler.execution is Execution.THREAD for handler in self._handlers.values()
        )
        self._standing = standing
        self._settler = settler
        self._judge = judge
        self._flight = flight
        self._clock = clock
        self._buffer = Buffer()
        self._for_threads = Buffer()
        self._parked: list[asyncio.Future[None]] = []
        self._slots: set[_Slot] = set()
        self._context = Context()
        limit = settings.threads or settings.concurrency
        self._threads = Threads(
            limit, clock=clock, judge=judge, flight=flight, on_ended=self._threads_ended
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
        return len(self._buffer.claims) + len(self._for_threads.claims)

    def attempts(self) -> list[Attempt]:
        """Every attempt whose handler runs, wanted or not."""
        running = [slot.attempt for slot in self._slots if slot.attempt is not None]
        return running + list(self._threads.running)

    def references(self) -> list[Reference]:
        """Everything held here under the session: waiting or running."""
        claims = [*self._buffer.claims, *self._for_threads.claims]
        running = (one.claim for one in self.attempts() if one.stop is not Stop.LOST)
        return [(claim.handle, claim.delivery) for claim in [*claims, *running]]

    def open(self) -> None:
        """Begin, in the loop and the context of the caller."""
        loop = asyncio.get_running_loop()
        self._context = copy_context()
        self._context.run(COMPLETER.set, Completer(self._standing, loop))
        self._threads.open(loop, self._context)

    def accept(self, claims: Sequence[Claim]) -> None:
        """Run these as soon as there is room."""
        now = self._clock.monotonic()
        if self._uses_threads:
            sync = [one for one in claims if self._is_sync(one)]
            self._for_threads.add(sync, now)
            claims = [one for one in claims if not self._is_sync(one)] if sync else claims
        self._buffer.add(claims, now)
        self._fill()

    def take_waiting(self, *, since: float = NEVER) -> list[Claim]:
        """Take back what has been waiting for a room since this instant, or all."""
        if since is NEVER:
            return self._buffer.take_all() + self._for_threads.take_all()
        return self._buffer.take_older(since) + self._for_threads.take_older(since)

    def stop(self, references: Sequence[Reference], why: Stop) -> None:
        """Stop these: handlers are told, and what still waits does not start."""
        if not references:
            return
        named = set(references)
        now = self._clock.monotonic()
        for attempt in self.attempts():
            if attempt.reference in named and attempt.stop < why:
                attempt.tell(why, now)
        for claim in self._buffer.take_named(named, now) + self._for_threads.take_named(
            named, now
        ):
            if why is Stop.CANCEL:
                self._settler.settle(settle.cancelled(claim, "cancel was requested"))

    def abandon(self) -> None:
        """Nothing here is this worker's any more: stop all handlers, start nothing."""
        now = self._clock.monotonic()
        self.take_waiting()
        for attempt in self.attempts():
            attempt.tell(Stop.LOST, now)

    async def close(self) -> None:
        """End every slot, and whatever handler still runs in one."""
        self.take_waiting()
        now = self._clock.monotonic()
        for attempt in self.attempts():
            attempt.tell(Stop.DRAIN, now)
        self._threads.close()
        tasks = [slot.task for slot in self._slots]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=_CLOSING)

    def _is_sync(self, claim: Claim) -> bool:
        return self._handlers[claim.type].execution is Execution.THREAD

    def _fill(self) -> None:
        """Put what waits into free rooms, as long as the lease allows a start."""
        if not self._standing.is_live:
            return
        while self.free and self._for_threads.claims and self._threads.has_room:
            claim = self._for_threads.claims.popleft()
            self.free -= 1
            handler = self._handlers[claim.type]
            self._threads.start(Attempt(claim, NEVER, handler, self._clock.monotonic()))
        # Two, and each wakes two more if there is enough for them: handlers that never wait
        # are run by few slots, and handlers that do have all slots within a few turns.
        for _ in range(min(2, self.free, len(self._buffer.claims))):
            self.free -= 1
            if self._parked:
                self._parked.pop().set_result(None)
            else:
                self._open_slot()

    def _open_slot(self) -> None:
        slot = _Slot()
        context = self._context.copy()
        slot.task = asyncio.get_running_loop().create_task(self._live(slot), context=context)
        self._slots.add(slot)

    async def _live(self, slot: _Slot) -> None:
        """Serve until the slot is unfit, and leave its room to others."""
        try:
            await self._serve(slot)
        except Exception as fault:
            # Not swallowed: the fetcher raises it. A slot that died alone would strand its job.
            self.fault = fault
            self._settler.bell.set()
        finally:
            self._slots.discard(slot)
            self.free += 1
        self._room_is_free()

    def _threads_ended(self, ended: list[Attempt]) -> None:
        self.free += len(ended)
        self.fault = self.fault or self._threads.fault
        self._settler.add(ended)
        self._room_is_free()

    def _room_is_free(self) -> None:
        self._fill()
        if self.rings_when_free:
            self._settler.bell.set()

    async def _serve(self, slot: _Slot) -> None:  # noqa: C901, PLR0915  # in one piece: see above
        claims, handlers = self._buffer.claims, self._handlers
        settler, ended = self._settler, self._settler.ended
        monotonic, task = self._clock.monotonic, slot.task
        record, cell = self._flight.record, -1
        turn_ends, now = self._new_turn(), monotonic()
        is_fit = True
        while is_fit:
            if not claims or now >= turn_ends:
                turn_ends, now = await self._rest(), monotonic()
                continue
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
            else:
                if record is not None:
                    if attempt.settlement is None and attempt.result is None:
                        record.ends[cell] = now
                    else:
                        self._flight.end(attempt)
                ended.append(attempt)
            if len(ended) >= settler.ring_at:
                settler.bell.set()
            is_fit = is_fit and _is_unchanged(context) and not task.cancelling()

    async def _rest(self) -> float:
        """Let others run, or wait for work; the end of the turn that begins then.

        A process that was stopped and resumed comes by here before its next job, because its
        turn is over: so no handler starts past the lease, however late it was resumed.
        """
        lends = not self.free and self._for_threads.claims and self._threads.has_room
        if self._buffer.claims and self._standing.is_live and not lends:
            await asyncio.sleep(0)
        else:
            await self._park()
        return self._new_turn()

    async def _park(self) -> None:
        waiter = asyncio.get_running_loop().create_future()
        self._parked.append(waiter)
        self.free += 1
        self._room_is_free()
        await waiter

    def _new_turn(self) -> float:
        if self.free and len(self._buffer.claims) > 1:
            self._fill()
        now = self._clock.monotonic()
        return now + max(_TURN / (self.rooms - self.free), _SHORTEST_TURN)

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


def _is_unchanged(context: Context) -> bool:
    # The same variables are the same tree, so this compares no values in the usual case.
    try:
        return copy_context() == context
    except Exception:
        # A value that cannot be compared was put there by the handler.
        return False
