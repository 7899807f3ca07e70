"""The HTTP service on every engine, asked without a network in between."""

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from api_steps import asking

from longshore.api.application import Application
from longshore.api.context import Service
from longshore.contract import Engine
from longshore.engines import open_engine


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        return request.getfixturevalue("empty_postgres_url")
    return f"sqlite:///{tmp_path}/jobs.db"


@pytest.fixture
async def engine(store: str) -> AsyncIterator[Engine]:
    opened = open_engine(store)
    await opened.migrate()
    yield opened
    await opened.close()


@pytest.fixture
async def client(engine: Engine) -> AsyncIterator[httpx.AsyncClient]:
    async with asking(Application(Service(engine))) as opened:
        yield opened


@pytest.fixture
async def memory() -> AsyncIterator[Engine]:
    """For what no engine has a part in."""
    opened = open_engine("sqlite://:memory:")
    await opened.migrate()
    yield opened
    await opened.close()
