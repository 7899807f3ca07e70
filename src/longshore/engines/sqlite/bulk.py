"""Run a statement over many rows at once: one execution per block of rows, prepared once.

A statement that steps row by row gives up the interpreter lock at every row; see writer.py.

What a parameter costs depends on its type: an int 70 ns, a text or a bytearray 140, but bytes
490 and None 380, because Python looks for an adapter first. Hence `blob` and `ABSENT`.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from itertools import chain

from longshore.engines.sqlite.sql import repeated

__all__ = ["ABSENT", "BulkStatement", "blob"]

_BLOCKS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
"""Rows per execution; 256 rows of 18 values stay far below SQLite's limit of 32,766."""

ABSENT = -1
"""Stands for null in rows; the statement turns it into one by `nullif(?, -1)`."""

blob = bytearray
"""Bytes as rows carry them."""


class BulkStatement:
    """A statement with one line of parameters that stands for a row.

    The last block is filled up with rows of zeros, and the statement must pass over a row
    whose first value is zero: forty rows take one execution instead of two.
    """

    def __init__(self, statement: str) -> None:
        self._statements = {block: repeated(statement, block) for block in _BLOCKS}

    def run(
        self, db: sqlite3.Connection, rows: Sequence[tuple[object, ...]], *tail: object
    ) -> int:
        """Run it for all rows; how many rows of the table were touched.

        `tail` are the parameters that follow the rows.
        """
        return sum(done.rowcount for done in self._blocks(db, rows, tail))

    def read(
        self, db: sqlite3.Connection, rows: Sequence[tuple[object, ...]], *tail: object
    ) -> str:
        """What it finds for all rows, if its answer is one JSON array: all in one."""
        found = [done.fetchone()[0] for done in self._blocks(db, rows, tail)]
        return f"[{','.join(one[1:-1] for one in found if one != '[]')}]"

    def _blocks(
        self,
        db: sqlite3.Connection,
        rows: Sequence[tuple[object, ...]],
        tail: tuple[object, ...],
    ) -> Iterator[sqlite3.Cursor]:
        for at in range(0, len(rows), _BLOCKS[-1]):
            part = rows[at : at + _BLOCKS[-1]]
            block = next(block for block in _BLOCKS if block >= len(part))
            values = [*chain.from_iterable(part)]
            values += [0] * ((block - len(part)) * len(part[0]))
            yield db.execute(self._statements[block], [*values, *tail])
