"""The route by which an app that reaches no store says what its code declares."""

from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from longshore.api.problems import invalid
from longshore.api.routing import Answer, Call, Nothing, Route
from longshore.api.schedules import checked
from longshore.core import limit_settings
from longshore.core.account import Scope
from longshore.core.circuit_breaker import useless
from longshore.core.limit_settings import BreakerSettings, QueueSettings
from longshore.operations.breakers import BreakerPatch
from longshore.operations.breakers import changes as breaker_changes
from longshore.operations.declarations import DeclarationOperations, Declarations
from longshore.operations.fields import Name
from longshore.operations.queue_settings import SettingsPatch, changes
from longshore.operations.schedule_documents import ScheduleBody, schedule_of

__all__ = ["ROUTES"]

S = TypeVar("S")

_MOST = 1_000


class DeclarationsBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an app declares; what is left out stays as it is."""

    queues: Annotated[dict[Name, SettingsPatch], Meta(max_length=_MOST)] = {}
    """Settings by queue. An operator's overrides count before them."""
    breakers: Annotated[dict[Name, BreakerPatch], Meta(max_length=_MOST)] = {}
    """Circuit breakers by type. An operator's overrides count before them."""
    schedules: Annotated[list[ScheduleBody], Meta(max_length=_MOST)] = []
    """Schedules by name. One that someone paused stays paused."""


async def declare(call: Call[Nothing, Nothing, DeclarationsBody]) -> Answer:
    """Store what the code of an app declares: its queues, circuit breakers and schedules.

    A worker does so when it starts. Sending the same again changes nothing, and what is not
    named stays as it is: it may be another app's.
    """
    body, tenant = call.body, call.caller.home
    wanted = Declarations(
        queues={name: _queue(name, patch) for name, patch in body.queues.items()},
        breakers={name: _breaker(name, patch) for name, patch in body.breakers.items()},
        schedules=[checked(schedule_of(one.name, one, tenant)) for one in body.schedules],
    )
    await DeclarationOperations(call.service.engine).declare(wanted)
    return Answer(204)


def _queue(name: str, patch: SettingsPatch) -> QueueSettings:
    settings = replace(QueueSettings(), **changes(msgspec.to_builtins(patch)))
    return _fit(
        f"/queues/{name}",
        settings,
        limit_settings.useless(settings, limit_settings.said(settings)),
    )


def _breaker(name: str, patch: BreakerPatch) -> BreakerSettings:
    settings = replace(BreakerSettings(), **breaker_changes(msgspec.to_builtins(patch)))
    return _fit(f"/breakers/{name}", settings, useless(settings, limit_settings.said(settings)))


def _fit(pointer: str, settings: S, fault: str | None) -> S:
    if fault is not None:
        raise invalid(pointer, fault)
    return settings


ROUTES: tuple[Route[Any, Any, Any], ...] = (
    Route(
        method="PUT",
        path="/v1/declarations",
        name="putDeclarations",
        handler=declare,
        scope=Scope.DECLARE,
        is_fleetwide=True,
        body=DeclarationsBody,
        answers={204: None},
    ),
)
