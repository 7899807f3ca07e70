"""A stream of events as its client reads it: what to ask, when to come back. Without I/O."""

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import msgspec

from longshore.core.sse import Decoder
from longshore.errors import WaitTimeoutError
from longshore.streaming.events import JobEvent

__all__ = ["CONNECT_S", "Trail"]

CONNECT_S = 5.0
_QUIET_S = 40.0
"""The service says something every 15 seconds: one that says nothing for longer has gone."""
_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 5.0
_AGAIN = frozenset({429, 502, 503, 504})
_decoder = msgspec.json.Decoder(JobEvent)


@dataclass(slots=True)
class Trail:
    """How far a stream was read, over any number of connections."""

    patience: float
    """Seconds without a connection after which it is given up."""
    is_of_job: bool = False
    """It can begin anew: a job's stream opens with how the job stands."""
    deadline: float | None = None
    """On the clock of whoever asks."""
    heard_at: float | None = None
    last: str = ""
    first_contact: float | None = None
    """Seconds after which the first connection is given up; None: `patience`."""
    _has_begun: bool = False
    _tries: int = 0
    _decode: Decoder = field(default_factory=Decoder)

    def headers(self) -> dict[str, str]:
        """What goes with the next request."""
        place = {"last-event-id": self.last} if self.last else {}
        return {"accept": "text/event-stream", **place}

    def read_timeout(self, now: float) -> float:
        """How long to wait for the next bytes."""
        left = _QUIET_S if self.deadline is None else self.deadline - now
        return max(min(left, _QUIET_S), 0.001)

    def begin(self) -> None:
        """A connection stands."""
        self._has_begun = True
        self._decode = Decoder()

    def read(self, piece: bytes, now: float) -> Iterator[JobEvent]:
        """The events that these bytes complete."""
        self.heard_at, self._tries = now, 0
        for message in self._decode.feed(piece):
            self.last = message.id or self.last
            if message.data:
                yield _decoder.decode(message.data)

    def refuse_late(self, now: float) -> None:
        """WaitTimeoutError when the time is over."""
        if self.deadline is not None and now >= self.deadline:
            raise WaitTimeoutError("the stream goes on, but the time to read it is over")

    def restart(self) -> bool:
        """Begin anew, without a place to go on from; False if there was none."""
        had_place, self.last = bool(self.last), ""
        return had_place

    def pause(
        self, now: float, *, status: int | None, headers: Mapping[str, str], is_end: bool
    ) -> float | None:
        """Seconds until it is worth coming back; None when it is not."""
        if self.heard_at is None:
            self.heard_at = now
        if is_end:
            return random.uniform(0.1, 0.5)
        if status is not None and status not in _AGAIN:
            return None
        self._tries += 1
        growing = min(_FIRST_PAUSE * 2**self._tries, _LONGEST_PAUSE)
        pause = max(growing * random.uniform(0.5, 1.0), _retry_after(headers))
        most = self.patience
        if status is None and not self._has_begun and self.first_contact is not None:
            most = min(most, self.first_contact)
        return pause if now + pause - self.heard_at < most else None


def _retry_after(headers: Mapping[str, str]) -> float:
    asked = headers.get("retry-after", "")
    return float(asked) if asked.isascii() and asked.isdigit() else 0.0
