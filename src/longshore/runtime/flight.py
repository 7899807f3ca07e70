"""The flight record: what a worker's attempts were doing, in memory that outlives the worker.

A worker writes it with plain stores, no system call and no lock, because every job passes by;
its keeper reads it when the worker is dead, or stands still. An attempt has a cell:

    cells     started, handle, delivery, deadline;    when its handler begins
              the sign of the last says whether it
              runs in a child process
    ends      0, then when it ended; the sign says    when it is over
              whether the outcome tells more
    outcomes  length, checksum, up to 512 bytes       just before that, unless it just succeeded

A process may die between any two stores, so their order is what makes the record true. A cell
is used again only after the engine has settled its last attempt, and `started` is the first
word that is written: from then on the end that stands beside it is older than the start, and
an attempt is over only if its end is younger. A cell that was written by halves therefore says
"running", of a claim that is the engine's business or nobody's; it never says "over".
Words are eight bytes and aligned, and are never half written.
"""

import mmap
import os
import struct
import threading
import zlib
from collections.abc import Sequence

import msgspec

from longshore.core.job import Failure, Settlement
from longshore.core.state import Verb

__all__ = ["CELL_BYTES", "Entry", "FlightRecord", "begin", "open_memory"]

CELL_BYTES = 32
OUTCOME_BYTES = 512
_HEADER_BYTES = 4096
_OUTCOME_ROOM = OUTCOME_BYTES + 8

_TOKEN, _UNRECORDED, _RENEWED_TOKEN, _LEFT = 0, 1, 2, 3
_PULSE, _RENEWED, _KEEPER_PULSE, _GLANCE = 8, 9, 10, 11
"""Places of words in the header."""

_PAGE = 4096
_UNUSED = bytes(_PAGE)
_CELL = struct.Struct("dqqd")
_PREFIX = struct.Struct("II")

begin = _CELL.pack_into
"""`begin(record.cells, cell * CELL_BYTES, started, handle, delivery, deadline)`. A name of its
own, because the slots call it for every job."""


class Entry(msgspec.Struct, frozen=True, gc=False):
    """One attempt, as its cell tells of it. Times are on the monotonic clock."""

    handle: int
    delivery: int
    started: float
    deadline: float
    ended: float | None
    settlement: Settlement | None
    in_child: bool = False


