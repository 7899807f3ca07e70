"""Insert many rows by few statements: one per block of rows, prepared once."""

import sqlite3
from collections.abc import Sequence
from itertools import chain

from longshore.engines.sqlite.sql import repeated

__all__ = ["BulkInsert"]

_BLOCKS = (256, 32, 4, 1)
"""Rows per statement; 256 rows of 18 values stay far below SQLite's limit of 32,766."""


class BulkInsert:
    """An insert statement over any number of rows."""

    def __init__(self, statement: str) -> None:
        self._statements = {block: repeated(statement, block) for block in _BLOCKS}

    def run(self, db: sqlite3.Connection, rows: Sequence[tuple[object, ...]]) -> int:
        """Insert all rows; how many were really inserted."""
        at = inserted = 0
        for block, statement in self._statements.items():
            while len(rows) - at >= block:
                values = list(chain.from_iterable(rows[at : at + block]))
                inserted += db.execute(statement, values).rowcount
                at += block
        return inserted
