"""Run a service beside a block of code."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

__all__ = ["beside"]


@asynccontextmanager
async def beside(
    run: Coroutine[Any, Any, None], drain: Callable[[], None], *, name: str
) -> AsyncGenerator[None]:
    """Run inside the block, drained at its end. What the block raises goes through."""
    task = asyncio.create_task(run, name=name)
    try:
        yield
    except BaseException:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        raise
    drain()
    await task
