"""`longshore api` as real processes: races on one key, lost answers, reload and stop."""

import asyncio
import json
import os
import resource
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

import httpx
import pytest

from longshore import Longshore
from longshore.contract import Engine, JobFilter
from longshore.core import ids
from longshore.core.state import State
from longshore.engines import open_engine
from longshore.testing.harness import eventually

pytestmark = pytest.mark.slow

PATIENCE = 60.0
OFFER = {"worker": "w", "queues": ["default"], "types": ["noop"], "lease_us": 60_000_000}


class Api:
    """`longshore api` on a store of its own."""

    def __init__(self, url: str, folder: Path, stack: ExitStack) -> None:
        self.url = url
        self._folder = folder
        self._stack = stack
        self._log = folder / f"log-{id(self)}"
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
        log = self._stack.enter_context(self._log.open("wb"))
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
        return self._log.read_text()


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


async def lose_an_answer(engine: Engine, port: int) -> None:
    """Submit one more job, and hang up once it is stored, without a look at the answer."""
    before = len((await engine.find(JobFilter(), limit=100)).jobs)

    async def is_stored() -> bool:
        return len((await engine.find(JobFilter(), limit=100)).jobs) > before

    with socket.create_connection(("127.0.0.1", port)) as lost:
        lost.sendall(post("lost", close=False))
        await eventually(is_stored, within=PATIENCE)


@pytest.mark.slow
async def test_a_key_makes_one_job_whatever_races_and_whatever_is_lost(
    store: str, tmp_path: Path, stack: ExitStack
):
    apis = [Api(store, tmp_path, stack) for _ in range(2)]
    processes = [await api.start() for api in apis]
    ports = [api.port for api in apis]
    streams = [await asyncio.open_connection("127.0.0.1", port) for port in ports * 25]
    app = Longshore(store)
    async with app:
        for _, writer in streams:
            writer.write(post("race"))
        said = await asyncio.gather(*[reader.read() for reader, _ in streams])
        await lose_an_answer(app.engine, ports[0])
        reader, writer = await asyncio.open_connection("127.0.0.1", ports[1])
        writer.write(post("lost"))
        again = await reader.read()
        await app.work(until_idle=True)
        jobs = (await app.engine.find(JobFilter(), limit=100)).jobs
    for _, one in [*streams, (reader, writer)]:
        one.close()

    statuses = Counter(one.split(b" ")[1] for one in said)
    assert statuses[b"201"] == 1, statuses
    assert statuses.keys() <= {b"201", b"200", b"409"}
    bodies = {one.partition(b"\r\n\r\n")[2] for one in said if b" 409 " not in one[:20]}
    assert len(bodies) == 1
    assert again.startswith(b"HTTP/1.1 200 ")
    assert b"idempotency-replayed: true" in again
    by_key = {job.idempotency_key: job for job in jobs}
    assert json.loads(again.partition(b"\r\n\r\n")[2])["id"] == ids.text(by_key["lost"].id)
    assert sorted(str(job.idempotency_key) for job in jobs) == ["lost", "race"]
    assert {(job.state, job.attempt) for job in jobs} == {(State.SUCCEEDED, 1)}
    for process in processes:
        process.terminate()
        assert await asyncio.to_thread(process.wait, PATIENCE) == 0
    assert "Traceback" not in apis[0].log() + apis[1].log()


