"""The routes of queues, and of the workers that serve them."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from longshore import overriding
from longshore.api.fields import Name, instant, moment
from longshore.api.flow import SettingsPatch, SettingsView, changes, view
from longshore.api.listing import PageQuery, page
from longshore.api.routing import Answer, Call, Nothing, Route
from longshore.api.views import encode
from longshore.core.account import Scope
from longshore.core.flow import QueueFlow
from longshore.core.view import SessionView
from longshore.engine import Engine, Pause, QueueCounts
from longshore.errors import LeaseLostError, NotFoundError, QueueNotFoundError

__all__ = ["ROUTES", "QueueList", "QueueView", "WorkerList", "WorkerView"]


class QueuePath(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Names a queue."""

    queue: Name


class TypePath(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Names a type."""

    type: Name


class WorkerPath(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Names a worker's session."""

    token: Annotated[int, Meta(ge=1, le=(1 << 63) - 1)]


class PauseBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What of a queue to pause or resume."""

    type: Name | None = None
    """Only jobs of this type."""


class QueuePatch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to change of a queue; what is left out stays."""

    is_paused: bool | UnsetType = UNSET
    settings: SettingsPatch | UnsetType = UNSET
    """Overrides of what code declares; null takes one away."""


class QueueView(msgspec.Struct, frozen=True, kw_only=True):
    """A queue at a glance."""

    queue: str
    is_paused: bool
    paused_types: list[str]
    """Types of which no jobs are handed out."""
    ready: int
    parked: int
    """Of the ready ones, those that may not be taken now."""
    scheduled: int
    running: int
    """Claimed, those in a worker's buffer included."""
    buffered: int
    succeeded: int
    dead: int
    cancelled: int
    oldest_ready_at: datetime | None
    settings: SettingsView
    """What holds."""
    declared: SettingsView
    """What code says of the queue."""
    overridden: SettingsView
    """What an operator says, which counts before the code's word."""


class QueueList(msgspec.Struct, frozen=True):
    """Queues, by name."""

    queues: list[QueueView]
    cursor: str | None
    """Where the next page begins; null at the end."""


class WorkerView(msgspec.Struct, frozen=True, kw_only=True):
    """A worker that is connected."""

    token: int
    worker: str
    queues: tuple[str, ...]
    types: tuple[str, ...]
    opened_at: datetime
    renewed_at: datetime
    expires_at: datetime
    """When it is given up if it does not renew."""
    holding: int
    is_quiet: bool
    """It was asked to drain."""


class WorkerList(msgspec.Struct, frozen=True):
    """Workers, those that have been there longest first."""

    workers: list[WorkerView]
    cursor: str | None
    """Where the next page begins; null at the end."""


async def find(call: Call[Nothing, PageQuery, Nothing]) -> Answer:
    """Queues that have jobs or a pause, with how many jobs are in each state, by name."""
    engine, tenant = call.service.engine, call.caller.tenant
    pauses = await engine.pauses()
    known = await _counts(engine, tenant, pauses)
    names, cursor = page(list(known), call.query, lambda one: (one,), of=("queues", tenant))
    flows = {one.queue: one for one in await engine.queue_settings()}
    shown = [_view(known[one], pauses, flows.get(one, QueueFlow(one))) for one in names]
    return Answer(200, encode(QueueList(shown, cursor)))


async def get(call: Call[QueuePath, Nothing, Nothing]) -> Answer:
    """One queue."""
    return Answer(200, encode(await _queue(call)))


async def change(call: Call[QueuePath, Nothing, QueuePatch]) -> Answer:
    """Pause or resume a queue, or override its settings, as a JSON merge patch.

    Workers heed it at once.
    """
    engine, queue, body = call.service.engine, call.path.queue, call.body
    if isinstance(body.settings, SettingsPatch):
        await overriding.override(engine, queue, changes(body.settings))
    if isinstance(body.is_paused, bool):
        await (engine.pause if body.is_paused else engine.resume)(queue=queue)
    return Answer(200, encode(await _queue(call, is_lenient=True)))


async def pause(call: Call[QueuePath, Nothing, PauseBody]) -> Answer:
    """Stop handing out a queue's jobs. What runs goes on, and submitting works."""
    await call.service.engine.pause(queue=call.path.queue, type=call.body.type)
    return Answer(200, encode(await _queue(call, is_lenient=True)))


async def resume(call: Call[QueuePath, Nothing, PauseBody]) -> Answer:
    """Undo the pause that was made with the same body. Harmless when there is none."""
    await call.service.engine.resume(queue=call.path.queue, type=call.body.type)
    return Answer(200, encode(await _queue(call, is_lenient=True)))


async def pause_type(call: Call[TypePath, Nothing, Nothing]) -> Answer:
    """Stop handing out jobs of a type, in every queue. What runs goes on."""
    await call.service.engine.pause(type=call.path.type)
    return Answer(204)


async def resume_type(call: Call[TypePath, Nothing, Nothing]) -> Answer:
    """Undo the pause of a type. One in a single queue stands until it is undone there."""
    await call.service.engine.resume(type=call.path.type)
    return Answer(204)


async def workers(call: Call[Nothing, PageQuery, Nothing]) -> Answer:
    """The workers that are connected."""
    found, cursor = page(
        await call.service.engine.sessions(),
        call.query,
        lambda one: (one.opened_at, one.token),
        of=("workers",),
    )
    return Answer(200, encode(WorkerList([_worker(one) for one in found], cursor)))


async def drain(call: Call[WorkerPath, Nothing, Nothing]) -> Answer:
    """Ask a worker to finish what it runs and to leave. Its next renewal tells it."""
    engine, token = call.service.engine, call.path.token
    try:
        await engine.quiet(token)
    except LeaseLostError:
        raise NotFoundError("no worker has this token") from None
    found = [one for one in await engine.sessions() if one.token == token]
    if not found:
        raise NotFoundError("no worker has this token")
    return Answer(202, encode(_worker(found[0])))


async def _counts(
    engine: Engine, tenant: str | None, pauses: Sequence[Pause]
) -> dict[str, QueueCounts]:
    """The queues that the caller sees, by name: to an operator also those that only pause."""
    known = {one.queue: one for one in await engine.counts(tenant=tenant)}
    if tenant is None:
        for one in pauses:
            if one.queue is not None and one.queue not in known:
                known[one.queue] = QueueCounts(queue=one.queue)
    return known


async def _queue(call: Call[QueuePath, Any, Any], *, is_lenient: bool = False) -> QueueView:
    """The queue; an empty one, or 404, where the caller's tenant has no job in it."""
    engine, name = call.service.engine, call.path.queue
    pauses = await engine.pauses()
    counts = (await _counts(engine, call.caller.tenant, pauses)).get(name)
    if counts is None and not is_lenient:
        raise QueueNotFoundError(name)
    flow = await overriding.get(engine, name)
    return _view(counts or QueueCounts(queue=name), pauses, flow)


def _view(it: QueueCounts, pauses: Sequence[Pause], flow: QueueFlow) -> QueueView:
    types = {one.type for one in pauses if one.type and one.queue in (None, it.queue)}
    return QueueView(
        queue=it.queue,
        is_paused=it.is_paused or Pause(it.queue, None) in pauses,
        paused_types=sorted(types),
        ready=it.ready,
        parked=it.parked,
        scheduled=it.scheduled,
        running=it.running,
        buffered=it.buffered,
        succeeded=it.succeeded,
        dead=it.dead,
        cancelled=it.cancelled,
        oldest_ready_at=moment(it.oldest_ready_at),
        settings=view(flow.effective),
        declared=view(flow.declared),
        overridden=view(flow.overridden),
    )


def _worker(it: SessionView) -> WorkerView:
    return WorkerView(
        token=it.token,
        worker=it.worker,
        queues=it.queues,
        types=it.types,
        opened_at=instant(it.opened_at),
        renewed_at=instant(it.renewed_at),
        expires_at=instant(it.expires_at),
        holding=it.holding,
        is_quiet=it.is_quiet,
    )


def _pausing(verb: str, handler: Any) -> Route[Any, Any, Any]:
    return Route(
        method="POST",
        path=f"/v1/queues/{{queue}}:{verb}",
        name=f"{verb}Queue",
        handler=handler,
        scope=Scope.OPERATE,
        is_fleetwide=True,
        parameters=QueuePath,
        body=PauseBody,
        is_body_required=False,
        answers={200: QueueView},
    )


def _pausing_type(verb: str, handler: Any) -> Route[Any, Any, Any]:
    return Route(
        method="POST",
        path=f"/v1/types/{{type}}:{verb}",
        name=f"{verb}Type",
        handler=handler,
        scope=Scope.OPERATE,
        is_fleetwide=True,
        parameters=TypePath,
        answers={204: None},
    )


ROUTES: tuple[Route[Any, Any, Any], ...] = (
    Route(
        method="GET",
        path="/v1/queues",
        name="listQueues",
        handler=find,
        scope=Scope.READ,
        query=PageQuery,
        answers={200: QueueList},
        problems=("cursor",),
    ),
    Route(
        method="GET",
        path="/v1/queues/{queue}",
        name="getQueue",
        handler=get,
        scope=Scope.READ,
        parameters=QueuePath,
        answers={200: QueueView},
        problems=("queue_not_found",),
    ),
    Route(
        method="PATCH",
        path="/v1/queues/{queue}",
        name="changeQueue",
        handler=change,
        scope=Scope.OPERATE,
        is_fleetwide=True,
        parameters=QueuePath,
        body=QueuePatch,
        answers={200: QueueView},
    ),
    _pausing("pause", pause),
    _pausing("resume", resume),
    _pausing_type("pause", pause_type),
    _pausing_type("resume", resume_type),
    Route(
        method="GET",
        path="/v1/workers",
        name="listWorkers",
        handler=workers,
        scope=Scope.READ,
        is_fleetwide=True,
        query=PageQuery,
        answers={200: WorkerList},
        problems=("cursor",),
    ),
    Route(
        method="POST",
        path="/v1/workers/{token}:drain",
        name="drainWorker",
        handler=drain,
        scope=Scope.OPERATE,
        is_fleetwide=True,
        parameters=WorkerPath,
        answers={202: WorkerView},
        problems=("not_found",),
    ),
)
