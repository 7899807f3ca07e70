"""Server-sent events: nothing is lost, nothing is leaked, and nobody holds up the others."""

import asyncio
import json
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import httpx
import pytest
from api_steps import UNKNOWN, asking, served, shown

from longshore.api.application import Application
from longshore.api.context import Service
from longshore.api.http_server import ApiServer, listen
from longshore.api.settings import ApiSettings
from longshore.contract import Engine, Retention
from longshore.core import ids
from longshore.core.account import Tenant
from longshore.core.sse import Cursor, Decoder, Message
from longshore.records import tenants
from longshore.streaming import hub
from longshore.streaming.events import Told, Wish
from longshore.testing.factories import a_job
from longshore.testing.harness import eventually
from longshore.testing.manual import a_worker


class Reader:
    """A client that reads a stream, message by message."""

    def __init__(self, answer: httpx.Response) -> None:
        self.answer = answer
        self._decoder = Decoder()
        self._pieces = answer.aiter_raw()
        self._ahead: list[Message] = []
        self.last = ""

    async def next(self) -> dict[str, Any] | None:
        """The next event, or None at the end."""
        async with asyncio.timeout(20):
            return await self._next()

    async def _next(self) -> dict[str, Any] | None:
        while True:
            while self._ahead:
                message = self._ahead.pop(0)
                self.last = message.id
                if message.data:
                    return json.loads(message.data)
            try:
                piece = await anext(self._pieces)
            except StopAsyncIteration:
                return None
            self._ahead += self._decoder.feed(piece)

    async def rest(self) -> list[str]:
        """The names of all that comes, up to the end."""
        found: list[str] = []
        while (event := await self.next()) is not None:
            found.append(event["name"])
        return found


@asynccontextmanager
async def reading(
    address: tuple[str, int], path: str, after: str | None = None, **headers: str
) -> AsyncIterator[Reader]:
    if after is not None:
        headers["Last-Event-ID"] = after
    base = f"http://{address[0]}:{address[1]}"
    async with (
        httpx.AsyncClient(base_url=base, timeout=30) as client,
        client.stream("GET", path, headers=headers) as answer,
    ):
        yield Reader(answer)


async def test_a_stream_tells_the_trace_of_a_job(engine: Engine):
    trace = f"00-{'a' * 32}-{'b' * 16}-01"
    await engine.submit([job := a_job(trace=trace)])
    async with (
        served(engine) as address,
        reading(address, f"/v1/jobs/{ids.text(job.id)}/stream") as reader,
    ):
        first = await reader.next()
        await engine.change("cancel", [job.id], reason="no")
        last = await reader.next()

    assert first is not None
    assert last is not None
    assert (first["trace"], last["trace"]) == (trace, trace)


async def test_a_job_is_followed_to_its_end(engine: Engine):
    worker = await a_worker(engine)
    async with served(engine) as address:
        await engine.submit([job := a_job()])
        path = f"/runs/{ids.text(job.id)}/stream"
        async with reading(address, path) as reader:
            media = reader.answer.headers["content-type"]
            first = await reader.next()
            (claim,) = await worker.claim()
            await worker.start(claim)
            started = await reader.next()
            place = reader.last
            await worker.succeed(claim)
            names = await reader.rest()
        async with reading(address, path, after=place) as again:
            missed = await again.rest()
        async with reading(address, path, after=again.last) as over:
            nothing = over.answer.status_code

    assert media == "text/event-stream"
    assert first is not None
    assert (first["name"], first["details"]["state"]) == ("job.snapshot", "ready")
    assert started is not None
    assert (started["name"], started["job_id"]) == ("job.started", ids.text(job.id))
    assert names == missed == ["job.succeeded"]
    assert nothing == 204


async def test_who_comes_too_late_hears_how_the_job_ended(engine: Engine):
    await engine.submit([job := a_job()])
    await engine.change("cancel", [job.id], reason="no")
    path = f"/v1/jobs/{ids.text(job.id)}/stream"
    async with served(engine) as address:
        async with reading(address, path) as reader:
            told, rest = await reader.next(), await reader.rest()
        async with reading(address, path, after=reader.last) as again:
            nothing = again.answer.status_code

    assert told is not None
    assert (told["name"], told["details"]["state"]) == ("job.snapshot", "cancelled")
    assert rest == []
    assert nothing == 204


