"""`longshore api` as a process of its own, with a tenant, and a key that may ask everything."""

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from longshore.core.account import NewKey, Scope, Tenant
from longshore.core.consumer import Quarantined
from longshore.core.event import Name
from longshore.core.state import Verb
from longshore.engines import open_engine
from longshore.operations import deliveries
from longshore.records import (
    api_keys,
    breaker_settings,
    pauses,
    quarantine,
    queue_settings,
    tenants,
)
from longshore.runtime.clock import SystemClock
from longshore.runtime.ids import IdSource
from longshore.runtime.keys import mint
from longshore.testing.factories import a_job, a_settlement

__all__ = ["PATIENCE", "api", "fill", "listens", "operator_key"]

PATIENCE = 60.0
LEASE = 3_600_000_000


async def operator_key(url: str) -> str:
    minted = mint()
    engine = open_engine(url)
    await engine.migrate()
    await api_keys.add(
        engine, NewKey(id=minted.id, digest=minted.digest, tenant=None, scopes=tuple(Scope))
    )
    await tenants.create(engine, Tenant(name="acme"))
    await engine.close()
    return minted.text


async def fill(url: str) -> None:
    """Put some of everything into the store, so that no list is empty."""
    engine = open_engine(url)
    await queue_settings.override(engine, "default", {"on_dead": "block"})
    await breaker_settings.override(engine, "email.send", {"failures": 3})
    await engine.submit([a_job(ordering_key=f"k{n % 3}") for n in range(30)])
    session = await engine.open_session(
        worker="w", queues=[a_job().queue], types=[a_job().type], lease=LEASE
    )
    claims = (await session.exchange(1, want=30)).claims
    kills = [a_settlement(one, Verb.KILL, reason="poison") for one in claims]
    await session.exchange(2, settlements=kills)
    _, endpoint = await deliveries.create(engine, tenant="default", url="https://example.com")
    await deliveries.test(engine, endpoint, IdSource(SystemClock()))
    await pauses.pause(engine, queue="paused")
    cursor = await engine.take_cursor("kafka", holder="h", lease=LEASE)
    assert cursor is not None
    aside = Quarantined("kafka", "1.1", Name.SUBMITTED, claims[0].id, "too large", b"{}")
    await engine.advance(cursor, position=1, quarantined=[quarantine.put(aside, "default")])
    await engine.take_cursor("left", holder="h", lease=1)
    await engine.chain(limit=100)
    await engine.close()


@contextmanager
def api(url: str, folder: Path) -> Iterator[tuple[int, "subprocess.Popen[bytes]"]]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    clean = {name: value for name, value in os.environ.items() if "LONGSHORE" not in name}
    words = ["--url", url, "api", "--port", str(port)]
    with ExitStack() as stack:
        log = stack.enter_context((folder / "log").open("wb"))
        process = stack.enter_context(
            subprocess.Popen(
                [sys.executable, "-m", "longshore", *words], cwd=folder, env=clean, stderr=log
            )
        )
        stack.callback(process.kill)
        yield port, process


async def listens(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except ConnectionError:
        return False
    writer.close()
    return True
