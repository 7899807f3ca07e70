"""The outside world, as small as it can be: one cell per order, which counts what was done.

A handler's effect is a change that the queue cannot take back, so a job that runs twice asks
for it twice. The cell shows both figures: how often the world was asked, and how often it
acted. `apply_once` is what an idempotent handler gets from a world that knows the order's
number; `apply` is what everyone else gets.
"""

import fcntl
import os
import struct
import threading
from pathlib import Path
from typing import NamedTuple, Protocol

__all__ = ["Cell", "Effects", "World"]

_CELL = struct.Struct("<HH")


class Cell(NamedTuple):
    """What happened to one order."""

    asked: int
    applied: int


class World(Protocol):
    """Counts what is asked of it."""

    def apply_once(self, seq: int) -> bool:
        """Do it unless it was done before; whether this was the time it was done."""
        ...

    def apply(self, seq: int) -> bool:
        """Do it, again if need be; whether this was the first time."""
        ...

    def cell(self, seq: int) -> Cell:
        """What happened to the order so far."""
        ...


class Effects:
    """A file of cells, shared by every process that has it open.

    A cell is locked by itself, so a process that stands still in the middle holds up nobody
    but another run of the same order; the kernel unlocks what a dead process held.
    """

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        # The kernel's locks are between processes; threads of one need their own.
        self._lock = threading.Lock()

    def apply_once(self, seq: int) -> bool:
        """Do it unless it was done before; whether this was the time it was done."""
        return self._ask(seq, again=False)

    def apply(self, seq: int) -> bool:
        """Do it, again if need be; whether this was the first time."""
        return self._ask(seq, again=True)

    def cell(self, seq: int) -> Cell:
        """What happened to the order so far."""
        raw = os.pread(self._file, _CELL.size, seq * _CELL.size)
        return Cell(*_CELL.unpack(raw)) if len(raw) == _CELL.size else Cell(0, 0)

    @property
    def size(self) -> int:
        """One more than the highest order that anything was asked for."""
        return os.fstat(self._file).st_size // _CELL.size

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._file)

    def _ask(self, seq: int, *, again: bool) -> bool:
        offset = seq * _CELL.size
        with self._lock:
            fcntl.lockf(self._file, fcntl.LOCK_EX, _CELL.size, offset)
            try:
                asked, applied = self.cell(seq)
                acts = again or applied == 0
                os.pwrite(self._file, _CELL.pack(asked + 1, applied + acts), offset)
            finally:
                fcntl.lockf(self._file, fcntl.LOCK_UN, _CELL.size, offset)
        return applied == 0
