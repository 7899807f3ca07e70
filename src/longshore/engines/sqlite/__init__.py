"""The embedded engine: one file, one writer per process, no server."""

from longshore.engines.sqlite.connection import Synchronous
from longshore.engines.sqlite.engine import SqliteEngine

__all__ = ["SqliteEngine", "Synchronous"]
