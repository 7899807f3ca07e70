"""`longshore api` as real processes: races on one key, lost answers, reload and stop."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from longshore import Longshore
from longshore.core.state import State
from longshore.engine import JobFilter
from longshore.engines import open_engine
from longshore.testing.harness import eventually

pytestmark = pytest.mark.slow

PATIENCE = 60.0


class Api:
    """`longshore api` on a store of its own."""

    def __init__(self, url: str, folder: Path, stack: ExitStack) -> None:
        self.url = url
        self._folder = folder
        self._stack = stack
        self.port = 0

    async def start(self, *words: str) -> "subprocess.Popen[bytes]":
        process = self._popen(words)
        await eventually(
            lambda: process.poll() is not None or asyncio.to_thread(self.is_ready),
            within=PATIENCE,
        )
        assert process.poll() is None, self.log()
        return process

    def _popen(self, words: Sequence[str]) -> "subprocess.Popen[bytes]":
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        clean = {name: value for name, value in os.environ.items() if "LONGSHORE" not in name}
        command = [sys.executable, "-m", "longshore", "--url", self.url, "api"]
        log = self._stack.enter_context((self._folder / "log").open("wb"))
        process = self._stack.enter_context(
            subprocess.Popen(
                [*command, "--port", str(self.port), *words],
                cwd=self._folder,
                env=clean,
                stderr=log,
            )
        )
        self._stack.callback(process.kill)
        return process

    def is_ready(self) -> bool:
        try:
            return self.status("/readyz") == 200
        except (urllib.error.URLError, ConnectionError):
            return False

    def status(self, path: str) -> int:
        address = f"http://127.0.0.1:{self.port}{path}"
        with urllib.request.urlopen(address, timeout=PATIENCE) as answer:
            return answer.status

    def log(self) -> str:
        return (self._folder / "log").read_text()


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as opened:
        yield opened


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        return request.getfixturevalue("empty_postgres_url")
    return f"sqlite:///{tmp_path}/jobs.db"


def post(key: str, *, close: bool = True) -> bytes:
    body = json.dumps({"type": "noop", "tags": [key]}).encode()
    return (
        b"POST /v1/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        b"Idempotency-Key: %s\r\nConnection: %s\r\nContent-Length: %d\r\n\r\n%s"
        % (key.encode(), b"close" if close else b"keep-alive", len(body), body)
    )


async def test_a_key_makes_one_job_whatever_races_and_whatever_is_lost(
    store: str, tmp_path: Path, stack: ExitStack
):
    api = Api(store, tmp_path, stack)
    process = await api.start("--processes", "2")
    streams = [await asyncio.open_connection("127.0.0.1", api.port) for _ in range(50)]

    for _, writer in streams:
        writer.write(post("race"))
    said = await asyncio.gather(*[reader.read() for reader, _ in streams])
    lost = socket.create_connection(("127.0.0.1", api.port))
    lost.sendall(post("lost", close=False))
    lost.close()
    reader, writer = await asyncio.open_connection("127.0.0.1", api.port)
    writer.write(post("lost"))
    again = await reader.read()

    statuses = Counter(one.split(b" ")[1] for one in said)
    assert statuses[b"201"] == 1, statuses
    assert statuses.keys() <= {b"201", b"200", b"409"}
    bodies = {one.partition(b"\r\n\r\n")[2] for one in said if b" 409 " not in one[:20]}
    assert len(bodies) == 1
    assert again.split(b" ")[1] in (b"200", b"201")
    for _, one in [*streams, (reader, writer)]:
        one.close()
    app = Longshore(store)
    async with app:
        await app.work(until_idle=True)
        jobs = (await app.engine.find(JobFilter(), limit=100)).jobs
    keys = sorted(job.idempotency_key or "" for job in jobs)
    assert keys == ["lost", "race"]
    assert {(job.state, job.attempt) for job in jobs} == {(State.SUCCEEDED, 1)}
    process.terminate()
    assert await asyncio.to_thread(process.wait, PATIENCE) == 0
    assert "Traceback" not in api.log()


@pytest.mark.parametrize("processes", [1, 2])
async def test_a_reload_answers_everyone_and_a_stop_leaves_with_zero(
    tmp_path: Path, stack: ExitStack, processes: int
):
    api = Api(f"sqlite:///{tmp_path}/jobs.db", tmp_path, stack)
    process = await api.start("--processes", str(processes))

    process.send_signal(signal.SIGHUP)
    while "api begins again" not in (log := api.log()) and log.count("signal received") < 2:
        assert await asyncio.to_thread(api.status, "/healthz") == 200
    assert await asyncio.to_thread(api.status, "/healthz") == 200

    process.terminate()
    assert await asyncio.to_thread(process.wait, PATIENCE) == 0
    assert "Traceback" not in api.log()


async def test_an_address_for_everyone_is_refused_without_keys(
    tmp_path: Path, stack: ExitStack
):
    url = f"sqlite:///{tmp_path}/jobs.db"
    engine = open_engine(url)
    await engine.migrate()
    await engine.close()

    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-m", "longshore", "--url", url, "api", "--host", "0.0.0.0"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )

    assert done.returncode == 2
    assert "no API key" in done.stderr
    assert "Traceback" not in done.stderr
