"""Circuit breakers: their documents, and what API, command line and SDK do with them."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from longshore.core.backoff import LONGEST_US
from longshore.core.limit_settings import LARGEST, BreakerFlow, BreakerSettings, Phase
from longshore.errors import ConfigError
from longshore.operations.fields import moment, seconds
from longshore.operations.local import EngineOperations
from longshore.records import breaker_settings

__all__ = [
    "BreakerList",
    "BreakerOperations",
    "BreakerPatch",
    "BreakerSettingsView",
    "BreakerView",
    "breaker_view",
]

_SECOND = 1_000_000
Jobs = Annotated[int, Meta(ge=1, le=LARGEST)]
Share = Annotated[float, Meta(ge=0, le=1)]
Span = Annotated[float, Meta(ge=0.001, le=LONGEST_US // _SECOND)]


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
    declared: UnsetType | None = UNSET
    """Null drops what code once declared; a worker that still declares it does so again."""


class BreakerSettingsView(msgspec.Struct, frozen=True, kw_only=True):
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
    settings: BreakerSettingsView
    """What holds."""
    declared: BreakerSettingsView
    """What code says."""
    overridden: BreakerSettingsView
    """What an operator says, which counts before the code's word."""


class BreakerList(msgspec.Struct, frozen=True):
    """Breakers, by type."""

    breakers: list[BreakerView]
    cursor: str | None
    """Where the next page begins; null at the end."""


class BreakerOperations(EngineOperations):
    """What is done with circuit breakers on an engine."""

    async def breakers(self) -> list[BreakerView]:
        """Every type that has a circuit breaker, and its state, by type."""
        return [breaker_view(one) for one in await breaker_settings.every(self._engine)]

    async def breaker(self, type: str) -> BreakerView:
        """The circuit breaker of a type; one without settings is closed."""
        return breaker_view(await breaker_settings.get(self._engine, type))

    async def set_breaker(
        self, type: str, settings: Mapping[str, Any], *, forgets_declared: bool = False
    ) -> BreakerView:
        """Override settings; None takes an override away.

        The fields are those of `PATCH /v1/breakers/{type}`.
        """
        given = changes(settings)
        if forgets_declared:
            await breaker_settings.forget(self._engine, type)
        if given:
            await breaker_settings.override(self._engine, type, given)
        return await self.breaker(type)

    async def reset_breaker(self, type: str) -> BreakerView:
        """Close a type's circuit breaker now, and forget what it has counted."""
        await breaker_settings.reset(self._engine, type)
        return await self.breaker(type)


def breaker_view(it: BreakerFlow) -> BreakerView:
    """A circuit breaker's document."""
    return BreakerView(
        type=it.type,
        phase=it.phase,
        since=moment(it.since or None),
        until=moment(it.until or None),
        settings=_settings_view(it.effective),
        declared=_settings_view(it.declared),
        overridden=_settings_view(it.overridden),
    )


def _settings_view(settings: BreakerSettings) -> BreakerSettingsView:
    return BreakerSettingsView(
        failures=settings.failures,
        ratio=settings.ratio,
        window_seconds=seconds(settings.window),
        least=settings.least,
        cooldown_seconds=seconds(settings.cooldown),
        probes=settings.probes,
    )


def changes(given: Mapping[str, object]) -> dict[str, object]:
    """Settings of a document as the core has them, or ConfigError.

    The core checks the numbers when they are stored.
    """
    if refused := sorted(given.keys() - set(BreakerSettingsView.__struct_fields__)):
        raise ConfigError(f"{refused[0]} is not a setting of circuit breakers")
    found: dict[str, object] = {}
    for field, value in given.items():
        name = field.removesuffix("_seconds")
        if name != field and isinstance(value, int | float):
            found[name] = round(value * _SECOND)
        else:
            found[name] = value
    return found