@pytest.mark.slow
async def test_waits_end_when_the_service_drains_and_go_on_elsewhere(
    store: str, tmp_path: Path, stack: ExitStack
):
    leaving, staying = Api(store, tmp_path, stack), Api(store, tmp_path, stack)
    process = await leaving.start()
    await staying.start()
    async with httpx.AsyncClient(
        base_url=f"http://127.0.0.1:{leaving.port}", timeout=PATIENCE
    ) as http:
        opened = (await http.post("/v1/sessions", json=OFFER)).json()
        path = f"/v1/sessions/{opened['id']}"
        for number in (1, 2):
            # Whoever begins to wait may have missed something, and looks again.
            body = {"number": number, "want": 1, "wait_seconds": 0.5}
            await http.post(f"{path}:exchange", json=body)
        waits = [
            http.post(f"{path}:exchange", json={"number": 3, "want": 1, "wait_seconds": 20}),
            http.post(f"{path}:wait", json={"seconds": 20, "until": "cancel"}),
        ]
        tasks = [asyncio.ensure_future(one) for one in waits]
        done, _ = await asyncio.wait(tasks, timeout=0.3)

        process.terminate()

        async with asyncio.timeout(15):  # less than what they asked to wait
            answers = await asyncio.gather(*tasks)
            assert await asyncio.to_thread(process.wait, PATIENCE) == 0
    assert not done
    assert [one.status_code for one in answers] == [200, 204]
    assert [one.headers["connection"] for one in answers] == ["close", "close"]
    async with httpx.AsyncClient(
        base_url=f"http://127.0.0.1:{staying.port}", timeout=PATIENCE
    ) as http:
        await http.post("/v1/jobs", json={"type": "noop"})
        again = await http.post(f"{path}:exchange", json={"number": 4, "want": 1})
    assert len(again.json()["claims"]) == 1


@pytest.mark.slow
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


FRAGILE = """
import os
import resource
from pathlib import Path

from longshore import Longshore

if Path("broken").exists():
    os._exit(3)
app = Longshore()
"""


@pytest.mark.slow
async def test_connections_are_refused_while_every_process_waits_to_be_restarted(
    tmp_path: Path, stack: ExitStack
):
    (tmp_path / "fragile.py").write_text(FRAGILE)
    api = Api(f"sqlite:///{tmp_path}/jobs.db", tmp_path, stack)
    supervisor = await api.start("--processes", "2", "--app", "fragile:app")

    (tmp_path / "broken").touch()
    for pid in children(supervisor.pid):
        os.kill(pid, signal.SIGKILL)
    await eventually(lambda: outcome(api.port) == "refused", within=PATIENCE)
    while_broken = {outcome(api.port) for _ in range(200)}
    (tmp_path / "broken").unlink()

    assert while_broken == {"refused"}
    await eventually(lambda: asyncio.to_thread(api.is_ready), within=PATIENCE)
    supervisor.terminate()
    assert await asyncio.to_thread(supervisor.wait, PATIENCE) == 0
    assert "Traceback" not in api.log()


@pytest.mark.slow
@pytest.mark.parametrize("processes", [1, 2])
async def test_connections_are_refused_while_a_request_that_is_under_way_holds_up_a_stop(
    tmp_path: Path, stack: ExitStack, processes: int
):
    api = Api(f"sqlite:///{tmp_path}/jobs.db", tmp_path, stack)
    process = await api.start("--processes", str(processes))
    with socket.create_connection(("127.0.0.1", api.port)) as slow:
        half, rest = post("slow")[:-5], post("slow")[-5:]
        slow.sendall(half)
        await asyncio.to_thread(api.status, "/healthz")

        process.terminate()
        await eventually(lambda: outcome(api.port) == "refused", within=PATIENCE)
        assert process.poll() is None
        slow.sendall(rest)
        slow.settimeout(PATIENCE)
        answer = await asyncio.to_thread(slow.recv, 4_096)

    assert answer.startswith(b"HTTP/1.1 201 ")
    assert await asyncio.to_thread(process.wait, PATIENCE) == 0


def children(pid: int) -> list[int]:
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def outcome(port: int) -> str:
    """What becomes of a connection that asks whether the service is alive."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=0.2) as connection:
            connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            return "answered" if connection.recv(1) else "closed"
    except ConnectionRefusedError:
        return "refused"
    except ConnectionResetError:
        return "reset"
    except TimeoutError:
        return "hung"


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


@pytest.mark.slow
async def test_a_process_with_few_open_files_refuses_connections_and_stays_healthy(
    tmp_path: Path, stack: ExitStack
):
    api = Api(f"sqlite:///{tmp_path}/jobs.db", tmp_path, stack)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, before[1]))
    try:
        process = await api.start()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)

    for _ in range(300):
        stack.enter_context(socket.create_connection(("127.0.0.1", api.port)))
    await eventually(
        lambda: asyncio.to_thread(lambda: outcome(api.port) == "answered"), within=PATIENCE
    )

    process.terminate()
    assert await asyncio.to_thread(process.wait, PATIENCE) == 0
    assert "Traceback" not in api.log()
    assert "Too many open files" not in api.log()
