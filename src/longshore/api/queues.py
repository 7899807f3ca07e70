"""The routes of queues, and of the workers that serve them."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from longshore.api.encoding import encode
from longshore.api.listing import PageQuery, page
from longshore.api.routing import Answer, Call, Nothing, Route
from longshore.core.account import Scope
from longshore.core.limit_settings import QueueFlow
from longshore.operations.fields import Name
from longshore.operations.queue_settings import SettingsPatch
from longshore.operations.queues import (
    PauseList,
    QueueList,
    QueueOperations,
    QueuePatch,
    QueueView,
    counts_of,
    queue_view,
)
from longshore.operations.workers import (
    WorkerList,
    WorkerOperations,
    WorkerView,
    worker_view,
)
from longshore.records import pauses, queue_settings

__all__ = ["ROUTES", "QueuePath"]


class QueuePath(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Names a queue."""

    queue: Name


class QueuesQuery(PageQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How much of the list of queues to show, and how exactly."""

    may_estimate: bool = False
    """Where very many jobs wait, answer in a moment, with estimates."""


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


async def find(call: Call[Nothing, QueuesQuery, Nothing]) -> Answer:
    """Queues that have jobs or a pause, with how many jobs are in each state, by name."""
    engine, tenant = call.service.engine, call.caller.tenant
    paused = await pauses.every(engine)
    known = await counts_of(engine, tenant, paused, may_estimate=call.query.may_estimate)
    names, cursor = page(list(known), call.query, lambda one: (one,), of=("queues", tenant))
    flows = {one.queue: one for one in await queue_settings.every(engine)}
    shown = [queue_view(known[one], paused, flows.get(one, QueueFlow(one))) for one in names]
    return Answer(200, encode(QueueList(shown, cursor)))


async def get(call: Call[QueuePath, Nothing, Nothing]) -> Answer:
    """One queue; 404 where the caller's tenant has no job in it."""
    return Answer(200, encode(await _queues(call).queue(call.path.queue)))


async def change(call: Call[QueuePath, Nothing, QueuePatch]) -> Answer:
    """Pause or resume a queue, or override its settings, as a JSON merge patch.

    Workers heed it at once.
    """
    queues, queue, body = _queues(call), call.path.queue, call.body
    patch = body.settings if isinstance(body.settings, SettingsPatch) else SettingsPatch()
    given = msgspec.to_builtins(patch)
    told = await queues.set_queue(queue, given, forgets_declared=body.declared is None)
    if isinstance(body.is_paused, bool):
        told = await (queues.pause_queue if body.is_paused else queues.resume_queue)(queue)
    return Answer(200, encode(told))


async def pause(call: Call[QueuePath, Nothing, PauseBody]) -> Answer:
    """Stop handing out a queue's jobs. What runs goes on, and submitting works."""
    told = await _queues(call).pause_queue(call.path.queue, type=call.body.type)
    return Answer(200, encode(told))


async def resume(call: Call[QueuePath, Nothing, PauseBody]) -> Answer:
    """Undo the pause that was made with the same body. Harmless when there is none."""
    told = await _queues(call).resume_queue(call.path.queue, type=call.body.type)
    return Answer(200, encode(told))


async def pause_type(call: Call[TypePath, Nothing, Nothing]) -> Answer:
    """Stop handing out jobs of a type, in every queue. What runs goes on."""
    await _queues(call).pause_type(call.path.type)
    return Answer(204)


async def resume_type(call: Call[TypePath, Nothing, Nothing]) -> Answer:
    """Undo the pause of a type. One in a single queue stands until it is undone there."""
    await _queues(call).resume_type(call.path.type)
    return Answer(204)


async def list_pauses(call: Call[Nothing, PageQuery, Nothing]) -> Answer:
    """What is not handed out: queues, types, and types in one queue, by queue and type.

    A queue without jobs can be paused too, and so can a type that no queue has jobs of.
    """
    found, cursor = page(
        await _queues(call).pauses(),
        call.query,
        lambda one: (one.queue or "", one.type or ""),
        of=("pauses",),
    )
    return Answer(200, encode(PauseList(found, cursor)))


async def workers(call: Call[Nothing, PageQuery, Nothing]) -> Answer:
    """The workers that are connected, and how many have crashed so far."""
    found, cursor = page(
        (await call.service.engine.sessions()).sessions,
        call.query,
        lambda one: (one.opened_at, one.token),
        of=("workers",),
    )
    crashes = await WorkerOperations(call.service.engine).crash_counts()
    shown = [worker_view(one) for one in found]
    return Answer(200, encode(WorkerList(shown, cursor, crashes)))


async def drain(call: Call[WorkerPath, Nothing, Nothing]) -> Answer:
    """Ask a worker to finish what it runs and to leave. Its next renewal tells it."""
    told = await WorkerOperations(call.service.engine).drain_worker(call.path.token)
    return Answer(202, encode(told))


def _queues(call: Call[Any, Any, Any]) -> QueueOperations:
    return QueueOperations(call.service.engine, tenant=call.caller.tenant)


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
        query=QueuesQuery,
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
    Route(
        method="GET",
        path="/v1/pauses",
        name="listPauses",
        handler=list_pauses,
        scope=Scope.READ,
        is_fleetwide=True,
        query=PageQuery,
        answers={200: PauseList},
        problems=("cursor",),
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
