"""The worker's one conversation with the engine: settle what ended, claim what is next."""

import asyncio
from collections.abc import Sequence

from longshore.core.job import Claim
from longshore.core.responses import Exchanged
from longshore.errors import LeaseLostError
from longshore.runtime.clock import SECOND
from longshore.worker.appetite import Appetite, Request
from longshore.worker.attempt import Stop
from longshore.worker.guard import Guard
from longshore.worker.lease import NEVER
from longshore.worker.lost_sessions import LostSessions
from longshore.worker.order import QueueOrder
from longshore.worker.own_tasks import own_task
from longshore.worker.pace import Pace
from longshore.worker.restraint import Restraint
from longshore.worker.settings import WorkerSettings
from longshore.worker.settler import Settler
from longshore.worker.shutdown import Departure, Ending
from longshore.worker.slots import Slots
from longshore.worker.timeouts import Sweep

__all__ = ["Fetcher"]

_GAP = 0.002
"""Seconds between two looks for work, however often wake-ups come."""
_CONTACT = 0.5
"""A worker whose jobs run talks to the engine this often: a cancel reaches them by then."""
_LISTEN = 30.0
_SHARE = 4
"""What has ended waits so many times as long as the last exchange took: talking to the engine
is then a bounded share of the work, however slow it is."""
_LONGEST_FLUSH = 0.025
_PROMOTED = 1_000
_UNHEARD = 1 << 30