class _Outcome(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A settlement, as short as it gets."""

    handle: int
    delivery: int
    verb: Verb
    delay: int
    charge: bool
    crash: bool
    lapse: bool
    started_at: int | None
    finished_at: int | None
    result: bytes | None
    failure: tuple[str, str, str] | None
    reason: str | None


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(_Outcome)


def _size(capacity: int) -> int:
    """How large a record for so many attempts is. What is never written takes no memory."""
    # One cell more: attempts that found none are written there, and never read.
    return _HEADER_BYTES + (capacity + 1) * (CELL_BYTES + 8 + _OUTCOME_ROOM)


class FlightRecord:
    """One record, mapped; the worker and its keeper have one each of the same memory.

    It is let go when nobody has it any more: a thread may come back late to a worker that left.
    """

    def __init__(self, memory: int, capacity: int) -> None:
        """`memory` is a file descriptor, which stays the caller's."""
        self._map = mmap.mmap(memory, _size(capacity))
        self._capacity = capacity
        view = memoryview(self._map)
        cells_end = _HEADER_BYTES + (capacity + 1) * CELL_BYTES
        ends_end = cells_end + (capacity + 1) * 8
        self._words = view[:_HEADER_BYTES].cast("q")
        self._times = view[:_HEADER_BYTES].cast("d")
        self.cells = view[_HEADER_BYTES:cells_end]
        self.ends = view[cells_end:ends_end].cast("d")
        """`record.ends[cell] = now`: the attempt has succeeded, and there is no more to say."""
        self._outcomes = view[ends_end:]
        self.free = list(range(capacity - 1, -1, -1))
        """Cells to use; the last one first, so that few are ever touched."""
        self._lock = threading.Lock()

    # The worker's side

    def spare(self) -> int:
        """A cell for an attempt when none is free. It cannot be told apart from then on."""
        with self._lock:
            self._words[_UNRECORDED] += 1
        return self._capacity

    def end(self, cell: int, now: float, settlement: Settlement) -> None:
        """The attempt is over, in another way than by a plain success."""
        body = _encoded(settlement)
        if body is None:
            return  # it has to count as running
        at = cell * _OUTCOME_ROOM
        _PREFIX.pack_into(self._outcomes, at, len(body), zlib.crc32(body))
        self._outcomes[at + 8 : at + 8 + len(body)] = body
        self.ends[cell] = -now

    def release(self, cells: Sequence[int]) -> None:
        """The engine has heard of these attempts, or they are no longer its business."""
        if self._words[_UNRECORDED]:
            mine = [cell for cell in cells if cell != self._capacity]
            with self._lock:
                self._words[_UNRECORDED] -= len(cells) - len(mine)
            cells = mine
        self.free += cells

    def beat(self, now: float) -> None:
        """The event loop is alive."""
        self._times[_PULSE] = now

    def glance(self, now: float) -> None:
        """The worker's lookout is alive: some thread of the worker can run."""
        self._times[_GLANCE] = now

    def leave(self) -> None:
        """The worker is gone, though its process may live on."""
        self._words[_LEFT] = 1

    def renewed(self, token: int) -> float:
        """When the keeper sent its last renewal of this session that was granted; 0: never."""
        at = self._times[_RENEWED]
        return at if self._words[_RENEWED_TOKEN] == token else 0.0

    @property
    def keeper_pulse(self) -> float:
        """When the keeper last looked after its worker."""
        return self._times[_KEEPER_PULSE]

    # Both sides

    @property
    def token(self) -> int:
        """The worker's session; 0 when it has none."""
        return self._words[_TOKEN]

    @token.setter
    def token(self, token: int) -> None:
        self._words[_TOKEN] = token

    # The keeper's side

    @property
    def pulse(self) -> float:
        """When the worker's event loop was last known to be alive."""
        return self._times[_PULSE]

    @property
    def glanced(self) -> float:
        """When the worker's lookout last looked; 0: it has none."""
        return self._times[_GLANCE]

    @property
    def has_left(self) -> bool:
        """The worker is gone, though its process may live on."""
        return self._words[_LEFT] == 1

    @property
    def is_whole(self) -> bool:
        """Every attempt that began has a cell."""
        return self._words[_UNRECORDED] == 0

    def look(self, now: float) -> None:
        """The keeper is looking after its worker."""
        self._times[_KEEPER_PULSE] = now

    def renew(self, token: int, sent: float) -> None:
        """A renewal that was sent at that time was granted."""
        self._times[_RENEWED] = 0.0
        self._words[_RENEWED_TOKEN] = token
        self._times[_RENEWED] = sent

    def entries(self) -> list[Entry]:
        """Every cell that was ever used. Those of settled attempts tell of the past."""
        found: list[Entry] = []
        end = self._capacity * CELL_BYTES
        for at in range(0, end, _PAGE):
            page = bytes(self.cells[at : min(at + _PAGE, end)])
            # Most were never used, and reading all of them would take milliseconds.
            if page != _UNUSED[: len(page)]:
                found += self._page(at // CELL_BYTES, page)
        return found

    def _page(self, first: int, page: bytes) -> list[Entry]:
        return [
            self._entry(cell, started, handle, delivery, deadline)
            for cell, (started, handle, delivery, deadline) in enumerate(
                _CELL.iter_unpack(page), first
            )
            if started
        ]

    def _entry(
        self, cell: int, started: float, handle: int, delivery: int, deadline: float
    ) -> Entry:
        end = self.ends[cell]
        settlement, ended = None, abs(end) if abs(end) > started else None
        if ended is not None and end < 0:
            settlement = self._outcome(cell, handle, delivery)
            ended = ended if settlement else None
        in_child = deadline < 0
        return Entry(handle, delivery, started, abs(deadline), ended, settlement, in_child)

    def _outcome(self, cell: int, handle: int, delivery: int) -> Settlement | None:
        """The settlement in the cell's room; None when it is not whole, or of another claim."""
        at = cell * _OUTCOME_ROOM
        length, checksum = _PREFIX.unpack_from(self._outcomes, at)
        body = bytes(self._outcomes[at + 8 : at + 8 + min(length, OUTCOME_BYTES)])
        if zlib.crc32(body) != checksum:
            return None
        try:
            found = _decoder.decode(body)
        except msgspec.DecodeError:
            return None
        if (found.handle, found.delivery) != (handle, delivery):
            return None
        return _settlement(found)


def open_memory(capacity: int) -> int:
    """A descriptor of fresh memory that can be handed to another process. Linux only."""
    memory = os.memfd_create("longshore-flight", os.MFD_CLOEXEC)
    os.ftruncate(memory, _size(capacity))
    return memory


def _encoded(one: Settlement) -> bytes | None:
    """The settlement in 512 bytes; None if that cannot be done without changing its sense."""
    reason = one.reason and one.reason[:100]
    failure = one.failure and (one.failure.kind[:60], one.failure.message[:200], "")
    body = _encoder.encode(_shortened(one, failure, reason))
    room = OUTCOME_BYTES - len(body)
    if room < 0 and failure:
        body = _encoder.encode(_shortened(one, (failure[0], failure[1][:40], ""), reason))
        return body if len(body) <= OUTCOME_BYTES else None
    if one.failure and failure and one.failure.traceback and room > _SOME:
        tail = one.failure.traceback.encode()[-(room - 8) :].decode(errors="ignore")
        body = _encoder.encode(_shortened(one, (failure[0], failure[1], tail), reason))
    return body if len(body) <= OUTCOME_BYTES else None


_SOME = 40
"""Bytes of a traceback below which it says nothing."""


def _shortened(
    one: Settlement, failure: tuple[str, str, str] | None, reason: str | None
) -> _Outcome:
    return _Outcome(
        one.handle,
        one.delivery,
        one.verb,
        one.delay,
        one.charge,
        one.crash,
        one.lapse,
        one.started_at,
        one.finished_at,
        one.result,
        failure,
        reason,
    )


def _settlement(found: _Outcome) -> Settlement:
    return Settlement(
        handle=found.handle,
        delivery=found.delivery,
        verb=found.verb,
        delay=found.delay,
        charge=found.charge,
        crash=found.crash,
        lapse=found.lapse,
        started_at=found.started_at,
        finished_at=found.finished_at,
        result=found.result,
        failure=Failure(*found.failure) if found.failure else None,
        reason=found.reason,
    )
