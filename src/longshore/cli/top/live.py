"""Runs a view on a terminal: looks again and again, and heeds keys at once."""

import asyncio
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from time import monotonic

from longshore.cli.top import facts, frame
from longshore.cli.top.frame import Canvas
from longshore.cli.top.keys import Keys
from longshore.cli.top.screen import Screen
from longshore.cli.top.view import Order, Page, View
from longshore.core.instant import micros
from longshore.errors import EngineError, EngineUnavailableError, LongshoreError
from longshore.operations.backend import Backend
from longshore.operations.rates import Rates

__all__ = ["Live"]

_LOOK_SECONDS = 10.0
_ESCAPE_SECONDS = 0.1
_SHARE = 4
"""A store that takes long to answer is left alone for this many times as long."""

_LEAVING = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


class Live:
    """The view of one terminal."""

    def __init__(
        self,
        backend: Backend,
        screen: Screen,
        canvas: Callable[[int, int], Canvas],
        *,
        interval: float,
    ) -> None:
        self._backend = backend
        self._screen = screen
        self._canvas = canvas
        self._interval = interval
        self._keys = Keys()
        self._rates = Rates()
        self._orders: list[Order] = []
        self._left = asyncio.Event()
        self._nudged = asyncio.Event()

    async def run(self) -> None:
        """Show the queue until somebody leaves. A store that cannot be asked at all raises."""
        try:
            async with asyncio.timeout(_LOOK_SECONDS):
                found = await facts.look(self._backend)
        except TimeoutError:
            raise EngineUnavailableError(f"{self._backend.url} does not answer") from None
        self._rates.note(micros(found.now), found.queues)
        self._view = View(found)
        loop = asyncio.get_running_loop()
        with self._screen:
            loop.add_reader(self._screen.keyboard, self._read)
            for number in _LEAVING:
                loop.add_signal_handler(number, self._left.set)
            loop.add_signal_handler(signal.SIGWINCH, self._draw)
            loop.add_signal_handler(signal.SIGTSTP, self._suspend)
            try:
                self._draw()
                await self._until_left()
            finally:
                loop.remove_reader(self._screen.keyboard)

    async def _until_left(self) -> None:
        watching = asyncio.create_task(self._watch())
        leaving = asyncio.create_task(self._left.wait())
        try:
            await asyncio.wait({watching, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if watching.done():
                watching.result()
        finally:
            leaving.cancel()
            watching.cancel()
            with suppress(asyncio.CancelledError):
                await watching

    async def _watch(self) -> None:
        """Look, sleep, look again; an order comes first."""
        while not self._left.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(await self._tick()):
                    await self._nudged.wait()

    async def _tick(self) -> float:
        self._nudged.clear()
        begun = monotonic()
        try:
            async with asyncio.timeout(_LOOK_SECONDS):
                await self._carry_out()
                await self._look()
        except TimeoutError:
            self._view.trouble = "the store does not answer"
        except EngineError as error:
            self._view.trouble = f"{error}"
        except LongshoreError as error:
            self._view.remark = f"{error}"
        self._draw()
        return max(self._interval, (monotonic() - begun) * _SHARE)

    async def _carry_out(self) -> None:
        while self._orders:
            order = self._orders.pop(0)
            if order.queue is None:
                continue
            if order.pauses:
                await self._backend.pause_queue(order.queue)
            else:
                await self._backend.resume_queue(order.queue)
            word = "paused" if order.pauses else "resumed"
            self._view.remark = f"{word} the queue {order.queue}"

    async def _look(self) -> None:
        view = self._view
        found = await facts.look(self._backend)
        self._rates.note(micros(found.now), found.queues)
        view.facts, view.trouble = found, ""
        queue, state, job_id = view.queue, view.state, view.job_id
        if view.page is Page.JOBS and queue is not None:
            jobs = await facts.jobs_of(self._backend, queue, state)
            # Whoever looks may have gone on meanwhile.
            if (queue, state) == (view.queue, view.state):
                view.jobs = jobs
        if view.page is Page.JOB and job_id is not None:
            opened = await facts.open_job(self._backend, job_id)
            if job_id == view.job_id:
                view.opened = opened

    def _draw(self) -> None:
        try:
            size = self._screen.size
            lines = frame.draw(self._view, self._rates, self._canvas(*size))
            self._screen.draw(lines, size)
        except OSError:
            # The terminal is gone, and nobody looks any more.
            self._left.set()

    def _read(self) -> None:
        try:
            typed = os.read(self._screen.keyboard, 1_024)
        except BlockingIOError:
            return
        except OSError:
            typed = b""
        if not typed:
            self._left.set()
            return
        self._press(self._keys.feed(typed))
        if self._keys.is_waiting:
            loop = asyncio.get_running_loop()
            loop.call_later(_ESCAPE_SECONDS, lambda: self._press(self._keys.flush()))

    def _press(self, keys: list[str]) -> None:
        for key in keys:
            order = self._view.press(key)
            if order is None:
                continue
            if order.leaves:
                self._left.set()
                return
            self._orders.append(order)
            self._nudged.set()
        if keys:
            self._draw()

    def _suspend(self) -> None:
        """Ctrl-Z: hand the terminal to the shell, and take it back when we go on."""
        self._screen.give_back()
        os.kill(os.getpid(), signal.SIGSTOP)
        self._screen.take()
        self._draw()
