"""An engine that is open: on one event loop, in one process, for a number of users."""

import asyncio
import os
from dataclasses import dataclass

from longshore.engine import Engine
from longshore.engines import open_engine
from longshore.observe.engine import observed
from longshore.observe.metrics import Metrics
from longshore.runtime.clock import Clock

__all__ = ["Opened", "open_here"]


@dataclass(slots=True)
class Opened:
    """An engine, and where it may be used."""

    engine: Engine
    loop: asyncio.AbstractEventLoop
    pid: int
    users: int = 0


def open_here(url: str, clock: Clock | None, metrics: Metrics) -> Opened:
    """The engine for this process and its running loop, observed.

    Unless a test sets the time, the engine goes by its own clock and not by ours.
    """
    engine = observed(open_engine(url, clock=clock), metrics)
    return Opened(engine, asyncio.get_running_loop(), os.getpid())
