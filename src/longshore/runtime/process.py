"""How a process that is Longshore's own sets itself up. Never called in a user's process."""

import asyncio
import gc
import os
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec

__all__ = ["LoopFactory", "available_cores", "loop_factory", "settle_in"]

LoopFactory = Callable[[], asyncio.AbstractEventLoop]

_SWITCH_INTERVAL = 0.001
"""Seconds after which a thread that runs Python lets another have its turn. An engine's thread
asks for its turn after every statement. One run each of `longshore bench`, on a noisy machine:
5 ms 7,300 mixed and 34,100 no-op jobs/s, 1 ms 8,800 and 41,600, 0.5 ms 8,600 and 28,500."""

_YOUNG = 20_000
"""New objects at which the collector looks at them. Every batch of claims is more than Python's
700, and the collector finds them alive, for the worker leaves no cycles: decision 0012."""
_USUAL = gc.get_threshold()


def available_cores() -> int:
    """The cores that this process may use."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def loop_factory() -> LoopFactory | None:
    """The fastest event loop that is installed; None for Python's own."""
    return import_module("uvloop").new_event_loop if find_spec("uvloop") else None


def settle_in() -> None:
    """Trade a little start-up time for less work later."""
    sys.setswitchinterval(_SWITCH_INTERVAL)
    gc.collect()
    # What was imported stays for good: the collector need not look at it again.
    gc.freeze()
    # Whoever has set it otherwise knows the tasks better.
    if gc.get_threshold() == _USUAL:
        gc.set_threshold(_YOUNG, *_USUAL[1:])