async def test_a_reader_that_comes_back_loses_nothing(engine: Engine):
    async with served(engine) as address:
        async with reading(address, "/v1/events?queue=mail&event=job.submitted") as reader:
            await engine.submit([a_job(queue="mail"), a_job(), a_job(queue="mail")])
            seen = [await reader.next()]
            place = reader.last
        # While it is away, more happens than one look at the store brings.
        jobs = [a_job(queue="mail") for _ in range(5)]
        for job in jobs:
            await engine.submit([job])
            await engine.submit([a_job(queue="other")])
        await engine.change("cancel", [jobs[0].id], reason="no")
        async with reading(
            address, "/v1/events?queue=mail&event=job.submitted", after=place
        ) as again:
            missed = [await again.next() for _ in range(6)]
            await engine.submit([live := a_job(queue="mail")])
            newest = await again.next()

    told = [one["job_id"] for one in [*seen, *missed, newest] if one]
    assert len(set(told)) == 8
    assert told[2:] == [ids.text(job.id) for job in [*jobs, live]]


async def test_what_is_kept_is_told_from_the_start_to_its_end(engine: Engine):
    await engine.submit([a_job()])
    await engine.prune(Retention(outbox=0), limit=1_000)
    await tenants.create(engine, Tenant(name="rival"))
    jobs = [a_job(tenant=tenant) for tenant in ("acme", "rival", "acme")]
    await engine.submit(jobs)
    await engine.change("cancel", [jobs[0].id], reason="no")
    path = "/v1/events?from_start=true&follow=false"
    async with served(engine) as address:
        async with reading(address, path) as reader:
            names = await reader.rest()
        async with reading(address, path, after=reader.last) as over:
            nothing = over.answer.status_code
        async with reading(address, f"{path}&job_id={ids.text(jobs[0].id)}") as narrow:
            of_job = await narrow.rest()
        async with reading(address, path, **{"Longshore-Tenant": "rival"}) as theirs:
            of_tenant = await theirs.rest()
        async with reading(address, "/v1/events?follow=false") as none:
            no_place = none.answer.status_code

    submitted = ["job.submitted"]
    assert names == [*submitted * 3, "job.cancelled"]
    assert of_job == [*submitted, "job.cancelled"]
    assert of_tenant == submitted
    assert nothing == no_place == 204


async def test_what_is_kept_is_told_before_what_happens(engine: Engine):
    await engine.submit([first := a_job()])
    path = "/v1/events?from_start=true"
    async with served(engine) as address, reading(address, path) as reader:
        told = [await reader.next()]
        await engine.submit([second := a_job()])
        told.append(await reader.next())

    assert [one["job_id"] for one in told if one] == [ids.text(first.id), ids.text(second.id)]


async def test_what_was_pruned_cannot_be_gone_on_from(engine: Engine):
    await engine.submit([a_job()])
    await engine.submit([a_job()])
    first = (await engine.span()).first
    await asyncio.sleep(0.01)
    await engine.prune(Retention(outbox=1), limit=1_000)
    await engine.submit([a_job()])

    async with asking(Application(Service(engine))) as client:
        codes = [
            (await client.get("/v1/events", headers={"Last-Event-ID": place})).status_code
            for place in (f"{first}.0", "999999", "x", "1.")
        ]

    assert codes == [410, 410, 422, 422]


async def test_another_tenants_job_is_as_if_it_were_not_there(memory: Engine):
    await tenants.create(memory, Tenant(name="rival"))
    await memory.submit([job := a_job(tenant="acme")])
    headers = {"Longshore-Tenant": "rival"}
    async with asking(Application(Service(memory))) as client:
        theirs = await client.get(f"/v1/jobs/{ids.text(job.id)}/stream", headers=headers)
        nobodys = await client.get(f"/v1/jobs/{UNKNOWN}/stream", headers=headers)
    async with (
        served(memory) as address,
        reading(address, "/v1/events", **headers) as reader,
    ):
        await memory.submit([a_job(tenant="acme"), own := a_job(tenant="rival")])
        heard = await reader.next()

    assert theirs.status_code == nobodys.status_code == 404
    assert theirs.content == nobodys.content
    assert shown(theirs) == shown(nobodys)
    assert heard is not None
    assert heard["job_id"] == ids.text(own.id)


