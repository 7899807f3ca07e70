"""Connections to the file, and the wait for its write lock."""

import os
import sqlite3
import threading
import time
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeVar

from longshore.engines.sqlite.faults import busy, is_busy
from longshore.errors import ConfigError, EngineBusyError
from longshore.runtime.clock import Clock

__all__ = ["Store", "Synchronous"]

C = TypeVar("C", bound=sqlite3.Connection)

_FIRST_WAIT = 0.000_02
"""Short: a worker that was woken for a commit stands at the lock moments before it is free."""
_LONGEST_WAIT = 0.002
_creating = threading.Lock()


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
    mode: int = 0o600
    """Who may read and write a file that is created; SQLite makes its log likewise."""
    process: int = field(default_factory=os.getpid)
    """Who opened it. A fork inherits neither the threads nor the locks."""

    @property
    def is_memory(self) -> bool:
        """Nothing outlives the engine, and no other process can see it."""
        return self.path == ":memory:"

    @property
    def is_ours(self) -> bool:
        """Whether the calling process opened it."""
        return os.getpid() == self.process

    def check_process(self) -> None:
        """Return in the process that opened it, else ConfigError."""
        if not self.is_ours:
            raise ConfigError("this engine was opened before a fork; open one in each process")

    def connect(self, *, waits: bool = True) -> sqlite3.Connection:
        """A connection that begins and commits only when told to.

        Without `waits` a lock held by others is an error at once; see `begin`.
        """
        return self.connect_as(sqlite3.Connection, waits=waits)

    def connect_as(self, kind: type[C], *, waits: bool) -> C:
        """The same, of this kind."""
        if not self.is_memory:
            self._create()
        db = sqlite3.connect(
            self.path,
            factory=kind,
            isolation_level=None,
            check_same_thread=False,
            timeout=self.busy_timeout,
            cached_statements=512,
        )
        try:
            # SQLite does not wait for its turn to make a new file keep a log.
            if not self._patiently(db, "pragma journal_mode = wal", self.busy_timeout):
                raise busy(self.path)
            self._prepare(db)
        except (sqlite3.Error, EngineBusyError):
            db.close()
            raise
        if not waits:
            db.execute("pragma busy_timeout = 0")
        return db

    def _create(self) -> None:
        """Make an empty file with the right permissions, if there is none.

        One thread at a time, and before any of them opens it: closing a file ends the locks
        that other threads of the process have on it.
        """
        with _creating:
            try:
                file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL, self.mode)
            except OSError:
                # It exists, or cannot be made: then SQLite says why.
                return
            try:
                # What the umask took away was asked for.
                os.fchmod(file, self.mode)
            finally:
                os.close(file)

    def _prepare(self, db: sqlite3.Connection) -> None:
        db.execute(f"pragma synchronous = {self.synchronous}")
        # Above this the log is copied back less often and each page fewer times.
        db.execute("pragma wal_autocheckpoint = 4000")
        db.execute("pragma cache_size = -65536")
        db.execute("pragma temp_store = memory")

    def begin(self, db: sqlite3.Connection, *, within: float) -> bool:
        """Take the write lock, waiting in small steps; whether it was free in so many seconds.

        SQLite's own busy handler sleeps up to 100 ms at a time, which is an age when two
        processes hand the lock to each other a thousand times a second.
        """
        return self._patiently(db, "begin immediate", within)

    def begin_now(self, db: sqlite3.Connection) -> bool:
        """Take the write lock if it is free; whether it was."""
        return self._patiently(db, "begin immediate", 0.0)

    def _patiently(self, db: sqlite3.Connection, statement: str, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        wait = _FIRST_WAIT
        while True:
            try:
                db.execute(statement)
            except sqlite3.OperationalError as error:
                if not is_busy(error):
                    raise
                if time.monotonic() >= deadline:
                    return False
            else:
                return True
            time.sleep(wait)
            wait = min(wait * 1.5, _LONGEST_WAIT)
