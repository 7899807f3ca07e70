"""The routes of schedules."""

from dataclasses import replace
from datetime import datetime
from typing import Annotated, Any
from urllib.parse import quote

import msgspec
from msgspec import Meta

from longshore import agreement
from longshore.api import caps, recurrence, views
from longshore.api.fields import Timestamp, instant, micros
from longshore.api.listing import PageQuery, page
from longshore.api.problems import ProblemError, problem
from longshore.api.recurrence import (
    Cron,
    Every,
    ScheduleBody,
    ScheduleName,
    SchedulePatch,
    ScheduleView,
    Zone,
)
from longshore.api.routing import Answer, Call, Nothing, Route
from longshore.api.views import SubmittedJob, encode
from longshore.core.account import Scope
from longshore.core.cron import Quirk
from longshore.core.schedule import Schedule, extra_job, preview, quirk

__all__ = ["ROUTES", "Preview", "ScheduleList"]


class SchedulePath(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Names a schedule."""

    name: ScheduleName


class PreviewQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How far to look ahead."""

    count: Annotated[int, Meta(ge=1, le=100)] = 10
    after: Timestamp | None = None
    """Look from here instead of from now."""


class PreviewBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Times that no schedule has yet."""

    cron: Cron | None = None
    every_seconds: Every | None = None
    timezone: Zone = "UTC"
    count: Annotated[int, Meta(ge=1, le=100)] = 10
    after: Timestamp | None = None


class ScheduleList(msgspec.Struct, frozen=True):
    """Schedules, by name."""

    schedules: list[ScheduleView]
    cursor: str | None
    """Where the next page begins; null at the end."""


class DueTime(msgspec.Struct, frozen=True):
    """A due time that is still to come."""

    due: datetime
    quirk: Quirk | None
    """What a change of the clock makes of it."""


class Preview(msgspec.Struct, frozen=True):
    """The next due times."""

    due: list[DueTime]


async def find(call: Call[Nothing, PageQuery, Nothing]) -> Answer:
    """Schedules, by name."""
    tenant = call.caller.tenant
    found, cursor = page(
        await call.service.engine.schedules(tenant=tenant),
        call.query,
        lambda one: (one.name, one.tenant),
        of=("schedules", tenant),
    )
    return Answer(200, encode(ScheduleList([recurrence.view(one) for one in found], cursor)))


async def create(call: Call[Nothing, Nothing, ScheduleBody]) -> Answer:
    """Create a schedule; 409 if there is one of this name."""
    wanted = recurrence.schedule_of(call.body, call.caller.home)
    engine = call.service.engine
    if await agreement.find(engine, wanted.name, wanted.tenant) is not None:
        raise ProblemError(problem("name_taken"))
    await caps.check_schedule(engine, call.caller.account, wanted)
    await call.service.queue_names.check(call.caller.account, wanted.queue)
    stored = await agreement.put(engine, wanted)
    location = f"/v1/schedules/{quote(stored.name, safe='')}".encode("ascii")
    return Answer(201, encode(recurrence.view(stored)), ((b"location", location),))


async def get(call: Call[SchedulePath, Nothing, Nothing]) -> Answer:
    """One schedule."""
    return Answer(200, encode(recurrence.view(await _get(call))))


async def change(call: Call[SchedulePath, Nothing, SchedulePatch]) -> Answer:
    """Change what the body names of a schedule, and leave the rest as it is."""
    wanted = recurrence.changed(await _get(call), call.body)
    await caps.check_schedule(call.service.engine, call.caller.account, wanted)
    await call.service.queue_names.check(call.caller.account, wanted.queue)
    stored = await agreement.change(
        call.service.engine,
        call.path.name,
        call.caller.home,
        lambda existing: recurrence.changed(existing, call.body),
    )
    return Answer(200, encode(recurrence.view(stored)))


async def remove(call: Call[SchedulePath, Nothing, Nothing]) -> Answer:
    """Delete a schedule. Jobs that it fired stay."""
    await call.service.engine.delete_schedule(call.path.name, tenant=call.caller.home)
    return Answer(204)


async def pause(call: Call[SchedulePath, Nothing, Nothing]) -> Answer:
    """Stop firing. Due times that pass meanwhile are skipped."""
    return await _set_paused(call, is_paused=True)


async def resume(call: Call[SchedulePath, Nothing, Nothing]) -> Answer:
    """Fire again, from the next due time on."""
    return await _set_paused(call, is_paused=False)


async def run(call: Call[SchedulePath, Nothing, Nothing]) -> Answer:
    """Submit one of its jobs now, besides its due times, paused or not."""
    job = extra_job(await _get(call), call.service.ids.make())
    (answer,) = await call.service.submit([job])
    told = views.submitted(job, answer)
    location = (b"location", f"/v1/jobs/{told.id}".encode("ascii"))
    return Answer(201, encode(told), (location,))


async def preview_stored(call: Call[SchedulePath, PreviewQuery, Nothing]) -> Answer:
    """The next due times of a schedule, paused or not."""
    return await _preview(call, await _get(call), call.query.count, call.query.after)


async def preview_times(call: Call[Nothing, Nothing, PreviewBody]) -> Answer:
    """The next due times of a cron expression or an interval that nobody has stored."""
    body = call.body
    wanted = recurrence.checked(
        Schedule(
            name="preview",
            type="preview",
            cron=body.cron,
            every=None if body.every_seconds is None else round(body.every_seconds * 1e6),
            timezone=body.timezone,
        )
    )
    return await _preview(call, wanted, body.count, body.after)


async def _preview(
    call: Call[Any, Any, Any], schedule: Schedule, count: int, after: datetime | None
) -> Answer:
    start = await call.service.engine.now() if after is None else micros(after)
    times = preview(schedule, max(start, 0), count)
    return Answer(
        200, encode(Preview([DueTime(instant(due), quirk(schedule, due)) for due in times]))
    )


async def _get(call: Call[SchedulePath, Any, Any]) -> Schedule:
    return await agreement.get(call.service.engine, call.path.name, call.caller.home)


async def _set_paused(call: Call[SchedulePath, Any, Any], *, is_paused: bool) -> Answer:
    wanted = msgspec.structs.replace(await _get(call), is_paused=is_paused)
    await caps.check_schedule(call.service.engine, call.caller.account, wanted)
    stored = await agreement.set_paused(
        call.service.engine, call.path.name, call.caller.home, is_paused=is_paused
    )
    return Answer(200, encode(recurrence.view(stored)))


def _one(_: object) -> int:
    return 1


def _of_one(
    verb: str, name: str, handler: Any, answers: dict[int, Any]
) -> Route[Any, Any, Any]:
    """A route to one schedule, without a body."""
    method, _, suffix = verb.partition(" ")
    return Route(
        method=method,
        path=f"/v1/schedules/{{name}}{suffix}",
        name=name,
        handler=handler,
        scope=Scope.READ if method == "GET" else Scope.OPERATE,
        parameters=SchedulePath,
        answers=answers,
        problems=("schedule_not_found",),
    )


ROUTES: tuple[Route[Any, Any, Any], ...] = (
    Route(
        method="GET",
        path="/v1/schedules",
        name="listSchedules",
        handler=find,
        scope=Scope.READ,
        query=PageQuery,
        answers={200: ScheduleList},
        problems=("cursor",),
    ),
    Route(
        method="POST",
        path="/v1/schedules",
        name="createSchedule",
        handler=create,
        scope=Scope.OPERATE,
        body=ScheduleBody,
        answers={201: ScheduleView},
        problems=("name_taken", "cap_reached"),
    ),
    Route(
        method="POST",
        path="/v1/schedules:preview",
        name="previewTimes",
        handler=preview_times,
        scope=Scope.READ,
        body=PreviewBody,
        answers={200: Preview},
    ),
    _of_one("GET ", "getSchedule", get, {200: ScheduleView}),
    Route(
        method="PATCH",
        path="/v1/schedules/{name}",
        name="changeSchedule",
        handler=change,
        scope=Scope.OPERATE,
        parameters=SchedulePath,
        body=SchedulePatch,
        answers={200: ScheduleView},
        problems=("schedule_not_found", "cap_reached"),
    ),
    _of_one("DELETE ", "deleteSchedule", remove, {204: None}),
    _of_one("POST :pause", "pauseSchedule", pause, {200: ScheduleView}),
    replace(
        _of_one("POST :resume", "resumeSchedule", resume, {200: ScheduleView}),
        problems=("schedule_not_found", "cap_reached"),
    ),
    replace(_of_one("POST :run", "runSchedule", run, {201: SubmittedJob}), jobs=_one),
    Route(
        method="GET",
        path="/v1/schedules/{name}/preview",
        name="previewSchedule",
        handler=preview_stored,
        scope=Scope.READ,
        parameters=SchedulePath,
        query=PreviewQuery,
        answers={200: Preview},
        problems=("schedule_not_found",),
    ),
)
