"""Follow a job to its end: over a store, over HTTP, and over a line that keeps breaking."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from longshore import EngineUnavailableError, JobNotFoundError, Longshore, WaitTimeoutError
from longshore.api.context import Service
from longshore.api.http_server import ApiServer, listen
from longshore.api.settings import ApiSettings
from longshore.client import Client, SyncClient
from longshore.contract import Engine
from longshore.testing.manual import ManualWorker, a_worker

UNKNOWN = "019a8a6e-7c00-7000-8000-000000000000"


@pytest.fixture
async def app(tmp_path: Path) -> AsyncIterator[Longshore]:
    app = Longshore(f"sqlite:///{tmp_path}/jobs.db")
    async with app:
        yield app


@asynccontextmanager
async def served(engine: Engine) -> AsyncIterator[int]:
    settings = ApiSettings(port=0)
    server = ApiServer(Service(engine, settings), is_local=True)
    listening = listen(settings)
    port = listening.getsockname()[1]
    ready = asyncio.Event()
    task = asyncio.create_task(server.run(listening, on_ready=ready.set))
    await ready.wait()
    try:
        yield port
    finally:
        server.drain()
        await task


@asynccontextmanager
async def breaking(port: int, every: int) -> AsyncIterator[tuple[int, list[int]]]:
    """A way to that port whose connections end after so many bytes, and those that did."""
    cuts: list[int] = []

    passing: set[asyncio.Task[None]] = set()

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", port)
        try:
            back.write(await reader.readuntil(b"\r\n\r\n"))
            left = every
            while left and (piece := await there.read(left)):
                writer.write(piece)
                await writer.drain()
                left -= len(piece)
            if not left:
                cuts.append(1)
        finally:
            writer.transport.abort()
            back.transport.abort()

    def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        passing.add(asyncio.create_task(pass_on(reader, writer)))

    server = await asyncio.start_server(begin, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1], cuts
    # A client may keep a connection on which it never asked for anything.
    for one in passing:
        one.cancel()
    await asyncio.gather(*passing, return_exceptions=True)


async def live(worker: ManualWorker) -> None:
    """The life of a job, in steps that someone who follows has time to see."""
    (claim,) = await worker.claim()
    await worker.start(claim)
    for step in range(8):
        await asyncio.sleep(0.03)
        await worker.report(claim, step / 8)
    await worker.succeed(claim)


STORY = ["job.snapshot", "job.started", *["job.progress"] * 8, "job.succeeded"]


async def test_a_handle_follows_its_job_to_the_end(app: Longshore):
    worker = await a_worker(app.engine, types=["noop"])
    job = await app.submit("noop")
    living = None
    names: list[str] = []

    async for event in job.events(timeout=30):
        names.append(event.name)
        living = living or asyncio.create_task(live(worker))
    late = [event.details["state"] async for event in job.events(timeout=30)]

    assert names == STORY
    assert late == ["succeeded"]
    with pytest.raises(JobNotFoundError):
        await anext(app.job(UNKNOWN).events())


async def test_a_connection_that_breaks_loses_no_event(app: Longshore):
    worker = await a_worker(app.engine, types=["noop"])
    job = await app.submit("noop")
    living = None
    names: list[str] = []

    async with served(app.engine) as port, breaking(port, every=1_500) as (way, cuts):
        async with Client(f"http://127.0.0.1:{way}") as client:
            async for event in client.events(job.id, timeout=60):
                names.append(event.name)
                living = living or asyncio.create_task(live(worker))
        async with Longshore(f"http://127.0.0.1:{port}") as remote:
            far = [event.name async for event in remote.job(job.id).events(timeout=60)]

    assert names == STORY
    assert len(cuts) > 1
    assert far == ["job.snapshot"]


async def test_a_blocking_client_follows_too_and_gives_up_in_time(app: Longshore):
    job = await app.submit("noop")

    def read(port: int) -> list[str]:
        with SyncClient(f"http://127.0.0.1:{port}", timeout=1) as client:
            names = [next(client.events(job.id)).name]
            with pytest.raises(WaitTimeoutError):
                names += [one.name for one in client.follow(timeout=0.3, names=["job.dead"])]
        return names

    async with served(app.engine) as port:
        names = await asyncio.to_thread(read, port)
    async with Client(f"http://127.0.0.1:{port}", timeout=0.3) as client:
        with pytest.raises(EngineUnavailableError):
            await anext(client.events(job.id))

    assert names == ["job.snapshot"]
    with pytest.raises(WaitTimeoutError):
        _ = [event async for event in job.events(timeout=0.2)]
