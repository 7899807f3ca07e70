"""What the handlers of a benchmark write down of each job: a count that no queue can change."""

import mmap
import os
from collections.abc import Iterable, Sequence
from operator import add
from pathlib import Path
from typing import NamedTuple

import msgspec

__all__ = ["Lot", "Tallied", "Tally", "tallied"]

_MOST = 15
"""A cell counts no further, so that sixteen processes' cells fit into one."""


class Lot(NamedTuple):
    """How often a job has to begin, and how often it has to come to a good end."""

    begun: int
    ended: int


class Tally:
    """Two cells of a byte for every job, in a mapped file that one process writes.

    Handlers share one event loop, so nothing is lost between reading a cell and writing it.
    """

    def __init__(self, path: Path, jobs: int) -> None:
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            os.ftruncate(file, 2 * jobs)
            cells = memoryview(mmap.mmap(file, 2 * jobs))
        finally:
            os.close(file)
        self._begun, self._ended = cells[:jobs], cells[jobs:]

    def begin(self, seq: int) -> None:
        """The handler of that job begins."""
        if (count := self._begun[seq]) < _MOST:
            self._begun[seq] = count + 1

    def end(self, seq: int) -> None:
        """It came to a good end."""
        if (count := self._ended[seq]) < _MOST:
            self._ended[seq] = count + 1


class Tallied(msgspec.Struct, frozen=True, kw_only=True):
    """What all of them wrote down, beside what had to be."""

    jobs: int
    missing: int = 0
    """Jobs that did not come to their good end."""
    doubled: int = 0
    """Jobs that came to it more than once."""
    unrun: int = 0
    """Jobs that began less often than they had to."""
    rerun: int = 0
    """Jobs that began more often."""

    @property
    def is_exact(self) -> bool:
        """Every job ran as often as it had to, and no more."""
        return not (self.missing or self.doubled or self.unrun or self.rerun)

    @property
    def told(self) -> str:
        """In a line."""
        if self.is_exact:
            return f"{self.jobs:,} of {self.jobs:,}"
        return (
            f"of {self.jobs:,} {self.missing:,} did not end well, {self.doubled:,} did twice,"
            f" {self.unrun:,} ran too seldom, {self.rerun:,} too often"
        )


def tallied(files: Iterable[Path], jobs: int, lots: Sequence[Lot]) -> Tallied:
    """Add the files up; job number n has the lot n modulo their number."""
    begun, ended = bytes(jobs), bytes(jobs)
    for file in files:
        cells = file.read_bytes()
        begun = bytes(map(add, begun, cells[: len(cells) // 2]))
        ended = bytes(map(add, ended, cells[len(cells) // 2 :]))
    unrun = rerun = missing = doubled = 0
    for number, lot in enumerate(lots):
        fewer, more = _off(begun[number :: len(lots)], lot.begun)
        unrun, rerun = unrun + fewer, rerun + more
        fewer, more = _off(ended[number :: len(lots)], lot.ended)
        missing, doubled = missing + fewer, doubled + more
    return Tallied(jobs=jobs, missing=missing, doubled=doubled, unrun=unrun, rerun=rerun)


def _off(counts: bytes, wanted: int) -> tuple[int, int]:
    """How many are lower than that, and how many are higher."""
    fewer = sum(counts.count(count) for count in range(wanted))
    return fewer, len(counts) - fewer - counts.count(wanted)
