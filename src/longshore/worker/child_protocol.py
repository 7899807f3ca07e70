"""What a worker and its child processes say to each other: frames of msgpack on a socket.

Every frame is four bytes of length and a message. Nothing in it is a pickle: arguments, results
and errors cross as the bytes and texts that the engine stores, so a child can send nothing that
the worker would have to run.
"""

import os
import sys
from collections.abc import Iterator
from datetime import timedelta
from typing import Literal

import msgspec

from longshore.core.job import Claim, Failure
from longshore.directives import Cancel, Dead, Directive, Retry, Snooze
from longshore.worker.app_locator import Origin
from longshore.worker.settings import ChildLimits

__all__ = [
    "ForeignError",
    "Frames",
    "FromChild",
    "Order",
    "Progress",
    "Raised",
    "Ready",
    "Refused",
    "Report",
    "Returned",
    "Setup",
    "ToChild",
    "Undecodable",
    "Unfit",
    "Unstorable",
    "Wish",
    "decode_order",
    "decode_report",
    "encode",
    "wish_of",
]

HEADER = 4
MOST_BYTES = 16 << 20
"""More than any message can have: payloads, results and failures are bounded by the codec."""


class Setup(msgspec.Struct, tag=True, frozen=True):
    """The first message to a child: what it serves, and where to find it."""

    origin: Origin
    types: tuple[str, ...]
    search_path: tuple[str, ...]
    """The worker's `sys.path`."""
    is_weighed: bool = False
    """Reports say how much memory the child holds."""

    @classmethod
    def here(cls, origin: Origin, types: tuple[str, ...], limits: ChildLimits) -> "Setup":
        """For a child of this process."""
        search_path = tuple(path or os.getcwd() for path in sys.path)
        return cls(origin, types, search_path, limits.recycle_bytes is not None)


class Order(msgspec.Struct, tag=True, frozen=True):
    """Run this job."""

    claim: Claim
    seconds: float | None
    """Until its timeout; None for no end."""
    now: int
    """The engine's clock."""
    fence: tuple[int, ...] = ()
    """What the child dies of sending signals to: see `worker.seccomp_guard`."""


class Ready(msgspec.Struct, tag=True, frozen=True):
    """The tasks are imported; orders may come."""

    pid: int
    """The process that has imported them."""


class Refused(msgspec.Struct, tag=True, frozen=True):
    """The child cannot serve, and leaves."""

    message: str
    traceback: str


class Progress(msgspec.Struct, tag=True, frozen=True):
    """How far the handler of the order says it is."""

    fraction: float
    message: str | None


class Wish(msgspec.Struct, frozen=True):
    """A directive that the handler raised."""

    name: Literal["Retry", "Snooze", "Dead", "Cancel"]
    reason: str
    after: float | None = None
    """In seconds; NaN, as JSON would have it, when it makes no sense."""

    def directive(self) -> Directive:
        """The directive itself."""
        match self.name:
            case "Retry":
                return Retry(after=self.after, reason=self.reason)
            case "Snooze":
                after = float("nan") if self.after is None else self.after
                return Snooze(after, reason=self.reason)
            case "Dead":
                return Dead(self.reason)
            case "Cancel":
                return Cancel(self.reason)


class Report(msgspec.Struct, tag=True, frozen=True, kw_only=True):
    """How an order went."""

    rss_bytes: int = 0
    """The memory the child holds after it, if the worker wants to know."""
    is_last: bool = False
    """The child is not fit for another order, and leaves."""


class Returned(Report, tag=True, frozen=True):
    """The handler returned."""

    result: bytes | None = None


class Raised(Report, tag=True, frozen=True):
    """The handler raised."""

    failure: Failure
    wish: Wish | None = None

    def error(self) -> BaseException:
        """What the worker decides upon as if the handler had raised it here."""
        return ForeignError(self.failure) if self.wish is None else self.wish.directive()


class Undecodable(Report, tag=True, frozen=True):
    """The payload is not what the task takes; the handler did not run."""

    message: str


class Unfit(Report, tag=True, frozen=True):
    """The job needs its worker's own process: what the handler has done, it will do again."""

    is_for_good: bool
    """All jobs of its type do."""


class Unstorable(Report, tag=True, frozen=True):
    """The handler returned something that cannot be kept."""

    message: str


ToChild = Setup | Order
FromChild = Ready | Refused | Progress | Returned | Raised | Undecodable | Unfit | Unstorable


class ForeignError(Exception):
    """An exception that was raised in another process, as far as it is told here."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


class Frames:
    """Bytes as they come in, frames as they are whole."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """The bodies that this chunk completes; ValueError if the stream makes no sense."""
        self._bytes += chunk
        while len(self._bytes) >= HEADER:
            end = HEADER + int.from_bytes(self._bytes[:HEADER], "big")
            if end > MOST_BYTES:
                raise ValueError(f"a frame of {end} bytes")
            if len(self._bytes) < end:
                return
            body = bytes(self._bytes[HEADER:end])
            del self._bytes[:end]
            yield body


def encode(message: ToChild | FromChild) -> bytes:
    """The message as a frame."""
    body = _encoder.encode(message)
    return len(body).to_bytes(HEADER, "big") + body


def wish_of(error: BaseException, reason: str) -> Wish | None:
    """The directive that this exception is, if it is one."""
    if isinstance(error, Dead):
        return Wish("Dead", reason)
    if isinstance(error, Cancel):
        return Wish("Cancel", reason)
    if isinstance(error, Snooze):
        return Wish("Snooze", reason, _seconds(error.after))
    if isinstance(error, Retry):
        return Wish("Retry", reason, _seconds(error.after))
    return None


def _seconds(after: object) -> float | None:
    if isinstance(after, timedelta):
        return after.total_seconds()
    return float(after) if isinstance(after, int | float) else None


_encoder = msgspec.msgpack.Encoder()
decode_order = msgspec.msgpack.Decoder(ToChild).decode
decode_report = msgspec.msgpack.Decoder(FromChild).decode
