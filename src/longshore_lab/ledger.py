"""A ledger outside the queue: what producers and handlers themselves say happened.

The queue never sees it, so the queue cannot make it agree. Each process appends to a file of
its own, so a process that dies in the middle of a line spoils only its own last line.

A line is handed to the kernel by one write. That is enough to survive `kill -9` of any
process: the page cache belongs to the kernel. It does not survive the loss of power; `sync`
is for that, and only a test that cuts the power needs to pay for it.
"""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, Protocol

import msgspec

from longshore_lab.records import Entry, Opened, Record

__all__ = ["Book", "Ledger", "LedgerError", "Pages", "now", "read"]

_SUFFIX = ".jsonl"
_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[Record] = msgspec.json.Decoder(Record)


class LedgerError(Exception):
    """A ledger that cannot be what its writer wrote."""


def now() -> int:
    """Microseconds on the clock that every process of this machine shares."""
    return time.monotonic_ns() // 1000


class Book(Protocol):
    """Where an actor writes down what it does."""

    @property
    def actor(self) -> str:
        """Who writes."""
        ...

    def now(self) -> int:
        """Microseconds, on the clock of all actors."""
        ...

    def write(self, *records: Record) -> None:
        """Append the records."""
        ...


class Ledger:
    """One process's pages. Appending a line costs about two microseconds."""

    def __init__(self, folder: Path, actor: str, *, role: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        # An actor that starts again is another actor: a name is used once.
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL
        self._file = os.open(folder / f"{actor}{_SUFFIX}", flags, 0o644)
        self.actor = actor
        self.write(Opened(now(), actor, role, os.getpid()))

    now = staticmethod(now)

    def write(self, *records: Record) -> None:
        """Append the records with one write."""
        lines = _encoder.encode_lines(records)
        if lines and os.write(self._file, lines) != len(lines):
            raise LedgerError(f"the ledger of {self.actor} is cut short; is the disk full?")

    def sync(self) -> None:
        """Return when everything written so far survives a power loss."""
        os.fsync(self._file)

    def close(self) -> None:
        """Write no more."""
        os.close(self._file)


class Pages(NamedTuple):
    """Everything a folder of ledgers says."""

    entries: list[Entry]
    """In order of time."""
    torn: list[str]
    """The actors whose last line was cut off by their death."""


def read(folder: Path, *, of: str = "*") -> Pages:
    """All lines of the actors whose names match `of`.

    A last line that was cut off is reported; any other that makes no sense is a LedgerError.
    """
    entries: list[Entry] = []
    torn: list[str] = []
    for path in sorted(folder.glob(of + _SUFFIX)):
        whole, _, rest = path.read_bytes().rpartition(b"\n")
        if rest:
            torn.append(path.stem)
        entries.extend(_entries(path, whole))
    entries.sort(key=lambda entry: entry.record.at)
    return Pages(entries, torn)


def _entries(path: Path, lines: bytes) -> Iterator[Entry]:
    for number, line in enumerate(lines.splitlines(), start=1):
        try:
            yield Entry(path.stem, _decoder.decode(line))
        except msgspec.MsgspecError as error:
            raise LedgerError(f"{path.name}, line {number}: {error}") from error
