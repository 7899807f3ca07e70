"""How a handler in a child process tells the worker how far it is."""

import os
import socket
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from time import monotonic

from longshore.job_context import Slot
from longshore.worker import child_protocol

__all__ = ["Teller"]

_EVERY = 0.1
"""Seconds between two messages; the worker passes on fewer."""


class Teller:
    """Sends the first word at once, and of those that follow the latest, every 100 ms.

    One that comes too soon is sent by a timer, so that a handler which then is silent for an
    hour is not shown too far behind. `undisturbed` keeps signals from breaking off a message.
    """

    def __init__(
        self,
        connection: socket.socket,
        undisturbed: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self._connection = connection
        self._undisturbed = undisturbed
        self._lock = threading.Lock()
        self._order = 0
        self._pending: child_protocol.Progress | None = None
        self._timer: threading.Timer | None = None
        self._next = 0.0
        self._offset = 0
        self._pid = os.getpid()

    def begin(self, now: int) -> None:
        """An order came; that was the time on the engine's clock."""
        self._offset = now - int(monotonic() * 1e6)
        self._next = 0.0

    def now(self) -> int:
        """The engine's clock."""
        return self._offset + int(monotonic() * 1e6)

    def report(self, slot: Slot, fraction: float, message: str | None) -> None:
        """Send it, or have it sent soon. Of a process that the handler forked, nothing."""
        if slot.claim is None or os.getpid() != self._pid:
            return
        with self._undisturbed(), self._lock:
            self._pending = child_protocol.Progress(fraction, message)
            left = self._next - monotonic()
            if left <= 0:
                self._flush()
            elif self._timer is None:
                self._timer = threading.Timer(left, self._ring, [self._order])
                self._timer.daemon = True
                self._timer.start()

    def end(self, report: child_protocol.FromChild) -> None:
        """Send how the order went, and before it what was not sent yet."""
        with self._lock:
            self._order += 1
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            if self._pending is not None:
                self._flush()
            self._connection.sendall(child_protocol.encode(report))

    def _ring(self, order: int) -> None:
        with self._lock:
            if order == self._order:
                self._timer = None
                if self._pending is not None:
                    self._flush()

    def _flush(self) -> None:
        said, self._pending = self._pending, None
        self._next = monotonic() + _EVERY
        if said is not None:
            self._connection.sendall(child_protocol.encode(said))
