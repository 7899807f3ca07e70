"""The relay: a beat per sink, any number of processes on one store."""

import asyncio
import logging
import os
import secrets
import socket
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from longshore.contract import Records
from longshore.core import units
from longshore.errors import EngineError
from longshore.operations.outbox_alarm import Standing, Watch
from longshore.relay.relay import Relay, RelayStats, TimedOutbox
from longshore.relay.settings import RelaySettings
from longshore.relay.sink import Sink
from longshore.runtime.background import beside
from longshore.runtime.schema_watch import Outlook
from longshore.runtime.ticker import Beat

__all__ = ["RelayService"]

log = logging.getLogger("longshore.relay")


class Store(TimedOutbox, Records, Protocol):
    """What relays read from, which also tells whether this code may work on it."""

    async def ping(self) -> None:
        """Return if it may, else raise an EngineError."""
        ...


class RelayService:
    """Ships to every sink until drained. Kill it any time: events are shipped again."""

    def __init__(
        self,
        engine: Store,
        sinks: Sequence[Sink],
        settings: RelaySettings,
        *,
        on_look: Callable[[Standing], None] | None = None,
    ) -> None:
        """`on_look` hears how the slowest consumer stands."""
        holder = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
        self._relays = [
            Relay(
                engine,
                sink,
                holder=holder,
                lease=units.microseconds(settings.lease),
                most_late=settings.progress_after.total_seconds(),
            )
            for sink in sinks
        ]
        watch = Watch(engine, after=settings.alarm_after.total_seconds(), on_look=on_look)
        self._outlook = Outlook(engine.ping, on_refused=self.drain)
        self._beats = [
            *(Beat(f"relay-{one.stats.sink}", one.tick) for one in self._relays),
            Beat("outbox", watch.tick),
            Beat("schema", self._outlook.tick),
        ]

    @property
    def stats(self) -> list[RelayStats]:
        """What was done for each sink."""
        return [one.stats for one in self._relays]

    async def run(self) -> None:
        """Return when drained; SchemaError when the store goes where it cannot follow."""
        sinks = ",".join(one.stats.sink for one in self._relays)
        log.info("relay started", extra={"sinks": sinks})
        try:
            async with asyncio.TaskGroup() as group:
                for beat in self._beats:
                    group.create_task(beat.run(), name=f"longshore-{beat.name}")
        finally:
            await self._leave()
        log.info("relay drained")
        self._outlook.leave()

    def running(self) -> AbstractAsyncContextManager[None]:
        """Run inside the block, drained at its end. What the block raises goes through."""
        return beside(self.run(), self.drain, name="longshore-relay")

    def drain(self) -> None:
        """Finish what is being handed over, then return from run."""
        for relay in self._relays:
            relay.leave()
        for beat in self._beats:
            beat.stop()

    async def _leave(self) -> None:
        for relay in self._relays:
            try:
                await relay.close()
            except (EngineError, TimeoutError):
                log.warning("cursor not left", extra={"sink": relay.stats.sink})
