"""An app on a database with a table for what handlers write, and someone who looks on."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from transaction_steps import connected, prepare

from longshore import Longshore


@pytest.fixture
async def url(empty_postgres_url: str) -> str:
    await prepare(empty_postgres_url)
    return empty_postgres_url


@pytest.fixture
async def db(url: str) -> AsyncIterator[Any]:
    async with connected(url) as connection:
        yield connection


@pytest.fixture
async def app(url: str) -> AsyncIterator[Longshore]:
    app = Longshore(url)
    async with app:
        yield app
