"""An engine and others on one database, which a module may choose by a `url` of its own."""

from collections.abc import AsyncIterator

import asyncpg
import pytest
from calls import Fetch

from longshore.contract import Engine
from longshore.engines import open_engine
from longshore.engines.postgres.connection import Connection
from longshore.engines.postgres.database import Database
from longshore.runtime.clock import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def engine(empty_postgres_url: str, clock: ManualClock) -> AsyncIterator[Engine]:
    """Goes straight to the server."""
    engine = open_engine(empty_postgres_url, clock=clock)
    yield engine
    await engine.close()


@pytest.fixture
async def db(empty_postgres_url: str) -> AsyncIterator[Connection]:
    """Someone with psql."""
    connection = await asyncpg.connect(empty_postgres_url)
    yield connection
    await connection.close()


@pytest.fixture
def url(postgres_url: str) -> str:
    """Where the fixtures below connect to."""
    return postgres_url


@pytest.fixture
async def database(url: str) -> AsyncIterator[Database]:
    database = Database(url)
    yield database
    await database.close()


@pytest.fixture
async def other(url: str) -> AsyncIterator[Connection]:
    """The transaction of somebody else."""
    connection = await asyncpg.connect(url)
    yield connection
    await connection.close()


@pytest.fixture
async def observer(url: str) -> AsyncIterator[Connection]:
    """Looks on: inside a transaction the server's view of others stands still."""
    connection = await asyncpg.connect(url)
    yield connection
    await connection.close()


@pytest.fixture(params=["pool", "lane"])
async def fetch(request: pytest.FixtureRequest, database: Database) -> AsyncIterator[Fetch]:
    """A call on a pooled connection, and one on a lane."""
    lane = database.lane()
    yield database.fetch if request.param == "pool" else lane.fetch
    await lane.close()
