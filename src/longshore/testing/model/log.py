"""The model's audit log, as lists."""

from collections.abc import Callable, Sequence
from itertools import takewhile

from longshore.core import audit
from longshore.core.audit import Entry, Mark, Pending, Standing
from longshore.runtime.actor import actor

__all__ = ["Log"]


class Log:
    """What was ordered and is not chained yet, and the chain."""

    def __init__(self, now: Callable[[], int]) -> None:
        self._now = now
        self.deeds: list[Pending] = []
        self.entries: list[Entry] = []
        self.standing = Standing()

    def append(self, entries: Sequence[Entry]) -> None:
        """Let these be the next ones."""
        chained = audit.append(self.standing.head, entries)
        self.entries += chained
        for one in chained[-1:]:
            self.standing = Standing(self.standing.anchor, Mark(one.number, one.hash))

    def cut(self, *, before: int, limit: int) -> int:
        """Forget the old end; how many entries that were."""
        old = list(takewhile(lambda one: one.at <= before, self.entries[:limit]))
        if old:
            anchor = Mark(old[-1].number, old[-1].hash)
            self.standing = Standing(anchor, self.standing.head)
            told = audit.cut(anchor, at=self._now(), before=before, actor=actor())
            self.append([told])
            del self.entries[: len(old)]
        return len(old)
