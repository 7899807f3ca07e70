"""A store that is open: on one event loop, in one process, for a number of users."""

import asyncio
import os
from dataclasses import dataclass
from typing import cast

from longshore import tracing
from longshore.contract import Engine, JobStore
from longshore.engines import open_store
from longshore.observe.engine import observed
from longshore.observe.metrics import Metrics
from longshore.operations.backend import Backend, EngineBackend
from longshore.runtime.clock import Clock
from longshore.tracing import TracingSettings
from longshore.wire.address import is_service

__all__ = ["Opened", "open_here"]


@dataclass(slots=True)
class Opened:
    """A store, and where it may be used."""

    store: JobStore
    engine: Engine | None
    """The store itself; None where it is behind a service."""
    backend: Backend
    loop: asyncio.AbstractEventLoop
    pid: int
    users: int = 0


def open_here(
    url: str, clock: Clock | None, metrics: Metrics, traces: TracingSettings
) -> Opened:
    """The store for this process and its running loop, observed, and traced if so wished.

    Unless a test sets the time, the store goes by its own clock and not by ours.
    """
    loop, pid = asyncio.get_running_loop(), os.getpid()
    opened = open_store(url, clock=clock)
    store = tracing.over(observed(opened, metrics), traces)
    if is_service(url):
        from longshore.client.remote_store import RemoteStore  # its httpx is optional

        return Opened(store, None, cast("RemoteStore", opened).client, loop, pid)
    engine = cast("Engine", store)
    return Opened(store, engine, EngineBackend(engine), loop, pid)
