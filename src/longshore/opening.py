"""An engine that is open: on one event loop, in one process, for a number of users."""

import asyncio
import os
from dataclasses import dataclass

from longshore import tracing
from longshore.engine import Engine
from longshore.engines import open_engine
from longshore.observe.engine import observed
from longshore.observe.metrics import Metrics
from longshore.runtime.clock import Clock
from longshore.tracing import TracingSettings

__all__ = ["Opened", "open_here"]


@dataclass(slots=True)
class Opened:
    """An engine, and where it may be used."""

    engine: Engine
    loop: asyncio.AbstractEventLoop
    pid: int
    users: int = 0


def open_here(
    url: str, clock: Clock | None, metrics: Metrics, traces: TracingSettings
) -> Opened:
    """The engine for this process and its running loop, observed, and traced if so wished.

    Unless a test sets the time, the engine goes by its own clock and not by ours.
    """
    engine = tracing.over(observed(open_engine(url, clock=clock), metrics), traces)
    return Opened(engine, asyncio.get_running_loop(), os.getpid())