class Fetcher:
    """Sends one exchange after the other, each as soon as it is worth its commit.

    Never in doubt: an error that is not the engine's passing trouble ends `run`, and with it
    the worker. A worker that is alive but does not claim is worse than none.

    The rhythm of the exchanges is the event loop's time. The worker's clock, which a test may
    hold still, is for what jobs are promised: leases, timeouts, starts.
    """

    _has_due = False
    """Jobs became due since the last look."""
    _is_called = False  # a job may have to be cancelled
    _is_clear = False
    """Nothing is due. What others made ready just before is found by one more look."""

    def __init__(
        self,
        settings: WorkerSettings,
        *,
        slots: Slots,
        settler: Settler,
        sweep: Sweep,
        guard: Guard,
        departure: Departure,
    ) -> None:
        self._standing = settler.standing
        self._guard = guard
        self.lost = LostSessions(slots, settler, on_ended=self.nudge)
        self._slots = slots
        self._settler = settler
        self._bulletin = slots.bulletin
        self._sweep = sweep
        self._departure = departure
        self._order = QueueOrder(settings.queues)
        self._appetite = Appetite(self._order.names)
        self._restraint = Restraint(self._standing, self._order.names)
        self._claim_batch = settings.claim_batch
        self._flush_batch = settings.flush_batch
        self._flush_after = settings.flush_after.total_seconds()
        self._flush_wait = self._flush_after
        self._poll = settings.poll.total_seconds()
        self._contact = min(self._poll, _CONTACT)
        self._loop: asyncio.AbstractEventLoop
        self._pace = Pace(slots.rooms)
        self._listener: asyncio.Task[None] | None = None
        self._attendant: asyncio.Task[None] | None = None
        """Hears of cancels."""
        self._last = -NEVER
        """When the last exchange ended."""
        self._look_after = self._poll
        """How long after it the next look for work is due, unless something rings."""
        self._is_woken = True
        self.until_idle: float | None = None
        """Leave when nothing is left to do, here or due within so many seconds."""

    async def run(self) -> None:
        """Work until the worker is to leave and holds nothing any more."""
        self._loop = asyncio.get_running_loop()
        while not self._is_over():
            try:
                await self._standing.open()
                self._attend()
                await self._serve()
            except LeaseLostError as lost:
                self.lose(lost.token)
            finally:
                await self._stop_listening()

    def look(self) -> None:
        """There may be work: ask for it as soon as there is room."""
        self._is_woken = True
        self._settler.bell.set()

    def nudge(self) -> None:
        """Jobs became due, or came back: as `look`, and they need not wait for the others."""
        self._has_due = True
        self.look()

    def lose(self, token: int) -> None:
        """Drop everything that was held under this session, and stop its handlers."""
        if self._standing.lose(token):
            self.lost.add(token)
            self._sweep.forget()
            self._bulletin.forget()
            self._settler.bell.set()

    async def _serve(self) -> None:
        while not self._is_over():
            if self._slots.fault is not None:
                raise self._slots.fault
            lease_left = self._standing.time_left()
            await self._advance_guard()
            delay = min(self._delay(), self._guard.delay)
            if delay > 0:
                await self._rest(min(delay, lease_left))
            else:
                await self._exchange()

    async def _advance_guard(self) -> None:
        was_shut = self._guard.is_shut
        await self._guard.advance()
        if was_shut and not self._guard.is_shut:
            self._is_woken = True

    def _is_over(self) -> bool:
        return self._departure.ending is not None and not self._holds()

    def _holds(self) -> bool:
        if self._slots.waiting or len(self._settler):
            return True
        running = any(attempt.stop < Stop.LOST for attempt in self._slots.attempts())
        return running or self._is_hooked()

    def _is_hooked(self) -> bool:
        """Hooks run, and there is time for them."""
        now = self._standing.clock.monotonic()
        return self._settler.hooks.is_busy and now < self._departure.stop_by

    def _want(self, *, rides: bool = False) -> int:
        """How many jobs to ask for: the free rooms, and a little work ahead.

        `rides`: an exchange is made anyway, and asking costs no commit of its own.
        """
        if self._departure.ending is not None or self._guard.is_shut:
            return 0
        want = self._pace.want(self._slots.spare, has_due=self._has_due, rides=rides)
        return min(want, self._claim_batch)

    def _request(self, want: int, order: tuple[str, ...] | None = None) -> Request:
        room, now = self._slots.lanes.child_room, self._loop.time()
        asked = self._appetite.request(want, room, order, now)
        return self._restraint.request(asked, self._slots.spare, now)

    def _delay(self) -> float:
        """Seconds until the next exchange is worth sending."""
        ended = len(self._settler)
        want = self._request(self._want()).want
        is_last = ended and self._departure.ending is not None
        is_due = self._sweep.is_report_due or self._guard.is_start_due
        if ended >= self._flush_batch or is_last or is_due:
            return 0.0
        wait = self._poll if self._slots.free == self._slots.rooms else self._contact
        if ended:
            wait = min(wait, self._flush_wait)
        if self._is_called:
            wait = min(wait, _GAP)
        if self._bulletin.due is not NEVER:
            wait = min(wait, self._bulletin.due - self._last)
        if want:
            is_eager = self._is_woken or self._appetite.is_eager(self._slots.lanes.child_room)
            wait = min(wait, _GAP if is_eager else self._look_after)
        elif (rest := self._appetite.rest_of(self._loop.time())) is not None:
            wait = min(wait, self._loop.time() + rest - self._last)
        return self._last + wait - self._loop.time()

    async def _rest(self, seconds: float) -> None:
        gap = self._last + _GAP - self._loop.time()
        is_idle = self._is_idle()
        if is_idle and gap <= 0:
            request = self._request(self._want(), self._order.next())
            if request.want and not request.is_partial:
                await self._hold(request, seconds)
                return
        await self._pause(min(seconds, gap) if is_idle and gap > 0 else seconds)

    def _is_idle(self) -> bool:
        """Nothing is held here that could want anything, and the engine can be waited for."""
        slots = self._slots
        return (
            self._standing.is_prompt
            and slots.free == slots.rooms
            and not (slots.waiting or len(self._settler) or self._is_woken)
            and self.until_idle is None
        )

    async def _hold(self, request: Request, seconds: float) -> None:
        """Wait for work, and claim it with nothing in between. Whatever else rings ends it."""
        if self._listener is not None:
            self._listener.cancel()
            self._listener = None
        bell = self._settler.bell
        bell.on_ring = self._standing.cancel_wait
        try:
            answer = await self._standing.claim_at_wakeup(
                seconds, want=request.want, queues=request.queues
            )
        finally:
            bell.on_ring = None
        if answer is not None:
            self._last = self._loop.time()
            self._receive(answer, request)
            self._slots.stop(answer.cancel, Stop.CANCEL)
            self._found(len(answer.claims), request, answer.look_in)
            # What was claimed begins first. Then others may come while it runs.
            await asyncio.sleep(0)
            if answer.claims:
                self._listen()

    async def _pause(self, delay: float) -> None:
        self._settler.ring_at = self._flush_batch if len(self._settler) else 1
        # With rooms to fill, the next look has its time already.
        is_full = not self._request(self._want()).want
        self._slots.rings_when_free = is_full and (
            self._is_woken or self._look_after < self._poll or self._guard.is_shut
        )
        bell = self._settler.bell
        bell.clear()
        alarm = self._loop.call_later(delay, bell.set)
        try:
            await bell.wait()
        finally:
            alarm.cancel()
            self._settler.ring_at = _UNHEARD
            self._slots.rings_when_free = False

    async def _exchange(self) -> None:
        want = self._want(rides=True)
        request = self._request(want, self._order.next() if want else None)
        want = request.want
        batch = self._settler.take()
        # What arrives after this look is then heard by `_hold`.
        is_alone = self._slots.free == self._slots.rooms and not request.is_partial
        is_heard = is_alone and self._standing.is_prompt and self.until_idle is None
        if want:
            # Those who were not asked may be why it was woken.
            self._is_woken = request.is_partial and self._is_woken
            self._has_due = False
            # Before the look: what arrives just after it must ring.
            if self._look_after and not is_heard:
                self._listen()
        # Before the look: a call that comes after it needs another.
        self._is_called = False
        began, starts = self._loop.time(), self._guard.starts()
        answer = await self._standing.exchange(
            started=self._sweep.take_starts() + starts,
            progress=self._bulletin.take(batch.settlements),
            settlements=batch.settlements,
            want=want,
            queues=request.queues if want else None,
        )
        self._last = self._loop.time()
        took = min((self._last - began) * _SHARE, _LONGEST_FLUSH)
        self._flush_wait = max(self._flush_after, took)
        self._settler.accepted(batch, answer.stale)
        self._guard.started(starts)
        self._pace.ended(batch.attempts, self._last)
        self._receive(answer, request)
        self._slots.stop(answer.cancel, Stop.CANCEL)
        if want:
            self._found(len(answer.claims), request, answer.look_in)
            self._mind(answer.claims, is_heard=is_heard)
            if request.is_partial:
                self._standing.fed = self._standing.clock.monotonic()
            if self.until_idle is not None:
                is_busy = answer.claims or answer.look_in or request.is_partial
                await self._leave_if(not (is_busy or self._holds()), self.until_idle)

    def _receive(self, answer: Exchanged, request: Request) -> None:
        claims = answer.claims
        if claims:
            self._pace.by_turns = bool(answer.fair)
        self._standing.stats.claimed += len(claims)
        if excess := self._restraint.received(request, answer, self._slots.spare, self._last):
            self._settler.release(excess)
            gone = {one.handle for one in excess}
            claims = [one for one in claims if one.handle not in gone]
        if self._departure.ending is None:
            surplus = self._slots.accept(self._guard.sort(claims), answer.fair)
            self._settler.release(surplus)
            self._learn(claims, surplus, request)
            if claims:
                self._sweep.wake()
        else:
            self._settler.release(claims)

    def _learn(self, claims: list[Claim], surplus: Sequence[Claim], request: Request) -> None:
        if self._slots.lanes.child_room is None or not request.want:
            return
        is_apart = self._slots.lanes.is_for_children
        self._appetite.received(
            request,
            apart=[one.queue for one in claims if is_apart(one)],
            common=[one.queue for one in claims if not is_apart(one)],
            surplus=[one.queue for one in surplus],
            now=self._loop.time(),
        )

    def _found(self, count: int, request: Request, look_in: int | None) -> None:
        """Look again at once where there was plenty, and not before a wake-up where nothing."""
        look_after = self._flush_after if count else self._poll
        if count == request.want:
            look_after = 0.0
        elif look_in is not None:
            look_after = min(look_in / SECOND, self._poll)
        # What children's queues lack says nothing of the others.
        known = self._look_after if request.is_for_children else self._poll
        if request.is_partial:
            known = min(known, self._restraint.due_in(self._slots.spare, self._last))
        self._look_after = min(look_after, known)

    def _mind(self, claims: Sequence[Claim], *, is_heard: bool) -> None:
        """See to it that what came beside a look, or comes now, rings for someone."""
        if is_heard and claims:
            self._listen()
        elif self._look_after and not (self._is_listening or is_heard):
            # Nobody listened: what came just after the look rang for no one.
            self._is_woken = True

    async def _leave_if(self, is_idle: bool, horizon: float) -> None:
        if not is_idle:
            self._is_clear = False
            return
        if self._is_clear:
            self._departure.ask(Ending.IDLE, self._standing.clock.monotonic())
            return
        promoted = await self._standing.promote(_PROMOTED)
        due_in = NEVER if promoted.next_due_in is None else promoted.next_due_in / SECOND
        if promoted.count:
            self._is_woken = True
        elif due_in > horizon:
            self._is_clear = self._is_woken = True
        else:
            self._look_after = min(max(due_in, self._flush_after), self._poll)

    @property
    def _is_listening(self) -> bool:
        return self._listener is not None and not self._listener.done()

    def _listen(self) -> None:
        if not self._is_listening:
            self._listener = own_task(self._hear())
            self._listener.add_done_callback(self._heard)

    async def _hear(self) -> None:
        await self._standing.wait(_LISTEN)
        # Here and not when the task is done, which would be a turn of the loop later.
        self.look()

    def _heard(self, listener: asyncio.Task[None]) -> None:
        if not listener.cancelled() and (fault := listener.exception()) is not None:
            self._slots.fault = self._slots.fault or fault
            self._settler.bell.set()

    def _attend(self) -> None:
        self._attendant = own_task(self._hear_of_cancels())
        self._attendant.add_done_callback(self._heard)

    async def _hear_of_cancels(self) -> None:
        token = self._standing.token
        while self._standing.is_live and self._standing.token == token:
            await self._standing.wait_for_cancel(_LISTEN)
            self._is_called = True
            self._settler.bell.set()

    async def _stop_listening(self) -> None:
        listeners = [one for one in (self._listener, self._attendant) if one is not None]
        for one in listeners:
            one.cancel()
        if listeners:
            await asyncio.wait(listeners)
