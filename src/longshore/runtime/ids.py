"""New job ids, in order within a process."""

import os
import threading

from longshore.core import ids
from longshore.core.job import JobId
from longshore.runtime.clock import Clock, SystemClock

__all__ = ["IdSource"]

_POOL = 4096


class IdSource:
    """Makes UUIDv7 ids. Randomness is drawn in blocks: a system call per id would cost more."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._pool = b""
        self._at = 0
        self._lock = threading.Lock()
        os.register_at_fork(after_in_child=self._forget)

    def make(self) -> JobId:
        """A fresh id."""
        with self._lock:
            if self._at >= len(self._pool):
                self._pool = os.urandom(10 * _POOL)
                self._at = 0
            random = self._pool[self._at : self._at + 10]
            self._at += 10
        return ids.make(self._clock.now() // 1000, random)

    def _forget(self) -> None:
        # A forked child must not hand out the ids its parent will.
        self._pool = b""
        self._at = 0
        self._lock = threading.Lock()
