"""Progress, hooks and deadlines, as an app's code sees them."""

import asyncio
import math
from collections.abc import AsyncIterator
from typing import Any

import pytest

from longshore import Cancel, ConfigError, Longshore, Settings, State, current_job


@pytest.fixture
async def app() -> AsyncIterator[Longshore]:
    app = Longshore("sqlite://:memory:", settings=Settings())
    async with app:
        yield app


async def test_a_handle_tells_how_far_its_job_came(app: Longshore):
    @app.task
    async def resize(n: int) -> None:
        for step in range(n):
            await current_job().progress((step + 1) / n, "resizing")

    handle = await resize.submit(4)
    before = await handle.progress()
    await app.work(until_idle=True)

    after = await handle.progress()
    assert before is None
    assert after is not None
    assert (after.fraction, after.message) == (1.0, "resizing")


async def test_a_hook_is_called_with_what_the_task_was_called_with(app: Longshore):
    cleaned: list[tuple[str, int, str]] = []

    @app.task
    async def load(path: str, *, size: int = 1) -> None:
        raise Cancel("superseded")

    @load.on_cancelled
    async def clean_up(path: str, *, size: int = 1) -> None:
        cleaned.append((path, size, current_job().id))

    handle = await load.using(priority=1).submit("a.png", size=3)
    await app.work(until_idle=True)

    assert await handle.status() is State.CANCELLED
    assert cleaned == [("a.png", 3, handle.id)]


async def test_a_hook_that_takes_something_else_is_refused(app: Longshore):
    @app.task
    async def load(path: str) -> None: ...

    async def clean_up(file: str) -> None: ...

    wrong: Any = clean_up
    with pytest.raises(ConfigError, match=r"'load': its hooks take \(path\), as it does"):
        load.on_cancelled(wrong)


@pytest.mark.parametrize("seconds", [60.0, None])
async def test_a_handler_sees_how_much_time_it_has(app: Longshore, seconds: float | None):
    seen: list[float] = []

    @app.task(timeout=seconds)
    async def on_the_loop() -> None:
        seen.append(current_job().time_left)

    @app.task(timeout=seconds)
    def in_a_thread() -> None:
        seen.append(current_job().time_left)

    await asyncio.gather(on_the_loop.submit(), in_a_thread.submit())
    await app.work(until_idle=True)

    least, most = (30.0, 60.0) if seconds else (math.inf, math.inf)
    assert len(seen) == 2
    assert all(least <= left <= most for left in seen)
