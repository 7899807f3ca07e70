"""Run a statement over many rows at once: one execution per block of rows, prepared once.

A statement that steps row by row gives up the interpreter lock at every row; see writer.py.
"""

import sqlite3
from collections.abc import Sequence
from itertools import chain

from longshore.engines.sqlite.sql import repeated

__all__ = ["BulkJoin", "BulkStatement"]

_BLOCKS = (256, 64, 16, 4, 1)
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
        while at < len(rows):
            block = self._block(len(rows) - at)
            values = list(chain.from_iterable(rows[at : at + block]))
            values += self._filling(rows[at : at + block], block)
            touched += db.execute(self._statements[block], [*values, *tail]).rowcount
            at += block
        return touched

    def _block(self, left: int) -> int:
        """The largest block that is full."""
        return next(block for block in _BLOCKS if block <= left)

    def _filling(self, rows: Sequence[tuple[object, ...]], block: int) -> list[object]:
        return []


class BulkJoin(BulkStatement):
    """A statement that joins its rows to a table by their first value.

    A row of nulls joins nothing, so the last block is filled up with such rows: forty rows
    take one execution instead of four.
    """

    def _block(self, left: int) -> int:
        """The smallest block that holds what is left, or the largest there is."""
        return next((block for block in reversed(_BLOCKS) if block >= left), _BLOCKS[0])

    def _filling(self, rows: Sequence[tuple[object, ...]], block: int) -> list[object]:
        return [None] * ((block - len(rows)) * len(rows[0]))
