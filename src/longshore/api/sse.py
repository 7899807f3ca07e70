"""An answer without an end: events as they happen, until someone leaves."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from dataclasses import dataclass, field
from typing import Any

from longshore.core import sse
from longshore.core.sse import Cursor
from longshore.streaming.events import Told
from longshore.streaming.hub import Listener

__all__ = ["MEDIA", "Stream", "pour"]

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

MEDIA = b"text/event-stream"
_COMMENT_S = 15.0
_WRITE_S = 20.0
"""A client that takes longer for a piece, or for the rest when it is let go, is given up."""
_PIECE = 64 << 10
_SLOW = b": too slow, come back from the last id\n\n"


@dataclass(slots=True, eq=False)
class Stream:
    """Someone who listens over HTTP. Close it, whatever comes."""

    listener: Listener
    first: Told | None = None
    """What is told before all else."""
    after: Cursor | None = None
    """Where a client goes on that comes back."""
    is_of_job: bool = False
    """It ends with the job."""
    is_bounded: bool = False
    """It ends when what was missed is told: nothing is to come, or nobody waits for it."""
    is_done: bool = field(default=False, init=False)
    is_revoked: bool = field(default=False, init=False)
    """The key that opened it is no longer good."""

    def revoke(self) -> None:
        """End it, and send nothing of what still waits."""
        self.is_revoked = True
        self.is_done = True
        self.listener.end()

    def close(self) -> None:
        """Leave the room to others."""
        self.listener.close()

    def written(self, found: Iterable[Told]) -> list[bytes]:
        """The frames, up to the one that the stream ends with."""
        frames: list[bytes] = []
        for told in found:
            if self.is_done:
                break
            frames.append(told.frame)
            self.is_done = self.is_of_job and told.event.is_last
        return frames


async def pour(
    stream: Stream,
    seconds: float,
    receive: Receive,
    send: Send,
    abort: Callable[[], None],
) -> None:
    """Send what happens until the stream is over, its time is, or the client has gone."""
    watching = asyncio.create_task(_watch(receive, stream.listener))
    try:
        async with asyncio.timeout(None) as patience:
            await _pour(stream, seconds, _Pen(send, patience))
    except TimeoutError:
        abort()
    finally:
        watching.cancel()


async def _pour(stream: Stream, seconds: float, pen: "_Pen") -> None:
    listener = stream.listener
    loop = asyncio.get_running_loop()
    # All that a service lets go at once shall not come back at once.
    retry_ms = random.randint(1_000, 3_000)
    await pen.write([sse.mark(stream.after or listener.seen, retry_ms=retry_ms)])
    if stream.first is not None:
        await pen.write(stream.written([stream.first]))
    if stream.after is not None:
        async for portion in listener.missed(stream.after):
            await pen.write(stream.written(portion) or [sse.mark(listener.seen)])
            if stream.is_done or listener.is_over:
                break
    until = loop.time() + seconds
    is_open = not stream.is_done and not stream.is_bounded
    while is_open:
        found = await listener.news(min(_COMMENT_S, max(until - loop.time(), 0)))
        if stream.is_revoked:
            # Nor a mark: its client would come back behind what it has not been sent.
            break
        is_open = not listener.is_over and loop.time() < until
        if not is_open:
            pen.hurry()
        await pen.write(stream.written(found) or [sse.COMMENT, sse.mark(listener.seen)])
        is_open = is_open and not stream.is_done
    await pen.write([_SLOW] if listener.is_dropped else [], is_last=True)


class _Pen:
    """Writes frames in pieces, each within its time."""

    def __init__(self, send: Send, patience: asyncio.Timeout) -> None:
        self._send = send
        self._patience = patience
        self._until: float | None = None

    def hurry(self) -> None:
        """All that is still to be written has to share the time of one piece."""
        self._until = asyncio.get_running_loop().time() + _WRITE_S

    async def write(self, frames: list[bytes], *, is_last: bool = False) -> None:
        piece: list[bytes] = []
        size = 0
        for frame in frames:
            piece.append(frame)
            size += len(frame)
            if size >= _PIECE:
                await self._put(b"".join(piece), is_more=True)
                piece, size = [], 0
        if piece or is_last:
            await self._put(b"".join(piece), is_more=not is_last)

    async def _put(self, body: bytes, *, is_more: bool) -> None:
        loop = asyncio.get_running_loop()
        self._patience.reschedule(self._until or loop.time() + _WRITE_S)
        await self._send({"type": "http.response.body", "body": body, "more_body": is_more})
        self._patience.reschedule(self._until)


async def _watch(receive: Receive, listener: Listener) -> None:
    """End it when the client is gone."""
    while (await receive())["type"] != "http.disconnect":
        pass
    listener.end()
