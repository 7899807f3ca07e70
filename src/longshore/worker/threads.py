"""Threads for plain functions: a queue in, a deque out, one wake-up of the loop per burst."""

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context
from queue import SimpleQueue

from longshore.job_context import CURRENT
from longshore.runtime.clock import SECOND, Clock
from longshore.worker.attempt import Attempt, Stop
from longshore.worker.flight_recorder import Flight
from longshore.worker.outcome import Judge

__all__ = ["Threads"]

log = logging.getLogger("longshore.worker")


class Threads:
    """Runs attempts in its own threads, which are started when they are first needed.

    A thread cannot be stopped from outside, only told; so it is a daemon, and an attempt
    belongs to its thread until the handler has ended. Each handler runs in a copy of the
    worker's context: what it sets is gone with it.
    """

    def __init__(
        self,
        limit: int,
        *,
        clock: Clock,
        judge: Judge,
        flight: Flight,
        on_ended: Callable[[list[Attempt]], None],
    ) -> None:
        self._limit = limit
        self._clock = clock
        self._judge = judge
        self._flight = flight
        self._on_ended = on_ended
        self._loop: asyncio.AbstractEventLoop | None = None
        self._context = Context()
        self._inbox: SimpleQueue[Attempt | None] = SimpleQueue()
        self._outbox: deque[Attempt] = deque()
        self._is_called = False
        self._threads: list[threading.Thread] = []
        self.running: set[Attempt] = set()
        """Every attempt that was started and whose end the loop has not yet seen."""
        self.fault: BaseException | None = None
        """What broke a thread: a fault of the worker itself, never of a handler."""

    @property
    def has_room(self) -> bool:
        """Another attempt would find a thread."""
        return len(self.running) < self._limit

    def open(self, loop: asyncio.AbstractEventLoop, context: Context) -> None:
        """Report to this loop; run handlers in copies of this context."""
        self._loop = loop
        self._context = context

    def start(self, attempt: Attempt) -> None:
        """Run the attempt; its end comes through `on_ended`, on the loop."""
        self.running.add(attempt)
        if len(self._threads) < len(self.running):
            self._add_thread()
        self._inbox.put(attempt)

    def close(self) -> None:
        """Let idle threads end. Those in a handler end after it, or with the process."""
        for _ in self._threads:
            self._inbox.put(None)
        self._threads.clear()

    def _add_thread(self) -> None:
        name = f"longshore-{len(self._threads) + 1}"
        thread = threading.Thread(target=self._serve, name=name, daemon=True)
        try:
            thread.start()
        except RuntimeError:
            # The system gives no more threads: those there are will take the job in turn.
            if not self._threads:
                raise
            log.warning("thread not started", extra={"threads": len(self._threads)})
        else:
            self._threads.append(thread)

    def _serve(self) -> None:
        take = self._inbox.get
        while (attempt := take()) is not None:
            try:
                self._context.copy().run(self._run, attempt)
                self._flight.end(attempt)
            except Exception as fault:
                # Not swallowed: the fetcher raises it. The attempt itself proves nothing.
                attempt.stop = Stop.LOST
                self.fault = fault
            self._outbox.append(attempt)
            # Read after the append: either this thread calls the loop, or a call that is
            # still to come will find the attempt.
            if not self._is_called:
                self._is_called = True
                self._call_loop()

    def _run(self, attempt: Attempt) -> None:
        handler, claim = attempt.handler, attempt.claim
        CURRENT.set(attempt)
        attempt.started = now = self._clock.monotonic()
        if claim.timeout is not None:
            attempt.deadline = now + claim.timeout / SECOND
        self._flight.begin(attempt)
        try:
            arguments = handler.decode(claim.payload)
        except Exception as error:
            attempt.finished = self._clock.monotonic()
            attempt.settlement = self._judge.undecodable(attempt, error)
            return
        try:
            result = handler.run(arguments)
            if result is not None:
                self._judge.keep(attempt, result)
        # SystemExit and KeyboardInterrupt are the handler's too: here they end nothing else.
        except BaseException as error:
            attempt.finished = self._clock.monotonic()
            attempt.settlement = self._judge.raised(attempt, error)
        else:
            attempt.finished = self._clock.monotonic()
            attempt.settlement = attempt.settlement or self._judge.returned(attempt)

    def _call_loop(self) -> None:
        # A loop that is closed has left this thread behind; nobody waits for it.
        with suppress(RuntimeError):
            if self._loop is not None:
                self._loop.call_soon_threadsafe(self._collect)

    def _collect(self) -> None:
        self._is_called = False
        ended: list[Attempt] = []
        while self._outbox:
            ended.append(self._outbox.popleft())
        self.running.difference_update(ended)
        self._on_ended(ended)
