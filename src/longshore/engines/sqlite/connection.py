"""Connections to the file, and the wait for its write lock."""

import sqlite3
import time
from dataclasses import dataclass
from enum import StrEnum

from longshore.engines.sqlite.faults import is_busy
from longshore.runtime.clock import Clock

__all__ = ["Store", "Synchronous"]

_FIRST_WAIT = 0.000_1
_LONGEST_WAIT = 0.002


class Synchronous(StrEnum):
    """When a commit is on disk."""

    FULL = "full"
    """Before the call returns: survives the loss of power."""
    NORMAL = "normal"
    """Soon: survives a crash of the process, but a loss of power may undo the last commits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """Where the file is and how to use it."""

    path: str
    clock: Clock
    synchronous: Synchronous = Synchronous.FULL
    busy_timeout: float = 5.0
    """Seconds to wait for the write lock before EngineBusyError."""

    @property
    def is_memory(self) -> bool:
        """Nothing outlives the engine, and no other process can see it."""
        return self.path == ":memory:"

    def connect(self, *, waits: bool = True) -> sqlite3.Connection:
        """A connection that begins and commits only when told to.

        Without `waits` a lock held by others is an error at once; see `begin`.
        """
        db = sqlite3.connect(
            self.path,
            isolation_level=None,
            check_same_thread=False,
            timeout=self.busy_timeout,
            cached_statements=512,
        )
        db.execute("pragma journal_mode = wal")
        db.execute(f"pragma synchronous = {self.synchronous}")
        # Above this the log is copied back less often and each page fewer times.
        db.execute("pragma wal_autocheckpoint = 4000")
        db.execute("pragma cache_size = -65536")
        db.execute("pragma temp_store = memory")
        if not waits:
            db.execute("pragma busy_timeout = 0")
        return db

    def begin(self, db: sqlite3.Connection) -> None:
        """Take the write lock, waiting in small steps.

        SQLite's own busy handler sleeps up to 100 ms at a time, which is an age when two
        processes hand the lock to each other a thousand times a second.
        """
        deadline = time.monotonic() + self.busy_timeout
        wait = _FIRST_WAIT
        while True:
            try:
                db.execute("begin immediate")
            except sqlite3.OperationalError as error:
                if not is_busy(error) or time.monotonic() >= deadline:
                    raise
            else:
                return
            time.sleep(wait)
            wait = min(wait * 1.5, _LONGEST_WAIT)
