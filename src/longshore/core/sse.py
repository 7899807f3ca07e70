"""Server-sent events, and the ids by which a reader goes on where it was.

An id is `position.index`, that of the event; an id without index stands behind the whole batch.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

__all__ = ["COMMENT", "Cursor", "Decoder", "Message", "frame", "mark", "parse_cursor"]

LAST_INDEX = 2**31 - 1
"""Behind every event of a batch."""
COMMENT = b":\n\n"
"""Says nothing but that the line stands."""
_CURSOR = re.compile(r"(0|[1-9][0-9]{0,18})(?:\.(0|[1-9][0-9]{0,8}))?")
_LONGEST = 4 << 20


class Cursor(NamedTuple):
    """A place between two events: behind this one."""

    position: int
    number: int = LAST_INDEX

    def __str__(self) -> str:
        whole = self.number == LAST_INDEX
        return str(self.position) if whole else f"{self.position}.{self.number}"


def parse_cursor(text: str) -> Cursor | None:
    """The place that an id names; None if it is not one."""
    found = _CURSOR.fullmatch(text)
    if found is None or int(found[1]) >= 2**63:
        return None
    return Cursor(int(found[1]), LAST_INDEX if found[2] is None else int(found[2]))


def frame(cursor: str, name: str, data: bytes) -> bytes:
    """One event; `data` is JSON on one line."""
    return b"id: %b\nevent: %b\ndata: %b\n\n" % (cursor.encode(), name.encode(), data)


def mark(cursor: Cursor, *, retry_ms: int | None = None) -> bytes:
    """No event, but a place to go on from; with what a reader waits before it comes back."""
    retry = b"" if retry_ms is None else b"retry: %d\n" % retry_ms
    return b"%bid: %b\n\n" % (retry, str(cursor).encode())


class Message(msgspec.Struct, frozen=True, gc=False):
    """What a reader makes of one block."""

    id: str
    """The last one that was told."""
    name: str
    data: bytes
    """Empty: nothing happened, but the id holds."""


class Decoder:
    """Turns what arrives, in whatever pieces, into messages."""

    def __init__(self) -> None:
        self._rest = b""
        self._id = ""
        self._name = ""
        self._data: list[bytes] = []

    def feed(self, piece: bytes) -> Iterator[Message]:
        """The messages that this piece completes; ValueError for one without an end."""
        *lines, self._rest = (self._rest + piece).split(b"\n")
        if len(self._rest) > _LONGEST:
            raise ValueError("a line is too long")
        for line in lines:
            line = line.removesuffix(b"\r")
            if line:
                self._read(line)
                continue
            yield Message(self._id, self._name, b"\n".join(self._data))
            self._name, self._data = "", []

    def _read(self, line: bytes) -> None:
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"id" and b"\0" not in value:
            self._id = value.decode(errors="replace")
        elif field == b"event":
            self._name = value.decode(errors="replace")
        elif field == b"data":
            self._data.append(value)
