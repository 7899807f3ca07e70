"""Every engine the contract runs on, each empty and on a clock that the test moves."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest
from msgspec.structs import replace

from longshore.api.application import Application
from longshore.api.context import Service
from longshore.api.security import Admission
from longshore.client import Client
from longshore.client.connection import ServiceConnection
from longshore.client.remote_store import RemoteStore
from longshore.contract import Engine, Renewed, Session, Traits
from longshore.contract.forwarding import ForwardingEngine
from longshore.core.job import Held, Settlement
from longshore.engines import open_engine
from longshore.runtime.clock import ManualClock
from longshore.testing.model import ModelEngine


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


STORES = {
    "sqlite-memory": "sqlite://:memory:",
    "sqlite-file": "sqlite:///{folder}/jobs.db",
    "sqlite-http": "sqlite:///{folder}/jobs.db?synchronous=normal",
}
SERVERS = {
    "postgres": "empty_postgres_url",
    "postgres-15": "empty_postgres_15_url",
    "postgres-pooled": "empty_pooled_url",
    "postgres-http": "empty_postgres_url",
}


# An older server is rarely at odds with a newer one alone, PgBouncer has tests of its own, and
# the sessions in front of PostgreSQL are those in front of SQLite.
PROVEN = [
    pytest.param(one, marks=pytest.mark.prove)
    for one in ("postgres-15", "postgres-pooled", "postgres-http")
]


@pytest.fixture(params=["model", *STORES, "postgres", *PROVEN])
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def engine_url(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if kind in SERVERS:
        return request.getfixturevalue(SERVERS[kind])
    return STORES.get(kind, "model:").format(folder=tmp_path)


@pytest.fixture
async def engine(kind: str, engine_url: str, clock: ManualClock) -> AsyncIterator[Engine]:
    store = ModelEngine(clock) if kind == "model" else open_engine(engine_url, clock=clock)
    await store.migrate()
    engine = in_front_of(store, kind)
    yield engine
    await engine.close()
    await store.close()


def in_front_of(store: Engine, kind: str) -> Engine:
    """The same store, with its sessions over HTTP where the kind says so."""
    return SessionsOverHttp(store) if kind.endswith("-http") else store


class SessionsOverHttp(ForwardingEngine):
    """Workers and their keepers ask a service, everyone else the store beside it."""

    def __init__(self, store: Engine) -> None:
        application = Application(Service(store))
        # The keys that a test makes are not for the test itself.
        application.admission = Admission(ModelEngine(), ManualClock())
        transport = httpx.ASGITransport(application, client=("127.0.0.1", 1))
        connection = ServiceConnection("http://localhost", transport=transport)
        service = RemoteStore(
            connection, lambda: Client("http://localhost", transport=transport)
        )
        super().__init__(store)
        self._service = service

    @property
    def traits(self) -> Traits:
        """Those of the service, as far as they do not come from the store."""
        store = self._inner.traits
        return replace(
            self._service.traits,
            own_clock=store.own_clock,
            survives_power_loss=store.survives_power_loss,
        )

    async def open_session(self, **terms: Any) -> Session:
        return await self._service.open_session(**terms)

    async def attach_session(self, token: int) -> Session:
        return await self._service.attach_session(token)

    async def renew(self, token: int) -> Renewed:
        return await self._service.renew(token)

    async def held(self, token: int) -> list[Held] | None:
        return await self._service.held(token)

    async def end_session(
        self, token: int, settlements: Sequence[Settlement], *, grace: int | None = None
    ) -> int:
        """Keepers ask the service, reclaimers the store."""
        if grace is None:
            return await self._service.end_session(token, settlements)
        return await self._inner.end_session(token, settlements, grace=grace)

    async def close(self) -> None:
        await self._service.close()
        await self._inner.close()


@pytest.fixture
async def reopen(
    kind: str, engine_url: str, engine: Engine, clock: ManualClock
) -> AsyncIterator[Callable[[], Awaitable[Engine]]]:
    opened: list[Engine] = []

    async def open_again() -> Engine:
        opened.append(open_engine(engine_url, clock=clock))
        return in_front_of(opened[-1], kind)

    yield open_again
    for one in opened:
        await one.close()
