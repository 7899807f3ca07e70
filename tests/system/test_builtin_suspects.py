"""Jobs of built-in tasks whose workers, or keepers, are killed with `kill -9`."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from poison_yard import Yard, open_yard

from longshore.core import webhook
from longshore.core.job import JobId
from longshore.core.poison import unreported
from longshore.core.state import State
from longshore.core.webhook import Endpoint, Secret
from longshore.records import webhooks
from longshore.testing.factories import a_job
from longshore.testing.harness import eventually

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="keepers are for Linux"),
]
prove = pytest.mark.prove

SETTINGS = """
[worker]
max_crashes = {max_crashes}
[http]
allowed_networks = ["127.0.0.0/8"]
longest_call = "10m"
[webhooks]
allowed_networks = ["127.0.0.0/8"]
timeout = "10m"
max_running = 16
[smtp]
host = "127.0.0.1"
port = {port}
tls = "none"
sender = "shop@example.org"
timeout = "10m"
"""


class Receiver:
    """A server on loopback that counts who comes, and answers nobody before it is let to."""

    def __init__(self) -> None:
        self.visits = 0
        self.may_answer = asyncio.Event()
        self.port = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.visits += 1
        try:
            await self.may_answer.wait()
            await self.answer(reader, writer)
        except ConnectionError:
            pass  # it was killed meanwhile
        finally:
            writer.close()

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
        await writer.drain()


class MailRelay(Receiver):
    """The same as a mail relay that takes every message."""

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 relay\r\n")
        while line := await reader.readline():
            verb = line[:4].upper()
            if verb == b"DATA":
                writer.write(b"354 go on\r\n")
                await reader.readuntil(b"\r\n.\r\n")
            writer.write(b"221 bye\r\n" if verb == b"QUIT" else b"250 ok\r\n")


@asynccontextmanager
async def listening(task: str) -> AsyncIterator[Receiver]:
    receiver = MailRelay() if task == "email.send" else Receiver()
    server = await asyncio.start_server(receiver.serve, "127.0.0.1", 0)
    receiver.port = server.sockets[0].getsockname()[1]
    try:
        yield receiver
    finally:
        receiver.may_answer.set()
        server.close()


async def submitted(yard: Yard, task: str, receiver: Receiver) -> JobId:
    """A job that goes to the receiver, on the queue where its task belongs."""
    url = f"http://127.0.0.1:{receiver.port}/"
    if task == webhook.TASK:
        secret = Secret(webhook.secret_text(bytes(range(32))))
        endpoint = Endpoint(id=f"wh_{1:024x}", tenant="default", url=url, secrets=(secret,))
        await webhooks.create(yard.engine, endpoint)
        payload = {"endpoint": endpoint.id, "message": "m", "event": "job.dead", "body": "{}"}
    elif task == "email.send":
        payload = {"to": ["ada@example.org"], "subject": "Hello", "text": "Hello"}
    else:
        payload = {"method": "GET", "url": url, "timeout": 500.0}
    options: dict[str, Any] = {"queue": webhook.QUEUE} if task == webhook.TASK else {}
    job = a_job(type=task, payload=msgspec.json.encode(payload), timeout=600_000_000, **options)
    (held,) = await yard.submit([job])
    return held


@pytest.fixture
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        return request.getfixturevalue("postgres_url")
    return f"sqlite:///{tmp_path}/jobs.db"


@pytest.fixture
async def yard(url: str, tmp_path: Path) -> AsyncIterator[Yard]:
    async with open_yard(url, tmp_path) as yard:
        yield yard


def configured(yard: Yard, receiver: Receiver, *, max_crashes: int) -> list[str]:
    """Options of a worker whose settings are in a file that only a flag names."""
    file = yard.folder / "elsewhere.toml"
    file.write_text(SETTINGS.format(port=receiver.port, max_crashes=max_crashes))
    return ["--config", str(file)]


# One run in the worker itself, and every run after it in a child process. Without a child, the
# second worker that dies of the job would make it dead.
QUICK = {"max_crashes": 1, "kills": 3}
FULL = {"max_crashes": 3, "kills": 6}


@pytest.mark.parametrize(
    ("url", "task", "app", "figures"),
    [
        ("sqlite", "http.call", None, FULL),
        ("postgres", "http.call", "poison_app:app", FULL),
        ("sqlite", "email.send", "poison_app:app", QUICK),
        ("sqlite", webhook.TASK, None, QUICK),
        *(
            pytest.param(engine, task, None, FULL, marks=prove)
            for engine in ("sqlite", "postgres")
            for task in ("email.send", webhook.TASK)
        ),
    ],
    indirect=["url"],
)
async def test_workers_that_are_killed_make_no_lone_job_of_a_built_in_task_dead(
    yard: Yard, task: str, app: str | None, figures: dict[str, int]
):
    kills = figures["kills"]
    async with listening(task) as receiver:
        options = configured(yard, receiver, max_crashes=figures["max_crashes"])
        held = await submitted(yard, task, receiver)
        for count in range(1, kills + 1):
            known = await yard.tokens()
            with yard.worker(*options, app=app) as worker:

                async def runs(count: int = count, known: set[int] = known) -> bool:
                    it = await yard.engine.get(held)
                    assert it.state is not State.DEAD, f"{it.reason} after {it.crashes} kills"
                    return receiver.visits == count and await yard.is_kept(known)

                await eventually(runs, within=60.0)
                os.kill(worker.pid, signal.SIGKILL)
                worker.wait()
        receiver.may_answer.set()
        with yard.worker(*options, app=app):
            (ended,) = await yard.ended([held])

    assert (ended.state, ended.reason, ended.failures) == (State.SUCCEEDED, None, 0)
    ran = [one.outcome for one in await yard.history(held) if one.outcome != "snoozed"]
    assert ran == ["crashed"] * kills + ["succeeded"]
    assert (ended.crashes, receiver.visits) == (kills, kills + 1)


@pytest.mark.parametrize(
    ("url", "kills"),
    [
        ("sqlite", 2),
        ("postgres", 2),
        pytest.param("sqlite", 6, marks=prove),
        pytest.param("postgres", 6, marks=prove),
    ],
    indirect=["url"],
)
async def test_keepers_that_are_killed_harm_no_job_of_a_built_in_task(yard: Yard, kills: int):
    async with listening("http.call") as receiver:
        options = configured(yard, receiver, max_crashes=3)
        held = await submitted(yard, "http.call", receiver)
        await crashed_twice(yard)
        with yard.worker(*options, app=None) as worker:
            await eventually(lambda: receiver.visits == 1, within=60.0)
            for count in range(1, kills + 1):
                # Each that dies young makes the next come later.
                await eventually(lambda n=count: len(keepers(yard)) == n, within=60.0)
                os.kill(keepers(yard)[-1], signal.SIGKILL)
                await eventually(lambda n=count: len(yard.logged("keeper died")) == n)
            receiver.may_answer.set()
            (ended,) = await yard.ended([held])
            code = worker.poll()

    assert code is None
    assert (ended.state, ended.failures, ended.crashes) == (State.SUCCEEDED, 0, 2)
    assert receiver.visits == 1


def keepers(yard: Yard) -> list[int]:
    """The processes of all keepers that were ever started."""
    return [int(one["pid"]) for one in yard.logged("keeper started")]


async def crashed_twice(yard: Yard) -> None:
    """Two workers died while they ran the one job there is."""
    for _ in range(2):
        session = await yard.engine.open_session(
            worker="gone", queues=["default"], types=["http.call"], lease=60_000_000
        )
        (claim,) = (await session.exchange(1, want=1)).claims
        await session.exchange(2, started=[(claim.handle, claim.delivery)])
        held = await yard.engine.held(session.token)
        await yard.engine.end_session(session.token, unreported(held or []))
