"""What happens, as server-sent events: of one job, and of all that a tenant may see."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from longshore.api.context import Service
from longshore.api.problems import ProblemError, invalid, problem
from longshore.api.routing import Answer, Call, Caller, Header, Nothing, Route
from longshore.api.sse import MEDIA, Stream
from longshore.core import ids, sse
from longshore.core.account import Scope
from longshore.core.event import Name as EventName
from longshore.core.sse import Cursor
from longshore.core.state import TERMINAL
from longshore.operations.fields import JobIdText, Name
from longshore.streaming.events import JobEvent, Wish, snapshot
from longshore.streaming.hub import PAGE, Listener, TooManyListenersError

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
    job_id: JobIdText | None = None
    after: Place | None = None
    """As the header Last-Event-ID, for who cannot send one; the header counts before it."""
    from_start: bool = False
    """Begin with the oldest event that is kept, where no place to go on from is given."""
    follow: bool = True
    """false: end behind the newest event that there is."""


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
    # Events of another tenant may have the id: those of a job that was deleted.
    wish = Wish(tenant=job.tenant, job_id=job_id)
    if after is not None:
        await service.hub.verify(after)
        if is_over and await _is_all_told(service, wish, after):
            return Answer(204)
        listener = await _listen(call.service, call.caller, wish)
        return _answer(
            Stream(listener, after=after, is_of_job=True, is_bounded=is_over),
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
    return _answer(Stream(listener, first, is_of_job=True, is_bounded=is_over))


async def follow_all(call: Call[Nothing, EventsQuery, Nothing]) -> Answer:
    """Everything that happens from now on, as server-sent events, as far as you may see it.

    With Last-Event-ID it goes on behind that event; 410 when what came after it is no longer
    kept. It ends by itself after a while: come back with the last id. With `follow=false` it
    ends behind the newest event, and is answered 204 when nothing comes after the last id.
    """
    asked, service = call.query, call.service
    wish = Wish(
        tenant=call.caller.tenant,
        queue=asked.queue,
        type=asked.type,
        names=_names(asked.event),
        job_id=None if asked.job_id is None else ids.parse(asked.job_id),
    )
    after = _after(call.headers, asked.after)
    if after is not None:
        await service.hub.verify(after)
    elif asked.from_start:
        after = Cursor((await service.engine.span()).first - 1)
    if not asked.follow and (after is None or await _is_all_told(service, wish, after)):
        return Answer(204)
    listener = await _listen(service, call.caller, wish)
    if after is None:
        listener.join()
    return _answer(Stream(listener, after=after, is_bounded=not asked.follow))


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
    """Nothing that is wished for came after the place, as far as one look tells."""
    batches = await service.hub.page(after)
    if len(batches) == PAGE:
        return False
    async for _ in service.hub.portions(batches, wish, after):
        return False
    return True


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
        answers={200: JobEvent, 204: None},
        problems=("cursor_expired",),
        media=MEDIA.decode(),
    ),
)
