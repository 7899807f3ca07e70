"""The sinks that the settings name."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

from longshore.app import Longshore
from longshore.cli import metrics
from longshore.errors import ConfigError
from longshore.relay.service import RelayService
from longshore.relay.sink import Sink
from longshore.settings import Settings

__all__ = ["beside", "service", "sinks"]


def sinks(settings: Settings) -> list[Sink]:
    """A sink for each that is configured."""
    if not settings.kafka.servers:
        return []
    try:
        from longshore.relay.kafka import KafkaSink  # the client is an extra
    except ImportError as error:
        raise ConfigError("shipping to Kafka needs `pip install longshore[kafka]`") from error
    return [KafkaSink(settings.kafka, source=settings.relay.source)]


def service(app: Longshore, settings: Settings, found: Sequence[Sink]) -> RelayService:
    """A relay to these, which counts where the app does."""
    note = metrics.noting(app)
    return RelayService(app.engine, found, settings.relay, on_look=note)


@asynccontextmanager
async def beside(app: Longshore, settings: Settings) -> AsyncGenerator[None]:
    """Ship events inside the block, if there is a sink."""
    found = sinks(settings)
    if not found:
        yield
        return
    async with service(app, settings, found).running():
        yield
