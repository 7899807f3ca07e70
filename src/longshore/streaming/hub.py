"""One reader of the outbox per process, and all who listen to it.

The hub asks the store for what is new and hands it to every listener it concerns. Who comes
back reads what it missed from the store by itself, and then joins the others. A listener that
cannot keep up is let go, and comes back from the last event that it got.
"""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator
from contextlib import suppress
from time import perf_counter

from msgspec.structs import replace

from longshore.contract.outbox import Outbox
from longshore.core import event
from longshore.core.event import EventBatch, Group, Span
from longshore.core.job import JobId
from longshore.core.sse import Cursor
from longshore.errors import EventsExpiredError, LongshoreError
from longshore.streaming.events import Told, Wish

__all__ = ["PAGE", "Hub", "Listener", "TooManyListenersError"]

log = logging.getLogger("longshore.streams")

PAGE = 500
"""Batches of one look."""
_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 5.0
_MOST_WAITING = 2_000
"""Events that wait for one listener."""
_SLICE_S = 0.002
"""After so long other tasks run: batches hold thousands of events."""
_READERS = 4
"""Those who come back and read by themselves at once; the others wait for a turn."""


class TooManyListenersError(Exception):
    """No more can be let in: of this one's, or at all."""

    def __init__(self, *, is_own: bool) -> None:
        super().__init__("there are too many streams")
        self.is_own = is_own


class Listener:
    """Someone who follows what happens. Close it, whatever comes."""

    def __init__(self, hub: "Hub", who: str, wish: Wish) -> None:
        self._hub = hub
        self.who = who
        self.wish = wish
        self.seen = Cursor(0)
        """All up to here was handed over, or does not concern it."""
        self.is_dropped = False
        """It could not keep up."""
        self.is_over = False
        """Nothing more comes: it was dropped, or the service leaves."""
        self._waiting: deque[Told] = deque()
        self._news = asyncio.Event()

    async def missed(self, after: Cursor) -> AsyncIterator[list[Told]]:
        """What happened since, in portions; an empty one after each page. Joins at the end."""
        self.seen = after
        is_behind = True
        while is_behind:
            batches = await self._hub.page(self.seen)
            async for portion in self._hub.portions(batches, self.wish, self.seen):
                yield portion
            if batches:
                self.seen = Cursor(batches[-1].position)
            is_behind = len(batches) == PAGE
            yield []
        end = self._hub.join(self)
        while self.seen.position < end:
            batches = await self._hub.page(self.seen)
            async for portion in self._hub.portions(batches, self.wish, self.seen):
                yield portion
            if not batches:
                break
            self.seen = Cursor(batches[-1].position)

    def join(self) -> None:
        """Hear of what happens from now on."""
        self.seen = Cursor(self._hub.join(self))

    async def news(self, seconds: float) -> list[Told]:
        """What has happened; nothing when that takes longer, or when it is over."""
        if not self._waiting and not self.is_over:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._news.wait()
        self._news.clear()
        found = [told for told in self._waiting if told.cursor > self.seen]
        self._waiting.clear()
        if found:
            self.seen = found[-1].cursor
        elif not self.is_over:
            # The store was read up to here, and nothing of it was wished for.
            self.seen = max(self.seen, Cursor(self._hub.position))
        return found

    def put(self, told: Told) -> None:
        """Let it wait for the listener, as far as there is room."""
        if told.cursor <= self.seen or self.is_over:
            return
        room = _MOST_WAITING - len(self._waiting)
        if told.is_expendable and room < _MOST_WAITING // 2:
            return
        if room <= 0:
            self.is_dropped = True
            self.end()
            return
        self._waiting.append(told)
        self._news.set()

    def end(self) -> None:
        """Nothing more comes; what waits can still be had."""
        self.is_over = True
        self._news.set()

    def close(self) -> None:
        """Leave the room to others. Safe to call twice."""
        self.end()
        self._hub.release(self)


