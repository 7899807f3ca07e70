"""The routes of schedules."""

from dataclasses import replace
from typing import Annotated, Any
from urllib.parse import quote

import msgspec
from msgspec import Meta

from longshore.api import caps
from longshore.api.encoding import encode
from longshore.api.listing import PageQuery, page
from longshore.api.problems import ProblemError, invalid, problem
from longshore.api.routing import Answer, Call, Nothing, Route
from longshore.core import cron
from longshore.core.account import Scope
from longshore.core.schedule import Schedule, extra_job, validate
from longshore.errors import ConfigError
from longshore.operations.fields import Timestamp, micros
from longshore.operations.job_documents import SubmittedJob, submitted
from longshore.operations.schedule_documents import (
    Cron,
    Every,
    Preview,
    ScheduleBody,
    ScheduleDefinition,
    ScheduleList,
    ScheduleName,
    SchedulePatch,
    ScheduleView,
    WholeSchedule,
    Zone,
    changed,
    due_times,
    schedule_of,
    schedule_view,
)
from longshore.operations.schedules import (
    ScheduleOperations,
    StoredSchedule,
)
from longshore.records import schedules

__all__ = ["ROUTES"]


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


async def find(call: Call[Nothing, PageQuery, Nothing]) -> Answer:
    """Schedules, by name."""
    tenant = call.caller.tenant
    found, cursor = page(
        await schedules.every(call.service.engine, tenant=tenant),
        call.query,
        lambda one: (one.name, one.tenant),
        of=("schedules", tenant),
    )
    return Answer(200, encode(ScheduleList([schedule_view(one) for one in found], cursor)))


async def create(call: Call[Nothing, Nothing, ScheduleBody]) -> Answer:
    """Create a schedule; 409 if there is one of this name."""
    wanted = checked(schedule_of(call.body.name, call.body, call.caller.home))
    if await schedules.find(call.service.engine, wanted.name, wanted.tenant) is not None:
        raise ProblemError(problem("name_taken"))
    return _stored(await _put(call, wanted))


async def put(call: Call[SchedulePath, Nothing, ScheduleDefinition]) -> Answer:
    """Create a schedule, or replace the one of this name as a whole.

    Sent again it changes nothing. With the same times it keeps its place, and new times count
    from now. A schedule that is paused stays so until it is resumed.
    """
    wanted = checked(schedule_of(call.path.name, call.body, call.caller.home))
    return _stored(await _put(call, wanted))


async def get(call: Call[SchedulePath, Nothing, Nothing]) -> Answer:
    """One schedule, with its last job and its next due times."""
    return Answer(200, encode(await _schedules(call).schedule(call.path.name)))


async def change(call: Call[SchedulePath, Nothing, SchedulePatch]) -> Answer:
    """Change what the body names of a schedule, and leave the rest as it is."""
    if isinstance(call.body.cron, str) and isinstance(call.body.every_seconds, float):
        raise invalid("/every_seconds", "cannot stand beside `cron`")
    wanted = checked(changed(await _get(call), call.body))
    await _check_caps(call, wanted)
    told = await _schedules(call).change_schedule(call.path.name, call.body)
    return Answer(200, encode(told))


async def remove(call: Call[SchedulePath, Nothing, Nothing]) -> Answer:
    """Delete a schedule. Jobs that it fired stay."""
    await _schedules(call).delete_schedule(call.path.name)
    return Answer(204)


async def pause(call: Call[SchedulePath, Nothing, Nothing]) -> Answer:
    """Stop firing. Due times that pass meanwhile are skipped."""
    return Answer(200, encode(await _schedules(call).pause_schedule(call.path.name)))


async def resume(call: Call[SchedulePath, Nothing, Nothing]) -> Answer:
    """Fire again, from the next due time on."""
    wanted = msgspec.structs.replace(await _get(call), is_paused=False)
    await caps.check_schedule(call.service.engine, call.caller.account, wanted)
    return Answer(200, encode(await _schedules(call).resume_schedule(call.path.name)))


