"""Run a statement over many rows at once: one execution per block of rows, prepared once.

A statement that steps row by row gives up the interpreter lock at every row; see writer.py.
"""

import sqlite3
from collections.abc import Sequence
from itertools import chain

from longshore.engines.sqlite.sql import repeated

__all__ = ["BulkStatement"]

_BLOCKS = (256, 32, 4, 1)
"""Rows per execution; 256 rows of 18 values stay far below SQLite's limit of 32,766."""


class BulkStatement:
    """A statement with one line of parameters that stands for a row."""

    def __init__(self, statement: str) -> None:
        self._statements = {block: repeated(statement, block) for block in _BLOCKS}

    def run(
        self, db: sqlite3.Connection, rows: Sequence[tuple[object, ...]], *tail: object
    ) -> int:
        """Run it for all rows; how many rows of the table were touched.

        `tail` are the parameters that follow the rows.
        """
        at = touched = 0
        for block, statement in self._statements.items():
            while len(rows) - at >= block:
                values = chain(chain.from_iterable(rows[at : at + block]), tail)
                touched += db.execute(statement, list(values)).rowcount
                at += block
        return touched
