"""Keep the write-ahead log from growing.

SQLite starts its log over when all of it has been copied back and nobody reads from it. With
several processes that write all the time this moment never comes, and the log takes the disk
(measured: four writers and two readers, a gigabyte in twenty seconds). So a log that has grown
is emptied by force: for a moment nobody else writes.
"""

import os
import sqlite3
import time
from contextlib import suppress

from longshore.engines.sqlite.connection import Store

__all__ = ["Log"]

_LARGEST = 64 << 20
"""Four times the size at which SQLite starts over by itself, when it can."""
_BETWEEN_LOOKS = 1.0
_AFTER_A_FAILURE = 5.0
_PATIENCE_MS = 250
"""How long others may be kept from writing while the last readers finish."""


class Log:
    """The log of one store, as one writer sees it."""

    def __init__(self, store: Store) -> None:
        self._path = None if store.is_memory else f"{store.path}-wal"
        self._next_look = 0.0

    def keep_small(self, db: sqlite3.Connection) -> None:
        """Empty the log if it is large. Fails silently: the next look tries again."""
        now = time.monotonic()
        if self._path is None or now < self._next_look:
            return
        self._next_look = now + _BETWEEN_LOOKS
        with suppress(OSError, sqlite3.Error):
            if os.stat(self._path).st_size > _LARGEST and not _empty(db):
                self._next_look = now + _AFTER_A_FAILURE


def _empty(db: sqlite3.Connection) -> bool:
    # Most of the copying is done while others write; only the rest needs them to wait.
    db.execute("pragma wal_checkpoint(passive)")
    db.execute(f"pragma busy_timeout = {_PATIENCE_MS}")
    try:
        is_busy, _, _ = db.execute("pragma wal_checkpoint(truncate)").fetchone()
    finally:
        db.execute("pragma busy_timeout = 0")
    return not is_busy
