"""What happens, as server-sent events: of one job, and of all that a tenant may see."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from longshore.api.fields import JobIdText, Name
from longshore.api.pouring import MEDIA, Stream
from longshore.api.problems import ProblemError, invalid, problem
from longshore.api.routing import Answer, Call, Caller, Header, Nothing, Route
from longshore.api.service import Service
from longshore.core import event, ids, sse
from longshore.core.account import Scope
from longshore.core.event import Name as EventName
from longshore.core.sse import Cursor
from longshore.core.state import TERMINAL
from longshore.streaming.hub import PAGE, Listener, TooManyListenersError
from longshore.streaming.telling import JobEvent, Wish, snapshot

__all__ = ["ROUTES"]

_PLACE = r"\A(0|[1-9][0-9]{0,18})(\.(0|[1-9][0-9]{0,8}))?\Z"
Place = Annotated[str, Meta(pattern=_PLACE, examples=["1207.3"])]
_HEADERS = {
    "Last-Event-ID": Header(
        "The last id that was read: the stream goes on behind it, and nothing is left out.",
        _PLACE.replace(r"\A", "^").replace(r"\Z", "$"),
    )
}
# What a proxy keeps back until there is more of it would come too late.
_UNBUFFERED = ((b"x-accel-buffering", b"no"),)


class JobStreamPath(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Names a job."""

    id: JobIdText


class JobStreamQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where to begin."""

    after: Place | None = None
    """As the header Last-Event-ID, for who cannot send one; the header counts before it."""


class EventsQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which events; what is left out means any."""

    queue: Name | None = None
    type: Name | None = None
    event: Annotated[str, Meta(pattern=r"\A[a-z_.]{1,40}(,[a-z_.]{1,40}){0,30}\Z")] | None = (
        None
    )
    """Names of events with commas between them: `job.succeeded,job.dead`."""
    after: Place | None = None
    """As the header Last-Event-ID, for who cannot send one; the header counts before it."""


async def follow_job(call: Call[JobStreamPath, JobStreamQuery, Nothing]) -> Answer:
    """Follow a job to its end, as server-sent events.

    It opens with `job.snapshot`, which tells how the job stands, and ends after the event that
    ends the job. With Last-Event-ID it goes on behind that event instead; 204 when the job has
    ended and nothing came after it, 410 when what came after it is no longer kept.
    """
    service, job_id = call.service, ids.parse(call.path.id)
    job = await service.engine.get(job_id, tenant=call.caller.tenant)
    after = _after(call.headers, call.query.after)
    is_over = job.state in TERMINAL
    wish = Wish(job_id=job_id)
    if after is not None:
        await service.hub.verify(after)
        if is_over and await _is_all_told(service, wish, after):
            return Answer(204)
        listener = await _listen(call.service, call.caller, wish)
        return _answer(
            Stream(listener, after=after, is_of_job=True, is_job_over=is_over),
        )
    listener = await _listen(service, call.caller, wish)
    try:
        listener.join()
        # Once more, now that nothing can happen unheard.
        job = await service.engine.get(job_id, tenant=call.caller.tenant)
        is_over = job.state in TERMINAL
        if is_over:
            # What it ended with is not behind this.
            listener.seen = Cursor((await service.engine.span()).last)
        first = snapshot(job, listener.seen, service.clock.now())
    except BaseException:
        listener.close()
        raise
    return _answer(Stream(listener, first, is_of_job=True, is_job_over=is_over))


async def follow_all(call: Call[Nothing, EventsQuery, Nothing]) -> Answer:
    """Everything that happens from now on, as server-sent events, as far as you may see it.

    With Last-Event-ID it goes on behind that event; 410 when what came after it is no longer
    kept. It ends by itself after a while: come back with the last id.
    """
    asked = call.query
    wish = Wish(
        tenant=call.caller.tenant, queue=asked.queue, type=asked.type, names=_names(asked.event)
    )
    after = _after(call.headers, asked.after)
    if after is not None:
        await call.service.hub.verify(after)
    listener = await _listen(call.service, call.caller, wish)
    if after is None:
        listener.join()
    return _answer(Stream(listener, after=after))


def _answer(stream: Stream) -> Answer:
    return Answer(200, headers=_UNBUFFERED, media=MEDIA, stream=stream)


def _after(headers: Any, asked: str | None) -> Cursor | None:
    raw = headers.get(b"last-event-id")
    text = asked if raw is None or raw == b"" else raw.decode("latin-1")
    if text is None:
        return None
    found = sse.parse_cursor(text)
    if found is None:
        raise invalid("Last-Event-ID" if raw else "after", "is not the id of an event")
    return found


def _names(asked: str | None) -> frozenset[str] | None:
    if asked is None:
        return None
    names = frozenset(asked.split(","))
    if names - frozenset(EventName):
        raise invalid("event", "is not the name of an event")
    return names


async def _listen(service: Service, caller: Caller, wish: Wish) -> Listener:
    try:
        account = caller.account
        most = account.max_streams if account is not None else None
        return await service.hub.listen(caller.owner, wish, most=most)
    except TooManyListenersError as error:
        found = problem("quota_exceeded", policies=["streams"])
        if not error.is_own:
            found = problem("overloaded")
        raise ProblemError(found, ((b"retry-after", b"5"),)) from None


async def _is_all_told(service: Service, wish: Wish, after: Cursor) -> bool:
    """Nothing of the job came after the place, as far as one look tells."""
    batches = await service.hub.page(after)
    place = (after.position, after.number)
    return len(batches) < PAGE and not any(
        wish.fits(one) and tuple(map(int, one.id.split("."))) > place
        for batch in batches
        for one in event.expand(batch)
    )


ROUTES: tuple[Route[Any, Any, Any], ...] = (
    Route(
        method="GET",
        path="/v1/jobs/{id}/stream",
        name="followJob",
        handler=follow_job,
        scope=Scope.READ,
        parameters=JobStreamPath,
        query=JobStreamQuery,
        headers=_HEADERS,
        answers={200: JobEvent, 204: None},
        problems=("job_not_found", "cursor_expired"),
        aliases=("/runs/{id}/stream",),
        media=MEDIA.decode(),
    ),
    Route(
        method="GET",
        path="/v1/events",
        name="followEvents",
        handler=follow_all,
        scope=Scope.READ,
        query=EventsQuery,
        headers=_HEADERS,
        answers={200: JobEvent},
        problems=("cursor_expired",),
        media=MEDIA.decode(),
    ),
)