async def test_there_is_room_for_so_many_and_no_more(memory: Engine):
    for name in ("acme", "other"):
        await tenants.create(memory, Tenant(name=name))
    acme, other = {"Longshore-Tenant": "acme"}, {"Longshore-Tenant": "other"}
    async with served(memory, max_streams=3, max_tenant_streams=2) as address:
        async with (
            reading(address, "/v1/events", **acme),
            reading(address, "/v1/events", **acme),
        ):
            async with reading(address, "/v1/events", **acme) as third:
                own = third.answer.status_code
            async with (
                reading(address, "/v1/events", **other),
                reading(address, "/v1/events", **other) as fourth,
            ):
                every = fourth.answer.status_code, fourth.answer.headers["retry-after"]

        async def is_free() -> bool:
            async with reading(address, "/v1/events", **acme) as one:
                return one.answer.status_code == 200

        await eventually(is_free)

    assert own == 429
    assert every == (503, "5")


async def test_a_service_that_leaves_lets_its_readers_go(memory: Engine):
    settings = ApiSettings(port=0)
    server = ApiServer(Service(memory, settings), is_local=True)
    listening = listen(settings)
    ready = asyncio.Event()
    task = asyncio.create_task(server.run(listening, on_ready=ready.set))
    await ready.wait()

    async with reading(listening.getsockname(), "/v1/events") as reader:
        await memory.submit([a_job()])
        await reader.next()
        server.drain()
        rest = await reader.rest()

    await asyncio.wait_for(task, 20)
    assert rest == []
    assert reader.last


async def test_a_stream_ends_in_time_and_goes_on_elsewhere(memory: Engine):
    async with (
        served(memory, stream_timeout=timedelta(seconds=0.2)) as address,
        reading(address, "/v1/events") as reader,
    ):
        assert await reader.rest() == []
    assert reader.last


async def test_clients_that_vanish_leave_no_trace(memory: Engine):
    settings = ApiSettings(port=0, max_tenant_streams=1_000)
    service = Service(memory, settings)
    server = ApiServer(service, is_local=True)
    listening = listen(settings)
    ready = asyncio.Event()
    task = asyncio.create_task(server.run(listening, on_ready=ready.set))
    await ready.wait()
    ask = b"GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n"

    for number in range(60):
        reader, writer = await asyncio.open_connection(*listening.getsockname())
        writer.write(ask)
        if number % 3:
            # A third is gone before the first byte.
            await asyncio.wait_for(reader.read(1), 20)
        if number % 2:
            raw = writer.get_extra_info("socket")
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.close()

    async def is_empty() -> bool:
        return service.hub.count == 0

    await eventually(is_empty, within=30)
    server.drain()
    await asyncio.wait_for(task, 20)


async def test_who_cannot_keep_up_is_let_go_and_comes_back(
    memory: Engine, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(hub, "_MOST_WAITING", 10)
    first = a_job()
    async with served(memory) as address:
        async with reading(address, "/v1/events") as reader:
            await memory.submit([first])
            assert await reader.next() is not None
            # More in one commit than waits for anyone.
            await memory.submit(jobs := [a_job() for _ in range(50)])
            names, place = await reader.rest(), reader.last
        async with reading(address, "/v1/events", after=place) as again:
            missed = [await again.next() for _ in range(50 - len(names))]

    assert len(names) < 50
    told = {one["job_id"] for one in missed if one}
    assert len(told) == 50 - len(names)
    assert told <= {ids.text(job.id) for job in jobs}


async def test_who_joins_while_a_batch_is_told_hears_each_event_once(
    memory: Engine, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(hub, "_SLICE_S", 0.0)
    reader = hub.Hub(memory)
    early, late, last = [await reader.listen("x", Wish(tenant="default")) for _ in range(3)]
    early.join()
    missing = late.missed(Cursor(0))
    nothing = await anext(missing)
    await memory.submit([a_job() for _ in range(300)])

    heard = [await early.news(20)]
    last.join()
    missed = [one async for part in missing for one in part]
    await memory.submit([a_job()])
    for one in (early, late, last):
        heard.append(await heard_up_to(one, (await memory.span()).last))
    for one in (early, late, last):
        one.close()

    first, rest, joined, only = heard
    assert (nothing, 0 < len(first) < 300) == ([], True)
    batch = [one.cursor for one in missed]
    assert len(set(batch)) == len(batch) == 300
    assert [one.cursor for one in [*first, *rest]] == [*batch, only[0].cursor]
    assert [one.cursor for one in joined] == [one.cursor for one in only]
    assert len(only) == 1


async def heard_up_to(listener: hub.Listener, position: int) -> list[Told]:
    found: list[Told] = []
    while not found or found[-1].cursor.position < position:
        found += await listener.news(20)
    return found
