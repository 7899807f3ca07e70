"""Circuit breakers of tasks: what code says of them, and what people do with them."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from msgspec.structs import replace

from longshore.contract import Engine
from longshore.core import breaker, flow, quantity
from longshore.core.flow import BreakerFlow, BreakerSettings, Layer
from longshore.errors import ConfigError, EngineBusyError
from longshore.options import Duration, microseconds

__all__ = ["Breaker", "forget", "get", "override", "useless"]

_TRIES = 20
_DURATIONS = ("window", "cooldown")


@dataclass(frozen=True, slots=True, kw_only=True)
class Breaker:
    """When jobs of a task are no longer handed out, because they fail.

    `@app.task(breaker=Breaker(failures=5, cooldown="30s"))`. It is stored when a worker starts,
    and holds for the whole fleet, unless an operator overrides it.
    """

    failures: int | None = None
    """Failures in a row that open it."""
    ratio: float | None = None
    """The share of failures that opens it, 0 to 1."""
    window: Duration | str | None = None
    """The time over which the ratio is taken; a minute unless given."""
    least: int | None = None
    """Outcomes below which a ratio says nothing; 20 unless given."""
    cooldown: Duration | str | None = None
    """How long it stays open before it is tried again; 30 seconds unless given."""
    probes: int | None = None
    """Jobs that try it, and have to succeed; one unless given."""

    def settings(self, type_name: str) -> BreakerSettings:
        """As it is stored for a task, or ConfigError."""
        said = asdict(self)
        for field in _DURATIONS:
            if said[field] is not None:
                said[field] = _microseconds(field, said[field])
        settings = replace(BreakerSettings(), **said)
        flow.validate(type_name, settings)
        _refuse_useless(settings, flow.said(settings))
        return settings


async def get(engine: Engine, type_name: str) -> BreakerFlow:
    """All that is said of a type's breaker, which may be nothing, and how it stands."""
    found = [one for one in await engine.breaker_settings() if one.type == type_name]
    return found[0] if found else BreakerFlow(type_name)


async def override(
    engine: Engine, type_name: str, changes: Mapping[str, object]
) -> BreakerFlow:
    """Override some settings of a breaker; None lets what is declared hold again."""
    for _ in range(_TRIES):
        seen = await get(engine, type_name)
        wanted = replace(seen.overridden, **changes)
        _refuse_useless(replace(seen, overridden=wanted).effective, changes)
        if await engine.put_breaker(type_name, Layer.OVERRIDDEN, wanted, seen=seen.overridden):
            return await get(engine, type_name)
    raise EngineBusyError(f"others keep changing the breaker of {type_name!r}; try again")


async def forget(engine: Engine, type_name: str) -> None:
    """Drop what code once declared; a worker that still does declares it again."""
    await engine.put_breaker(type_name, Layer.DECLARED, BreakerSettings())


def useless(settings: BreakerSettings, changes: Mapping[str, object]) -> str | None:
    """What is wrong with changes that leave the settings without effect; None: nothing."""
    asked = [field for field, value in changes.items() if value is not None]
    if asked and breaker.rules(settings) is None:
        return f"{asked[0]} says nothing without failures or a ratio; set one"
    for field in ("window", "least"):
        if field in asked and settings.ratio is None:
            return f"{field} says nothing without a ratio; set both"
    return None


def _refuse_useless(settings: BreakerSettings, changes: Mapping[str, object]) -> None:
    if fault := useless(settings, changes):
        raise ConfigError(fault)


def _microseconds(field: str, value: Duration | str) -> int:
    try:
        return microseconds(quantity.duration(value) if isinstance(value, str) else value)
    except (ValueError, TypeError, OverflowError) as error:
        raise ConfigError(f"{field}: {error}") from None
