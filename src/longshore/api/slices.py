"""Long loops in slices, so that one large request does not hold up the event loop."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from time import perf_counter
from typing import TypeVar

__all__ = ["in_slices"]

T = TypeVar("T")

_SLICE_S = 0.002


async def in_slices(items: Iterable[T]) -> AsyncIterator[T]:
    """Yield the items; about every two milliseconds let other tasks run first."""
    until = perf_counter() + _SLICE_S
    for item in items:
        yield item
        if perf_counter() > until:
            await asyncio.sleep(0)
            until = perf_counter() + _SLICE_S
