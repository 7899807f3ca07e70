"""A relay as a process, which may kill itself.

    python -m longshore_lab.bus_relay URL SERVERS TOPIC SENDS

It kills itself with -9 after so many sends, between handing over and noting it; 0: never.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta

from longshore.core.event import Event
from longshore.engines import open_engine
from longshore.relay.kafka import KafkaSink
from longshore.relay.service import RelayService
from longshore.relay.settings import KafkaSettings, RelaySettings
from longshore.relay.sink import Refused

__all__ = ["Fragile"]


class Fragile(KafkaSink):
    """Dies when everything is sent and nothing is noted."""

    sends = 0

    async def send(
        self, events: Sequence[Event], *, keep: Callable[[], Awaitable[None]]
    ) -> list[Refused]:
        """Hand over, and perhaps die."""
        refused = await super().send(events, keep=keep)
        self.sends -= 1
        if self.sends == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return refused


async def main(url: str, servers: str, topic: str, sends: str) -> None:
    """Ship until SIGTERM."""
    sink = Fragile(KafkaSettings(servers=servers, topic=topic), source="/test")
    sink.sends = int(sends)
    engine = open_engine(url)
    # Whoever is about to die shall not be waited for.
    settings = RelaySettings(lease=timedelta(seconds=1)) if sink.sends else RelaySettings()
    service = RelayService(engine, [sink], settings)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, service.drain)
    await service.run()
    await engine.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
