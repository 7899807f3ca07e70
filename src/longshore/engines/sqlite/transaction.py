"""What a body sees of the transaction it runs in."""

import sqlite3
from collections import Counter
from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

import msgspec

from longshore.core.event import Group, encode
from longshore.core.state import TERMINAL, State
from longshore.engines.sqlite.sql import SQL

__all__ = ["AfterCommit", "Ruled", "Transaction"]

T = TypeVar("T")

_json = msgspec.json.Encoder()


class Ruled(NamedTuple):
    """Whether a store has pauses, settings of queues, breakers, lines or fair queues."""

    by_pauses: bool
    by_limits: bool
    by_breakers: bool
    by_lines: bool
    by_lanes: bool


class Transaction:
    """What a body sees of the transaction it runs in."""

    __slots__ = ("_ruled", "calls", "counts", "db", "freed", "groups", "now", "undo", "wakes")

    def __init__(self, db: sqlite3.Connection, now: int) -> None:
        self.db = db
        self.now = now
        self.groups: list[Group] = []
        """Events; all bodies of a commit share one outbox row."""
        self.counts: Counter[tuple[str, str, str]] = Counter()
        """How many more finished jobs a tenant's queue has in a state."""
        self.wakes = False
        """Something became ready: wake those who wait."""
        self.freed: set[str] = set()
        """Queues of which as many ran as may, and now fewer do: others may have waited."""
        self.calls = False
        """Something that runs is to be cancelled: call those who hold jobs."""
        self.undo: list[Callable[[], None]] = []
        """Put back what bodies changed in memory, in case nothing comes of the transaction."""
        self._ruled: Ruled | None = None

    @property
    def ruled(self) -> "Ruled":
        """What holds jobs back at all. Most stores have no such rules, and ask for no more."""
        if self._ruled is None:
            self._ruled = Ruled(*map(bool, self.db.execute(SQL.ruled).fetchone()))
        return self._ruled

    def forget_rules(self) -> None:
        """Others than before may hold."""
        self._ruled = None

    def roll_back(self) -> None:
        """Forget what the bodies changed in memory; the newest change goes first."""
        for undo in reversed(self.undo):
            undo()

    def count(self, tenant: str, queue: str, state: State, jobs: int) -> None:
        """So many more jobs are in this state, or fewer. Only the finished are counted."""
        if state in TERMINAL:
            self.counts[tenant, queue, state] += jobs

    def finish(self) -> None:
        """Write what all bodies share: the counts and the events, if there are any."""
        self.wakes |= bool(self.freed)
        changes = [(*place, jobs) for place, jobs in self.counts.items() if jobs]
        if changes:
            self.db.execute(SQL.count_add, {"changes": _json.encode(changes).decode()})
        if self.groups:
            self.db.execute(SQL.outbox_add, {"at": self.now, "body": encode(self.groups)})


class AfterCommit(Generic[T]):
    """A body's result that is read once its commit has let others write again."""

    __slots__ = ("read",)

    def __init__(self, read: Callable[[sqlite3.Connection], T]) -> None:
        self.read = read
