"""Numbers that the processes of a benchmark show each other, in shared memory."""

import mmap
import os
import resource
from pathlib import Path

__all__ = ["Board"]

_PER_ACTOR = 4
_CELLS = 512


class Board:
    """Cells of eight bytes in a mapped file. Each cell has one writer."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        os.ftruncate(self._file, _CELLS * 8)
        self._cells = memoryview(mmap.mmap(self._file, _CELLS * 8)).cast("q")

    @property
    def phase(self) -> int:
        """0 set up, 1 go, 2 stop. Set by the one who runs the benchmark."""
        return self._cells[0]

    @phase.setter
    def phase(self, phase: int) -> None:
        self._cells[0] = phase

    def show(self, actor: int, *, ready: int, count: int, started: int = 0) -> None:
        """What an actor has done so far, and the processor time it took."""
        at = 8 + actor * _PER_ACTOR
        used = resource.getrusage(resource.RUSAGE_SELF)
        self._cells[at + 1] = count
        self._cells[at + 2] = int((used.ru_utime + used.ru_stime) * 1e6)
        self._cells[at + 3] = started
        self._cells[at] = ready

    def is_ready(self, actor: int) -> bool:
        """The actor is set up."""
        return self._cells[8 + actor * _PER_ACTOR] > 0

    def count(self, actor: int) -> int:
        """Jobs an actor has submitted or finished."""
        return self._cells[8 + actor * _PER_ACTOR + 1]

    def cpu(self, actor: int) -> int:
        """Microseconds of processor time an actor has used."""
        return self._cells[8 + actor * _PER_ACTOR + 2]

    def started(self, actor: int) -> int:
        """Handlers that have begun, told by themselves: for latency."""
        return self._cells[8 + actor * _PER_ACTOR + 3]
