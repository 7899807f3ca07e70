"""Keep the write-ahead log short, and from growing.

SQLite copies its log back to the file when a commit makes it long, and the caller of that very
commit waits for it. So a writer that has nothing to do copies what there is before that.

SQLite starts its log over when all of it has been copied back and nobody reads from it. With
several processes that write all the time this moment never comes, and the log takes the disk
(measured: four writers and two readers, a gigabyte in twenty seconds). So a log that has grown
is emptied by force: for a moment nobody else writes.
"""

import errno
import os
import sqlite3
import time
from contextlib import suppress

from longshore.engines.sqlite.connection import Store

__all__ = ["Log"]

_sync = getattr(os, "fdatasync", os.fsync)
_LARGEST = 64 << 20
"""Four times the size at which SQLite starts over by itself, when it can."""
_BETWEEN_LOOKS = 1.0
_BETWEEN_COPIES = 2.0
_AFTER_A_FAILURE = 5.0
_PATIENCE_MS = 250
"""How long others may be kept from writing while the last readers finish."""


class Log:
    """The log of one store, as one writer sees it."""

    def __init__(self, store: Store) -> None:
        self._path = None if store.is_memory else f"{store.path}-wal"
        self._file: int | None = None
        self.is_in_doubt = False
        """A sync has failed, and what is in the log may not be on disk though it seems so."""
        self._next_look = 0.0
        self._next_copy = time.monotonic() + _BETWEEN_COPIES

    def sync(self, db: sqlite3.Connection) -> None:
        """Return when all that was committed so far is on disk, else raise OSError.

        What is no longer in the log by then was copied back, and is on disk for that. After an
        error the system may take what it could not write for written. So what is in the log is
        then copied back, which goes by another way, before anything counts as stored again.
        """
        if self._path is None:
            return
        if self.is_in_doubt and not _empty(db):
            raise OSError(errno.EIO, "the log could not be copied back")
        self.is_in_doubt = True
        if self._file is None or not os.fstat(self._file).st_nlink:
            self.close()
            self._file = os.open(self._path, os.O_RDONLY)
        _sync(self._file)
        self.is_in_doubt = False

    def close(self) -> None:
        """Let go of the file. No lock of SQLite's is on it, so none is lost."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def copy_back(self, db: sqlite3.Connection) -> None:
        """Copy what was committed to the file, if that was not done lately.

        Others may write meanwhile. Fails silently: SQLite does it in the end by itself.
        """
        now = time.monotonic()
        if self._path is None or now < self._next_copy:
            return
        self._next_copy = now + _BETWEEN_COPIES
        with suppress(sqlite3.Error):
            db.execute("pragma wal_checkpoint(passive)")

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