class Hub:
    """Reads the outbox while anyone listens."""

    def __init__(
        self, outbox: Outbox, *, most: int = 100_000, most_each: int | None = None
    ) -> None:
        """At most so many listeners, and so many of one."""
        self._outbox = outbox
        self._most = most
        self._most_each = most if most_each is None else most_each
        self._listeners: set[Listener] = set()
        self._of: dict[str, int] = {}
        self._wide: set[Listener] = set()
        self._by_job: dict[JobId, set[Listener]] = {}
        self._turn = asyncio.Lock()
        self._readers = asyncio.Semaphore(_READERS)
        self._looking = asyncio.Lock()
        self._tail: asyncio.Task[None] | None = None
        self._is_leaving = False
        self.position = 0
        """All up to here was handed to those who listen."""
        self._begun = 0
        """All up to here was, or is being handed to them."""
        self._slice_ends = 0.0

    @property
    def count(self) -> int:
        """How many listen."""
        return len(self._listeners)

    async def listen(self, who: str, wish: Wish, *, most: int | None = None) -> Listener:
        """A listener that hears nothing before it joins, or TooManyListenersError.

        `most` is how many `who` may be, if that is less than for all.
        """
        if self._is_leaving or len(self._listeners) >= self._most:
            raise TooManyListenersError(is_own=False)
        own = self._most_each if most is None else min(most, self._most_each)
        if self._of.get(who, 0) >= own:
            raise TooManyListenersError(is_own=True)
        listener = Listener(self, who, wish)
        self._listeners.add(listener)
        self._of[who] = self._of.get(who, 0) + 1
        try:
            await self._begin()
        except BaseException:
            self.release(listener)
            raise
        return listener

    async def verify(self, after: Cursor) -> Span:
        """What the store holds; EventsExpiredError if something after the place is missing."""
        span = await self._outbox.span()
        if not span.first - 1 <= after.position <= span.last:
            raise EventsExpiredError
        return span

    async def page(self, after: Cursor) -> list[EventBatch]:
        """Batches that may hold events behind the place."""
        is_whole = after == Cursor(after.position)
        start = after.position if is_whole else after.position - 1
        async with self._readers:
            return await self._outbox.events(after=start, limit=PAGE)

    async def portions(
        self, batches: list[EventBatch], wish: Wish, after: Cursor
    ) -> AsyncGenerator[list[Told]]:
        """The events of the batches that are behind the place and wished for, in portions.

        Whoever looks through many takes turns with the others who do, so that all together
        take one slice of time, and then other tasks run.
        """
        ahead = _candidates(batches, wish, after)
        is_more = True
        while is_more:
            async with self._looking:
                found, is_more = _portion(ahead)
                await asyncio.sleep(0)
            if found:
                yield found

    def join(self, listener: Listener) -> int:
        """From here on it hears everything that it wishes for."""
        if listener.is_over or listener not in self._listeners:
            return self._begun
        job_id = listener.wish.job_id
        if job_id is None:
            self._wide.add(listener)
        else:
            self._by_job.setdefault(job_id, set()).add(listener)
        # Of a batch that is being handed out it may have missed a part.
        return self._begun

    def release(self, listener: Listener) -> None:
        """It listens no more. Nobody is left: the store is not asked any more."""
        if listener not in self._listeners:
            return
        self._listeners.discard(listener)
        self._wide.discard(listener)
        left = self._of[listener.who] - 1
        if left:
            self._of[listener.who] = left
        else:
            del self._of[listener.who]
        job_id = listener.wish.job_id
        if job_id is not None and (others := self._by_job.get(job_id)):
            others.discard(listener)
            if not others:
                del self._by_job[job_id]
        if not self._listeners and self._tail is not None:
            self._tail.cancel()
            self._tail = None

    def leave(self) -> None:
        """Let everyone go: they go on elsewhere."""
        self._is_leaving = True
        for listener in self._listeners:
            listener.end()

    async def _begin(self) -> None:
        async with self._turn:
            if self._tail is None or self._tail.done():
                self.position = self._begun = (await self._outbox.span()).last
                self._tail = asyncio.create_task(self._follow())

    async def _follow(self) -> None:
        pause = _PAUSE_S
        while True:
            try:
                batches = await self._outbox.events(after=self.position, limit=PAGE)
            except Exception as error:
                # Those who listen hear nothing new meanwhile, and lose nothing.
                is_known = isinstance(error, LongshoreError)
                facts = {"reason": str(error)}
                log.warning("outbox cannot be read", exc_info=not is_known, extra=facts)
                pause = min(pause * 2, _LONGEST_PAUSE_S)
                batches = list[EventBatch]()
            else:
                pause = _PAUSE_S
            for batch in batches:
                self._begun = batch.position
                await self._tell(batch)
                self.position = batch.position
            await asyncio.sleep(0 if len(batches) == PAGE else pause)

    async def _tell(self, batch: EventBatch) -> None:
        index = 0
        for group in batch.groups:
            await self._let_others_run()
            wide = [one for one in self._wide if one.wish.may_fit(group)]
            if wide or self._by_job:
                await self._tell_group(batch, group, index, wide)
            index += len(group.ids) // 16

    async def _tell_group(
        self, batch: EventBatch, group: Group, first: int, wide: list[Listener]
    ) -> None:
        if not wide and not self._concerned(group):
            return
        for offset, one in enumerate(event.expand(replace(batch, groups=[group]))):
            close = self._by_job.get(one.job_id, ())
            listeners = [by for by in (*wide, *close) if by.wish.fits(one)]
            if listeners:
                told = Told.of(replace(one, id=f"{batch.position}.{first + offset}"))
                for listener in listeners:
                    listener.put(told)
            await self._let_others_run()

    async def _let_others_run(self) -> None:
        if perf_counter() > self._slice_ends:
            await asyncio.sleep(0)
            self._slice_ends = perf_counter() + _SLICE_S

    def _concerned(self, group: Group) -> bool:
        ids, by_job = group.ids, self._by_job
        return any(ids[at : at + 16] in by_job for at in range(0, len(ids), 16))


def _candidates(
    batches: Iterable[EventBatch], wish: Wish, after: Cursor
) -> Iterator[Told | None]:
    """What is wished for behind the place; None for each batch and event that was looked at."""
    for batch in batches:
        yield None
        for one in event.expand(batch, among=wish.may_fit):
            told = Told.of(one) if wish.fits(one) else None
            yield told if told is not None and told.cursor > after else None


def _portion(ahead: Iterator[Told | None]) -> tuple[list[Told], bool]:
    """What comes within a slice of time, and whether there may be more."""
    until = perf_counter() + _SLICE_S
    found: list[Told] = []
    for told in ahead:
        if told is not None:
            found.append(told)
        if perf_counter() > until:
            return found, True
    return found, False
