"""Where a worker, a scheduler or a relay tells its numbers."""

from dataclasses import dataclass

from longshore.errors import ConfigError

__all__ = ["FIRST_PORT", "LAST_PORT", "MetricsSettings"]

FIRST_PORT, LAST_PORT = 9464, 9483
_HIGHEST = 65_535


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsSettings:
    """Where a worker, a scheduler or a relay can be scraped. The API has its own `/metrics`."""

    host: str = "127.0.0.1"
    """The address that answers `/metrics`; `0.0.0.0` for a monitor on another machine."""
    hosts: tuple[str, ...] = ()
    """Names that the monitor may ask for, such as `worker.internal`, or `*` for any. Addresses
    and `localhost` are always good."""
    port: int | None = None
    """Its port. Without it, the first free one from 9464 to 9483; 0 for none at all."""

    def __post_init__(self) -> None:
        """Refuse what makes no sense, before anything is started."""
        if self.port is not None and not 0 <= self.port <= _HIGHEST:
            raise ConfigError(f"metrics.port is {self.port}; it must be from 0 to {_HIGHEST}")
