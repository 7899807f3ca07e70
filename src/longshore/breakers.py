"""Circuit breakers of tasks: what code says of them, and what people do with them."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from msgspec.structs import replace

from longshore.core import circuit_breaker, limit_settings, units
from longshore.core.limit_settings import BreakerSettings
from longshore.errors import ConfigError
from longshore.options import Duration, microseconds

__all__ = ["Breaker"]

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
        limit_settings.validate(type_name, settings)
        _refuse_useless(settings, limit_settings.said(settings))
        return settings


def _refuse_useless(settings: BreakerSettings, changes: Mapping[str, object]) -> None:
    if fault := circuit_breaker.useless(settings, changes):
        raise ConfigError(fault)


def _microseconds(field: str, value: Duration | str) -> int:
    try:
        return microseconds(units.duration(value) if isinstance(value, str) else value)
    except (ValueError, TypeError, OverflowError) as error:
        raise ConfigError(f"{field}: {error}") from None
