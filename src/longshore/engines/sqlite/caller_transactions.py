"""Work inside the transaction of a caller's own connection."""

import sqlite3
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from longshore.engines.sqlite.connection import Store
from longshore.errors import ConfigError

__all__ = ["transaction"]


@contextmanager
def transaction(store: Store, connection: object) -> Generator[sqlite3.Connection]:
    """The connection, in a transaction and reading plain rows; an error leaves no trace.

    The caller commits. Rows and text are read as the caller likes them again afterwards.
    """
    if not isinstance(connection, sqlite3.Connection):
        raise ConfigError("transactional submit on SQLite takes a sqlite3.Connection")
    liked = connection.row_factory, connection.text_factory
    connection.row_factory, connection.text_factory = None, str
    try:
        _check_file(store, connection)
        _begin(connection)
        connection.execute("savepoint longshore")
        try:
            yield connection
        except BaseException:
            # A full disk has ended the whole transaction already.
            if connection.in_transaction:
                connection.execute("rollback to longshore")
                connection.execute("release longshore")
            raise
        connection.execute("release longshore")
    finally:
        connection.row_factory, connection.text_factory = liked


def _check_file(store: Store, connection: sqlite3.Connection) -> None:
    files = {name: path for _, name, path in connection.execute("pragma database_list")}
    if store.is_memory or not files.get("main"):
        raise ConfigError("the connection and the engine must be on the same file")
    if Path(files["main"]).resolve() != Path(store.path).resolve():
        raise ConfigError(f"the connection is on {files['main']}, not on {store.path}")


def _begin(connection: sqlite3.Connection) -> None:
    """Open a transaction, unless one is open or the caller's `commit` would not end it."""
    if connection.in_transaction:
        return
    # From Python 3.12 on, `autocommit=True` makes `commit` do nothing.
    if connection.isolation_level is None or getattr(connection, "autocommit", None) is True:
        raise ConfigError("the connection has no open transaction; begin one first")
    connection.execute("begin immediate")
