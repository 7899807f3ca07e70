"""Every engine the contract runs on, each empty and on a clock that the test moves."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from longshore.engine import Engine
from longshore.engines import open_engine
from longshore.runtime.clock import ManualClock
from longshore.testing.model import ModelEngine


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(params=["model", "sqlite-memory", "sqlite-file"])
async def engine(
    request: pytest.FixtureRequest, clock: ManualClock, tmp_path: Path
) -> AsyncIterator[Engine]:
    urls = {
        "sqlite-memory": "sqlite://:memory:",
        "sqlite-file": f"sqlite:///{tmp_path}/jobs.db",
    }
    name = request.param
    opened = ModelEngine(clock) if name == "model" else open_engine(urls[name], clock=clock)
    await opened.migrate()
    yield opened
    await opened.close()


@pytest.fixture
async def reopen(
    engine: Engine, clock: ManualClock
) -> AsyncIterator[Callable[[], Awaitable[Engine]]]:
    opened: list[Engine] = []

    async def open_again() -> Engine:
        opened.append(open_engine(engine.url, clock=clock))
        return opened[-1]

    yield open_again
    for one in opened:
        await one.close()