async def run(call: Call[SchedulePath, Nothing, Nothing]) -> Answer:
    """Submit one of its jobs now, besides its due times, paused or not."""
    job = extra_job(await _get(call), call.service.ids.make())
    (answer,) = await call.service.submit([job])
    told = submitted(job, answer)
    location = (b"location", f"/v1/jobs/{told.id}".encode("ascii"))
    return Answer(201, encode(told), (location,))


async def preview_stored(call: Call[SchedulePath, PreviewQuery, Nothing]) -> Answer:
    """The next due times of a schedule, paused or not."""
    asked = call.query
    told = await _schedules(call).preview_schedule(
        call.path.name, count=asked.count, after=asked.after
    )
    return Answer(200, encode(told))


async def preview_times(call: Call[Nothing, Nothing, PreviewBody]) -> Answer:
    """The next due times of a cron expression or an interval that nobody has stored."""
    body = call.body
    wanted = checked(
        Schedule(
            name="preview",
            type="preview",
            cron=body.cron,
            every=None if body.every_seconds is None else round(body.every_seconds * 1e6),
            timezone=body.timezone,
        )
    )
    start = await call.service.engine.now() if body.after is None else micros(body.after)
    told = Preview(body.timezone, due_times(wanted, start, body.count))
    return Answer(200, encode(told))


def _schedules(call: Call[Any, Any, Any]) -> ScheduleOperations:
    return ScheduleOperations(call.service.engine, tenant=call.caller.tenant)


async def _get(call: Call[SchedulePath, Any, Any]) -> Schedule:
    return await schedules.get(call.service.engine, call.path.name, call.caller.home)


async def _put(call: Call[Any, Any, Any], wanted: Schedule) -> StoredSchedule:
    await _check_caps(call, wanted)
    return await _schedules(call).put_schedule(wanted)


async def _check_caps(call: Call[Any, Any, Any], wanted: Schedule) -> None:
    await caps.check_schedule(call.service.engine, call.caller.account, wanted)
    await call.service.queue_names.check(call.caller.account, wanted.queue)


def _stored(told: StoredSchedule) -> Answer:
    body = encode(told.schedule)
    if not told.is_new:
        return Answer(200, body)
    location = f"/v1/schedules/{quote(told.schedule.name, safe='')}".encode("ascii")
    return Answer(201, body, ((b"location", location),))


def checked(wanted: Schedule) -> Schedule:
    """The schedule itself, if it can fire; else the problem, which names the field."""
    if (wanted.cron is None) == (wanted.every is None):
        raise invalid("/cron", "has to be given, or `every_seconds`, but not both")
    try:
        cron.zone(wanted.timezone)
    except ConfigError:
        raise invalid("/timezone", "is not a time zone such as Europe/Berlin") from None
    try:
        if wanted.cron is not None:
            cron.parse(wanted.cron, wanted.timezone)
    except ConfigError:
        raise invalid("/cron", "is not a cron expression that comes due") from None
    if wanted.anchor and wanted.cron is not None:
        raise invalid("/anchor", "is for intervals")
    try:
        validate(wanted)
    except ConfigError:
        raise invalid("", "a field is out of its limits, or not printable") from None
    return wanted


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
        name="previewDueTimes",
        handler=preview_times,
        scope=Scope.READ,
        body=PreviewBody,
        answers={200: Preview},
    ),
    _of_one("GET ", "getSchedule", get, {200: WholeSchedule}),
    Route(
        method="PUT",
        path="/v1/schedules/{name}",
        name="putSchedule",
        handler=put,
        scope=Scope.OPERATE,
        parameters=SchedulePath,
        body=ScheduleDefinition,
        answers={200: ScheduleView, 201: ScheduleView},
        problems=("cap_reached",),
    ),
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
