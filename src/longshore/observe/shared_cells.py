"""Where a process keeps its numbers: in memory, or in files that its neighbours can add up.

Every series has a line in a list of names and as many cells as it needs in an array of doubles.
The array is memory that the kernel keeps when the process is killed, so what was counted stays
counted; a neighbour reads it without asking. Only the process itself writes, from one thread
at a time, so there are no locks.
"""

import fcntl
import mmap
import os
import secrets
from array import array
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec

__all__ = ["Cells", "Series", "Totals", "gathered"]

_CAPACITY = 1 << 16
"""Cells of a process: half a megabyte, of which only what is used takes up memory."""
_NOWHERE = 64
_NAMES, _VALUES, _LOCK = ".names", ".values", "lock"
_MOST_DEAD = 8
"""Files of processes that have ended; when there are more, one takes the place of all."""


class Series(NamedTuple):
    """A metric with the values of its labels."""

    name: str
    labels: tuple[str, ...]


Totals = dict[Series, list[float]]
"""By series, its cells."""


class _Line(msgspec.Struct, array_like=True):
    name: str
    labels: tuple[str, ...]
    width: int


class Cells:
    """The numbers of this process. With a folder they are there for all who know it."""

    def __init__(self, folder: Path | None = None) -> None:
        self._lines: list[_Line] = []
        self._used = 0
        self._names: int | None = None
        memory = mmap.mmap(-1, _CAPACITY * 8) if folder is None else self._open(folder)
        self.values = memoryview(memory).cast("d")

    def place(self, series: Series, width: int) -> int:
        """The first of `width` cells for this series, which is new."""
        if self._used + width > _CAPACITY - _NOWHERE:
            # Labels have a limit far below: whoever gets here is not told of, and goes on.
            return _CAPACITY - _NOWHERE
        line = _Line(series.name, series.labels, width)
        found, self._used = self._used, self._used + width
        self._lines.append(line)
        if self._names is not None:
            os.write(self._names, msgspec.json.encode(line) + b"\n")
        return found

    def totals(self) -> Totals:
        """What this process alone has counted."""
        return _placed(self._lines, self.values)

    def _open(self, folder: Path) -> mmap.mmap:
        with _locked(folder, fcntl.LOCK_EX):
            _fold(folder)
            stem = str(folder / secrets.token_hex(8))
            values = os.open(stem + _VALUES, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
            try:
                os.ftruncate(values, _CAPACITY * 8)
                memory = mmap.mmap(values, _CAPACITY * 8)
            finally:
                os.close(values)
            # Never closed: the lock goes with the process, and says whether it lives.
            self._names = os.open(stem + _NAMES, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            fcntl.flock(self._names, fcntl.LOCK_EX)
        return memory


def gathered(folder: Path, keeps: Callable[[str], bool]) -> Totals:
    """What all processes of a folder have counted, added up.

    Of a process that has ended, only the metrics that `keeps` accepts: what was true of it
    then is not true now.
    """
    with _locked(folder, fcntl.LOCK_SH):
        return _sum(_read(path, keeps) for path in folder.glob(f"*{_NAMES}"))


def _read(path: Path, keeps: Callable[[str], bool]) -> Totals:
    with path.open("rb") as file:
        is_dead = _is_dead(file.fileno())
        text = file.read()
    # The last line may still be on its way.
    lines = [msgspec.json.decode(one, type=_Line) for one in text.split(b"\n")[:-1]]
    values = array("d", path.with_suffix(_VALUES).read_bytes())
    found = _placed(lines, values)
    return {one: cells for one, cells in found.items() if not is_dead or keeps(one.name)}


def _is_dead(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _placed(lines: Iterable[_Line], values: Sequence[float]) -> Totals:
    found: Totals = {}
    at = 0
    for line in lines:
        found[Series(line.name, line.labels)] = list(values[at : at + line.width])
        at += line.width
    return found


def _sum(parts: Iterable[Totals]) -> Totals:
    total: Totals = {}
    for part in parts:
        for series, cells in part.items():
            known = total.get(series)
            total[series] = cells if known is None else [*map(float.__add__, known, cells)]
    return total


def _fold(folder: Path) -> None:
    """Put what processes have left behind together, so that restarts do not pile it up."""
    dead: list[Path] = []
    for path in folder.glob(f"*{_NAMES}"):
        with path.open("rb") as file:
            if _is_dead(file.fileno()):
                dead.append(path)
    if len(dead) <= _MOST_DEAD:
        return
    total = _sum(_read(path, lambda _: True) for path in dead)
    kept, values = bytearray(), array("d")
    for series, cells in total.items():
        kept += msgspec.json.encode(_Line(series.name, series.labels, len(cells))) + b"\n"
        values.extend(cells)
    first, *rest = dead
    first.write_bytes(kept)
    first.with_suffix(_VALUES).write_bytes(values.tobytes())
    for path in rest:
        path.unlink()
        path.with_suffix(_VALUES).unlink()


@contextmanager
def _locked(folder: Path, how: int) -> Generator[None]:
    lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, how)
        yield
    finally:
        os.close(lock)
