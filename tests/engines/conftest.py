"""A SQLite engine on a file of its own; calls to PostgreSQL, and someone who looks on."""

from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest
from calls import Fetch

from longshore.engine import Engine
from longshore.engines import open_engine
from longshore.engines.postgres.database import Connection, Database


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs.db"


@pytest.fixture
async def engine(path: Path) -> AsyncIterator[Engine]:
    engine = open_engine(f"sqlite:///{path}")
    await engine.migrate()
    yield engine
    await engine.close()


@pytest.fixture
async def database(postgres_url: str) -> AsyncIterator[Database]:
    database = Database(postgres_url)
    yield database
    await database.close()


@pytest.fixture
async def observer(postgres_url: str) -> AsyncIterator[Connection]:
    """Someone else's connection to the same database."""
    connection = await asyncpg.connect(postgres_url)
    yield connection
    await connection.close()


@pytest.fixture(params=["pool", "lane"])
async def fetch(request: pytest.FixtureRequest, database: Database) -> AsyncIterator[Fetch]:
    """A call on a pooled connection, and one on a lane."""
    lane = database.lane()
    yield database.fetch if request.param == "pool" else lane.fetch
    await lane.close()
