"""Circuit breakers over HTTP."""

from datetime import datetime
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from longshore import breakers
from longshore.api.fields import Name, moment, seconds
from longshore.api.listing import PageQuery, page
from longshore.api.routing import Answer, Call, Nothing, Route
from longshore.api.views import encode
from longshore.core.account import Scope
from longshore.core.backoff import LONGEST_US
from longshore.core.flow import LARGEST, BreakerFlow, BreakerSettings, Phase

__all__ = ["ROUTES"]

_SECOND = 1_000_000
Jobs = Annotated[int, Meta(ge=1, le=LARGEST)]
Share = Annotated[float, Meta(ge=0, le=1)]
Span = Annotated[float, Meta(ge=0.001, le=LONGEST_US // _SECOND)]


class BreakerPath(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Names a type."""

    type: Name


class BreakerPatch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings to override; what is left out stays, and null lets the code's word hold."""

    failures: Jobs | UnsetType | None = UNSET
    """Failures in a row that open it."""
    ratio: Share | UnsetType | None = UNSET
    """The share of failures that opens it."""
    window_seconds: Span | UnsetType | None = UNSET
    """The time over which the ratio is taken."""
    least: Jobs | UnsetType | None = UNSET
    """Outcomes below which the ratio says nothing."""
    cooldown_seconds: Span | UnsetType | None = UNSET
    """How long it stays open."""
    probes: Jobs | UnsetType | None = UNSET
    """Jobs that try it then, and have to succeed."""


class BreakerRules(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a breaker; null: nothing is said."""

    failures: int | None
    ratio: float | None
    window_seconds: float | None
    least: int | None
    cooldown_seconds: float | None
    probes: int | None


class BreakerView(msgspec.Struct, frozen=True, kw_only=True):
    """The circuit breaker of a type."""

    type: str
    phase: Phase
    """Whether jobs of the type are handed out: closed, open, or half_open, which is a few."""
    since: datetime | None
    """When it came to stand so; null: it always did."""
    until: datetime | None
    """When an open one is tried again."""
    settings: BreakerRules
    """What holds."""
    declared: BreakerRules
    """What code says."""
    overridden: BreakerRules
    """What an operator says, which counts before the code's word."""


class BreakerList(msgspec.Struct, frozen=True):
    """Breakers, by type."""

    breakers: list[BreakerView]
    cursor: str | None
    """Where the next page begins; null at the end."""


async def find(call: Call[Nothing, PageQuery, Nothing]) -> Answer:
    """Types that have a circuit breaker, and how it stands, by type."""
    found, cursor = page(
        await call.service.engine.breaker_settings(),
        call.query,
        lambda one: (one.type,),
        of=("breakers",),
    )
    return Answer(200, encode(BreakerList([_view(one) for one in found], cursor)))


async def get(call: Call[BreakerPath, Nothing, Nothing]) -> Answer:
    """The circuit breaker of a type; one without settings is closed."""
    return _answer(await breakers.get(call.service.engine, call.path.type))


async def change(call: Call[BreakerPath, Nothing, BreakerPatch]) -> Answer:
    """Override settings of a type's circuit breaker, as a JSON merge patch."""
    changes: dict[str, object] = {}
    for field, value in msgspec.structs.asdict(call.body).items():
        if value is not UNSET:
            name = field.removesuffix("_seconds")
            is_time = name != field and isinstance(value, float)
            changes[name] = round(value * _SECOND) if is_time else value
    return _answer(await breakers.override(call.service.engine, call.path.type, changes))


async def reset(call: Call[BreakerPath, Nothing, Nothing]) -> Answer:
    """Close a type's circuit breaker now, and forget what it has counted."""
    await call.service.engine.reset_breaker(call.path.type)
    return _answer(await breakers.get(call.service.engine, call.path.type))


def _answer(it: BreakerFlow) -> Answer:
    return Answer(200, encode(_view(it)))


def _view(it: BreakerFlow) -> BreakerView:
    return BreakerView(
        type=it.type,
        phase=it.phase,
        since=moment(it.since or None),
        until=moment(it.until or None),
        settings=_rules(it.effective),
        declared=_rules(it.declared),
        overridden=_rules(it.overridden),
    )


def _rules(settings: BreakerSettings) -> BreakerRules:
    return BreakerRules(
        failures=settings.failures,
        ratio=settings.ratio,
        window_seconds=seconds(settings.window),
        least=settings.least,
        cooldown_seconds=seconds(settings.cooldown),
        probes=settings.probes,
    )


ROUTES: tuple[Route[Any, Any, Any], ...] = (
    Route(
        method="GET",
        path="/v1/breakers",
        name="listBreakers",
        handler=find,
        scope=Scope.READ,
        is_fleetwide=True,
        query=PageQuery,
        answers={200: BreakerList},
        problems=("cursor",),
    ),
    Route(
        method="GET",
        path="/v1/breakers/{type}",
        name="getBreaker",
        handler=get,
        scope=Scope.READ,
        is_fleetwide=True,
        parameters=BreakerPath,
        answers={200: BreakerView},
    ),
    Route(
        method="PATCH",
        path="/v1/breakers/{type}",
        name="changeBreaker",
        handler=change,
        scope=Scope.OPERATE,
        is_fleetwide=True,
        parameters=BreakerPath,
        body=BreakerPatch,
        answers={200: BreakerView},
    ),
    Route(
        method="POST",
        path="/v1/breakers/{type}:reset",
        name="resetBreaker",
        handler=reset,
        scope=Scope.OPERATE,
        is_fleetwide=True,
        parameters=BreakerPath,
        answers={200: BreakerView},
    ),
)
