"""Numbers of sessions and events that no other history of a file has given out.

Somebody may put an older copy of the file back. The counters in it are old, while remote
workers and readers of events still know numbers that were given out since: a worker would be
taken for one whose session was opened later, a reader would leave out events that it never saw.
So every process that writes to a file moves the counters ahead first, to a number that follows
from the time of its first write. Numbers of jobs need not move: a session of before
the copy has sent exchanges that the copy does not know, so its next one is refused.
"""

from longshore.engines.sqlite.connection import Store
from longshore.engines.sqlite.sql import SQL
from longshore.engines.sqlite.transaction import Transaction

__all__ = ["Numbers"]

_EPOCH_MS = 1_704_067_200_000
"""The beginning of 2024."""
_PER_MS = 256
"""More than a file gives out in a millisecond: the clock stays ahead of its counters."""


class Numbers:
    """Moves the counters of a file ahead, once in each process."""

    def __init__(self, store: Store) -> None:
        self._least: int | None = None
        self._have_moved = False
        self._are_ahead = store.is_memory
        """Whether a commit of this process has moved them, or nobody can put a copy back."""

    def move_ahead(self, transaction: Transaction) -> None:
        """Move the counters to the time of the first write; one that counted no event stays."""
        if self._are_ahead:
            return
        db = transaction.db
        if db.execute(SQL.numbers_can_move).fetchone() is None:
            return  # the schema is missing, or old: nothing gets a number
        if self._least is None:
            self._least = (transaction.now // 1000 - _EPOCH_MS) * _PER_MS
        number = {"number": max(self._least, 0)}
        db.execute(SQL.numbers_first_session, number)
        db.execute(SQL.numbers_leave_out, number)
        db.execute(SQL.numbers_move_ahead, number)
        db.execute(SQL.position_gaps_prune)
        self._have_moved = True

    def committed(self) -> None:
        """The transaction of the last `move_ahead` is committed."""
        self._are_ahead |= self._have_moved
