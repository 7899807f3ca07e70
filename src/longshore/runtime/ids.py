"""New job ids."""

import os
from weakref import WeakSet

from longshore.core.ids import TAIL_BYTES, tails
from longshore.core.job import JobId
from longshore.runtime.clock import Clock, SystemClock

__all__ = ["IdSource"]

_BLOCK = 4096


class IdSource:
    """Makes UUIDv7 ids, from any thread.

    Randomness is drawn and shaped in blocks: a system call and five small steps per id would
    cost more than all the rest of a submit.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._tails: list[bytes] = []
        _sources.add(self)

    def forget(self) -> None:
        """Draw anew: a forked child must not hand out the ids its parent will."""
        self._tails.clear()

    def make(self) -> JobId:
        """A fresh id."""
        prefix = (self._clock.now() // 1000).to_bytes(6, "big")
        while True:
            try:
                return JobId(prefix + self._tails.pop())
            except IndexError:
                self._tails.extend(tails(os.urandom(TAIL_BYTES * _BLOCK)))


def _forget_all() -> None:
    for source in list(_sources):
        source.forget()


_sources: WeakSet[IdSource] = WeakSet()
# Once for all of them: what is registered stays to the end of the process.
os.register_at_fork(after_in_child=_forget_all)
