"""Read a stream of events to its end, over as many connections as that takes."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from time import monotonic, sleep
from typing import Any

import httpx
import msgspec

from longshore.errors import EngineError, LongshoreError
from longshore.streaming.events import JobEvent
from longshore.wire.streams import CONNECT_S, Trail

__all__ = ["Fail", "follow", "follow_blocking"]

Fail = Callable[[httpx.Response | httpx.HTTPError], LongshoreError]
"""The error that a request ended with."""
_STREAM, _NOTHING, _GONE = 200, 204, 410


async def follow(
    http: httpx.AsyncClient, path: str, query: Mapping[str, str], trail: Trail, fail: Fail
) -> AsyncGenerator[JobEvent]:
    """Events, without loss; a job's stream whose place has expired begins anew."""
    while True:
        outcome: httpx.Response | httpx.HTTPError | None = None
        try:
            request = http.stream("GET", path, **_options(query, trail))
            async with request as answer:
                if answer.status_code == _NOTHING:
                    return
                if answer.status_code == _STREAM:
                    trail.begin()
                    _refuse_foreign(answer)
                    async for piece in answer.aiter_raw():
                        for event in _read(trail, piece, answer):
                            yield event
                        trail.refuse_late(monotonic())
                else:
                    await answer.aread()
                    outcome = answer
        except httpx.HTTPError as error:
            outcome = error
        await asyncio.sleep(_pause(outcome, trail, fail))


def follow_blocking(
    http: httpx.Client, path: str, query: Mapping[str, str], trail: Trail, fail: Fail
) -> Iterator[JobEvent]:
    """The same for code that does not await."""
    while True:
        outcome: httpx.Response | httpx.HTTPError | None = None
        try:
            with http.stream("GET", path, **_options(query, trail)) as answer:
                if answer.status_code == _NOTHING:
                    return
                if answer.status_code == _STREAM:
                    trail.begin()
                    _refuse_foreign(answer)
                    for piece in answer.iter_raw():
                        yield from _read(trail, piece, answer)
                        trail.refuse_late(monotonic())
                else:
                    answer.read()
                    outcome = answer
        except httpx.HTTPError as error:
            outcome = error
        sleep(_pause(outcome, trail, fail))


def _refuse_foreign(answer: httpx.Response) -> None:
    """EngineError for an answer that is no stream: whoever sends it will not begin one."""
    media = answer.headers.get("content-type", "")
    if media.partition(";")[0].strip().lower() != "text/event-stream":
        raise _unreadable(answer, f"it is {media or 'of no type'}, and no stream of events")


def _read(trail: Trail, piece: bytes, answer: httpx.Response) -> Iterator[JobEvent]:
    """The events that these bytes complete, or EngineError."""
    try:
        yield from trail.read(piece, monotonic())
    except (ValueError, msgspec.DecodeError) as error:
        raise _unreadable(answer, str(error)) from None


def _unreadable(answer: httpx.Response, why: str) -> EngineError:
    place = answer.request.url.copy_with(query=None, username=None, password=None)
    return EngineError(
        f"what {place} answers cannot be read ({why}); see whether it is a Longshore service,"
        " and of this version"
    )


def _options(query: Mapping[str, str], trail: Trail) -> dict[str, Any]:
    now = monotonic()
    trail.refuse_late(now)
    seconds = trail.read_timeout(now)
    return {
        "params": dict(query) or None,
        "headers": trail.headers(),
        "timeout": httpx.Timeout(seconds, connect=min(seconds, CONNECT_S)),
    }


def _pause(outcome: httpx.Response | httpx.HTTPError | None, trail: Trail, fail: Fail) -> float:
    """Seconds until the next connection, or the error that this is given up with."""
    now = monotonic()
    trail.refuse_late(now)
    answer = outcome if isinstance(outcome, httpx.Response) else None
    is_expired = answer is not None and answer.status_code == _GONE
    if is_expired and trail.is_of_job and trail.restart():
        return 0.0
    pause = trail.pause(
        now,
        status=None if answer is None else answer.status_code,
        headers={} if answer is None else answer.headers,
        is_end=outcome is None,
    )
    if pause is None:
        assert outcome is not None
        raise fail(outcome)
    return pause
