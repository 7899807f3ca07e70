"""sqlite3's errors become Longshore's here, and nowhere else."""

import sqlite3
from collections.abc import Generator
from contextlib import contextmanager

from longshore.errors import (
    ConfigError,
    EngineBusyError,
    EngineError,
    EngineUnavailableError,
    SchemaError,
)

__all__ = ["busy", "is_busy", "translated"]

# "Locking protocol" is what a race for the log's locks ends with, after many turns.
_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL}
_UNAVAILABLE = {
    sqlite3.SQLITE_FULL: "the disk is full",
    sqlite3.SQLITE_READONLY: "the file or its folder cannot be written",
    sqlite3.SQLITE_CANTOPEN: "the file cannot be opened",
    sqlite3.SQLITE_IOERR: "the disk failed",
    sqlite3.SQLITE_PERM: "access is denied",
    sqlite3.SQLITE_AUTH: "access is denied",
}
_OLD = ("no such table: longshore_", "no such column", "has no column named")
_BROKEN = {
    sqlite3.SQLITE_CORRUPT: "the file is damaged; restore it from a backup",
    sqlite3.SQLITE_NOTADB: "the file is not a SQLite database",
}


def _primary(error: sqlite3.Error) -> int:
    # The low byte is the primary code; the rest refines it.
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def is_busy(error: sqlite3.Error) -> bool:
    """Someone else holds the lock."""
    return _primary(error) in _BUSY


def busy(path: str) -> EngineBusyError:
    """What whoever waited for the lock in vain is told."""
    return EngineBusyError(f"{path}: another process holds the write lock; try again")


def _translate(error: sqlite3.Error, path: str) -> EngineError:
    code = _primary(error)
    if code in _BUSY:
        return busy(path)
    if code in _UNAVAILABLE:
        return EngineUnavailableError(f"{path}: {_UNAVAILABLE[code]} ({error})")
    if code in _BROKEN:
        return EngineError(f"{path}: {_BROKEN[code]}")
    if any(sign in str(error) for sign in _OLD):
        return SchemaError(f"{path}: the schema is missing or old; run `longshore migrate`")
    return EngineError(f"{path}: {error}")


@contextmanager
def translated(path: str) -> Generator[None]:
    """Only LongshoreErrors leave this block."""
    try:
        yield
    except sqlite3.Error as error:
        raise _translate(error, path) from error
    except (OverflowError, UnicodeError) as error:
        # The driver refuses these before the file sees them.
        raise ConfigError(f"a number or text cannot be stored: {error}") from error
