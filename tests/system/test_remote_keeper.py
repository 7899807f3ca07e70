"""`longshore worker` over HTTP, as it is started by people: its keeper speaks HTTP too."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec
import pytest
from keeper_yard import is_alive

from longshore.contract import Engine
from longshore.core.account import NewKey, Scope
from longshore.core.job import Job
from longshore.core.state import State
from longshore.engines import open_engine
from longshore.records import api_keys
from longshore.runtime.keys import mint
from longshore.testing.factories import a_job
from longshore.testing.harness import eventually

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
PATIENCE = 60.0
LEASE_S = 120


class Port:
    """A store behind `longshore api`, and workers that know only its address and their key."""

    def __init__(self, store: str, engine: Engine, folder: Path, stack: ExitStack) -> None:
        self.store = store
        self.engine = engine
        self.folder = folder
        self._stack = stack
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._port = free.getsockname()[1]
        clean = {name: value for name, value in os.environ.items() if "LONGSHORE" not in name}
        paths = os.pathsep.join(filter(None, [str(HERE), clean.get("PYTHONPATH")]))
        self._environ = {**clean, "PYTHONPATH": paths}

    def start(self, name: str, *words: str, **environ: str) -> "subprocess.Popen[bytes]":
        log = self._stack.enter_context((self.folder / f"{name}.log").open("wb"))
        process = self._stack.enter_context(
            subprocess.Popen(
                [sys.executable, "-m", "longshore", *words],
                cwd=self.folder,
                env={**self._environ, **environ},
                stderr=log,
            )
        )
        self._stack.callback(process.kill)
        return process

    async def serve(self, *words: str) -> "subprocess.Popen[bytes]":
        port = str(self._port)
        process = self.start("api", "--url", self.store, "api", "--port", port, *words)
        await eventually(self._listens, within=PATIENCE)
        return process

    async def work(
        self, name: str, key: str, lease: int = LEASE_S
    ) -> "subprocess.Popen[bytes]":
        """A worker that is ready."""
        ready = self.folder / f"{name}.ready"
        url = f"http://127.0.0.1:{self._port}"
        process = self.start(
            name,
            *("--url", url, "--app", "remote_app:app", "worker", "--queues", "held"),
            *("--concurrency", "1", "--lease", f"{lease}s", "--ready-file", str(ready)),
            "--json",
            LONGSHORE_KEY=key,
        )
        await eventually(ready.exists, within=PATIENCE)
        return process

    async def keeper(self, name: str) -> int:
        """The process id of the worker's keeper, once that looks after it."""

        async def is_kept() -> bool:
            return any(
                one.renewed_at > one.opened_at
                for one in (await self.engine.sessions()).sessions
            )

        await eventually(is_kept, within=PATIENCE)
        return int(self.logged(name, "keeper started")[0]["pid"])

    def logged(self, name: str, event: str) -> list[dict[str, Any]]:
        lines = (self.folder / f"{name}.log").read_text().splitlines()
        return [one for one in map(json.loads, lines) if one.get("event") == event]

    def _listens(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self._port)).close()
        except ConnectionError:
            return False
        return True


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        return request.getfixturevalue("empty_postgres_url")
    return f"sqlite:///{tmp_path}/jobs.db"


@pytest.fixture
async def port(store: str, tmp_path: Path) -> AsyncIterator[Port]:
    engine = open_engine(store)
    await engine.migrate()
    with ExitStack() as stack:
        yield Port(store, engine, tmp_path, stack)
    await engine.close()


async def a_workers_key(engine: Engine) -> str:
    made = mint()
    await api_keys.add(
        engine, NewKey(id=made.id, digest=made.digest, tenant=None, scopes=(Scope.WORK,))
    )
    return made.text


async def test_the_job_of_a_killed_remote_worker_runs_elsewhere_long_before_its_lease_ends(
    port: Port,
) -> None:
    key = await a_workers_key(port.engine)
    await port.serve("--only", "sessions")
    victim = await port.work("victim", key)
    payload = msgspec.json.encode({"name": "x"})
    (job,) = await port.engine.submit([a_job(type="hold", queue="held", payload=payload)])
    await eventually((port.folder / "x.started").exists, within=PATIENCE)
    heir = await port.work("heir", key)

    async def found() -> Job:
        return await port.engine.get(job.id)

    async def is_taken_over() -> bool:
        now = await found()
        return now.state is State.RUNNING and now.delivery == 2

    victim.kill()
    killed = time.monotonic()
    await eventually(is_taken_over, within=PATIENCE)
    took = time.monotonic() - killed
    (port.folder / "x.go").touch()

    async def is_done() -> bool:
        return (await found()).state is State.SUCCEEDED

    await eventually(is_done, within=PATIENCE)
    heir.terminate()
    assert await asyncio.to_thread(heir.wait, PATIENCE) == 0
    assert took < LEASE_S / 6
    ended = await found()
    assert (ended.crashes, ended.failures, ended.delivery) == (1, 0, 2)
    # A line for each request would be most of the log.
    assert "HTTP Request" not in (port.folder / "victim.log").read_text()


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
async def test_a_keeper_goes_with_the_lease_if_worker_and_service_have_gone_for_good(
    port: Port, end: signal.Signals
) -> None:
    service = await port.serve("--only", "sessions")
    worker = await port.work("victim", await a_workers_key(port.engine), lease=3)
    keeper = await port.keeper("victim")

    service.kill()
    await asyncio.to_thread(service.wait, PATIENCE)
    worker.send_signal(end)
    await asyncio.to_thread(worker.wait, PATIENCE)
    await eventually(lambda: not is_alive(keeper), within=PATIENCE)

    assert port.logged("victim", "death not reported") != []
    assert len(port.logged("victim", "death left to others to find")) == 1


async def test_a_keeper_whose_key_was_revoked_says_so_and_goes(port: Port) -> None:
    await port.serve("--only", "sessions")
    worker = await port.work("victim", await a_workers_key(port.engine), lease=30)
    keeper = await port.keeper("victim")
    (key,) = await api_keys.every(port.engine)

    await api_keys.revoke(port.engine, key.id)
    await eventually(
        lambda: port.logged("victim", "renewal failed") or worker.poll() is not None,
        within=PATIENCE,
    )
    worker.kill()
    await asyncio.to_thread(worker.wait, PATIENCE)
    killed = time.monotonic()
    await eventually(lambda: not is_alive(keeper), within=PATIENCE)

    assert time.monotonic() - killed < 20
    assert len(port.logged("victim", "death cannot be reported")) == 1
