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


SERVERS = {"postgres": "empty_postgres_url", "postgres-15": "empty_postgres_15_url"}


@pytest.fixture(params=["model", "sqlite-memory", "sqlite-file", *SERVERS])
def engine_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param in SERVERS:
        return request.getfixturevalue(SERVERS[request.param])
    urls = {
        "model": "model:",
        "sqlite-memory": "sqlite://:memory:",
        "sqlite-file": f"sqlite:///{tmp_path}/jobs.db",
    }
    return urls[request.param]


@pytest.fixture
async def engine(engine_url: str, clock: ManualClock) -> AsyncIterator[Engine]:
    is_model = engine_url == "model:"
    opened = ModelEngine(clock) if is_model else open_engine(engine_url, clock=clock)
    await opened.migrate()
    yield opened
    await opened.close()


@pytest.fixture
async def reopen(
    engine_url: str, engine: Engine, clock: ManualClock
) -> AsyncIterator[Callable[[], Awaitable[Engine]]]:
    opened: list[Engine] = []

    async def open_again() -> Engine:
        opened.append(open_engine(engine_url, clock=clock))
        return opened[-1]

    yield open_again
    for one in opened:
        await one.close()
