"""A SQLite engine on a file of its own."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from longshore.contract import Engine
from longshore.engines import open_engine


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs.db"


@pytest.fixture
async def engine(path: Path) -> AsyncIterator[Engine]:
    engine = open_engine(f"sqlite:///{path}")
    await engine.migrate()
    yield engine
    await engine.close()
