"""The pytest plugin: what a test of tasks needs, as fixtures.

Loaded by every pytest run where Longshore is installed, so it imports nothing until asked.
"""

from importlib import import_module
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from longshore.app import Longshore
    from longshore.testing.harness import Borrowed

__all__ = ["drained"]


@pytest.fixture
def drained() -> "Callable[[Longshore], Borrowed]":
    """A block in which an app is on an empty queue in memory; see `testing.harness`.

    `async with drained(app) as queue:`, or in a test that does not await `with drained(app)`.
    `queue.drain()` runs what is ready, and raises what its tasks raise.
    """
    return import_module("longshore.testing.harness").drained
