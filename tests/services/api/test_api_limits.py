"""How much one process of the service takes at once: bytes of bodies and connections."""

import asyncio
import gc
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from time import thread_time
from typing import Any

import httpx
import pytest
from api_steps import asking, exchange, served

from longshore.api.application import Application
from longshore.api.context import Service
from longshore.api.settings import RESERVED, ApiSettings
from longshore.contract import Engine, JobFilter, Page
from longshore.core.account import NewKey, Scope, Tenant
from longshore.records import api_keys, schedules, tenants
from longshore.runtime.keys import MintedKey, mint
from longshore.streaming.events import Wish
from longshore.testing.factories import a_job, a_schedule
from longshore.testing.harness import eventually

HEAD = b"POST /v1/jobs:batch HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
LAST = b"Connection: close\r\n"
KIB = 1 << 10
ROOM = {"max_inflight_bytes": 250 * KIB, "max_tenant_inflight_bytes": 120 * KIB}
BUDGET = {"max_inflight_bytes": 100 * KIB, "max_tenant_inflight_bytes": 60 * KIB}

Address = tuple[str, int]


def batch(size: int, *headers: bytes) -> bytes:
    """A whole request whose body has about so many bytes."""
    body = json.dumps({"jobs": [{"type": "a", "payload": {"x": "x" * size}}]}).encode()
    length = b"Content-Length: %d\r\n" % len(body)
    return HEAD + b"".join(headers) + LAST + length + b"\r\n" + body


@asynccontextmanager
async def unfinished(address: Address, head: bytes, body: bytes) -> AsyncIterator[None]:
    """A request of which this much has been sent, and no more comes."""
    _, writer = await asyncio.open_connection(*address)
    try:
        writer.write(head + b"\r\n" + body)
        await writer.drain()
        yield
    finally:
        writer.close()


def is_refused(status: int, said: bytes) -> bool:
    return status == 503 and b'"code":"body_budget"' in said and b"retry-after: " in said


async def refused(address: Address, raw: bytes) -> None:
    async def is_so() -> bool:
        return is_refused(*await exchange(address, raw))

    await eventually(is_so, within=20)


async def accepted(address: Address, raw: bytes) -> None:
    async def is_so() -> bool:
        return (await exchange(address, raw))[0] == 200

    await eventually(is_so, within=20)


@pytest.mark.parametrize("form", ["length", "chunked"])
async def test_bodies_that_are_not_finished_take_a_bounded_number_of_bytes(
    memory: Engine, form: str
):
    head, body = HEAD + b"Content-Length: %d\r\n" % (50 * KIB), b"{"
    if form == "chunked":
        head, body = HEAD + b"Transfer-Encoding: chunked\r\n", b"c800\r\n" + b"x" * 50 * KIB
    async with served(memory, **BUDGET) as address:
        async with unfinished(address, head, body):
            await refused(address, batch(20 * KIB))
            alive = await exchange(address, b"GET /healthz HTTP/1.1\r\n" + LAST + b"\r\n")
        await accepted(address, batch(20 * KIB))

    assert alive[0] == 200


async def test_a_body_without_a_length_is_refused_as_soon_as_it_exceeds_the_budget(
    memory: Engine,
):
    head = HEAD + b"Content-Length: %d\r\n" % (50 * KIB)
    chunked = HEAD + LAST + b"Transfer-Encoding: chunked\r\n\r\n"
    async with served(memory, **BUDGET) as address, unfinished(address, head, b"{"):
        await refused(address, batch(20 * KIB))
        # Its end never comes: only a check while it arrives can answer.
        await refused(address, chunked + b"c800\r\n" + b"x" * 50 * KIB)


async def test_a_request_that_was_answered_gives_its_bytes_back(memory: Engine):
    async with served(memory, **BUDGET) as address:
        good = [(await exchange(address, batch(50 * KIB)))[0] for _ in range(5)]
        bad = HEAD + LAST + b"Content-Length: %d\r\n\r\n" % (50 * KIB) + b"x" * 50 * KIB
        malformed = [(await exchange(address, bad))[0] for _ in range(5)]
        last = await exchange(address, batch(50 * KIB))

    assert (good, malformed, last[0]) == ([200] * 5, [422] * 5, 200)


async def test_a_body_that_does_not_arrive_in_time_gives_its_bytes_back(memory: Engine):
    head = HEAD + b"Content-Length: %d\r\n" % (50 * KIB)
    timeout = timedelta(seconds=3)
    async with (
        served(memory, body_timeout=timeout, **BUDGET) as address,
        unfinished(address, head, b"{"),
    ):
        await refused(address, batch(20 * KIB))
        await accepted(address, batch(20 * KIB))


async def test_a_body_larger_than_the_budget_is_taken_when_it_is_the_only_one(memory: Engine):
    options = {"max_inflight_bytes": 10 * KIB, "max_tenant_inflight_bytes": 10 * KIB}
    async with served(memory, **options) as address:
        status, _ = await exchange(address, batch(50 * KIB))

    assert status == 200


async def test_the_bodies_of_one_tenant_leave_room_for_those_of_others(memory: Engine):
    bearers: dict[str, bytes] = {}
    for name in ("acme", "globex"):
        minted = mint()
        await tenants.create(memory, Tenant(name=name))
        await api_keys.add(
            memory,
            NewKey(id=minted.id, digest=minted.digest, tenant=name, scopes=(Scope.SUBMIT,)),
        )
        bearers[name] = b"Authorization: Bearer %s\r\n" % minted.text.encode()
    head = HEAD + bearers["acme"] + b"Content-Length: %d\r\n" % (25 * KIB)
    async with served(memory, **BUDGET) as address, AsyncExitStack() as stack:
        for _ in range(2):
            await stack.enter_async_context(unfinished(address, head, b"{"))
        await refused(address, batch(20 * KIB, bearers["acme"]))
        other = await exchange(address, batch(20 * KIB, bearers["globex"]))
        whole = HEAD + bearers["globex"] + b"Content-Length: %d\r\n" % (40 * KIB)
        await stack.enter_async_context(unfinished(address, whole, b"{"))
        await refused(address, batch(15 * KIB, bearers["globex"]))

    assert other[0] == 200


class Reader:
    """Whoever asks for `path` and reads the answer piece by piece, when it is told to."""

    def __init__(self, path: str, key: MintedKey) -> None:
        self.scope: dict[str, Any] = {
            "type": "http",
            "method": "GET",
            "raw_path": path.encode(),
            "query_string": b"",
            "headers": [(b"authorization", b"Bearer " + key.text.encode())],
        }
        self.pieces: list[bytes] = []
        self.is_sent_to = asyncio.Event()
        self.reads = asyncio.Event()

    async def receive(self) -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(self, message: Any) -> None:
        if message["type"] == "http.response.body":
            self.is_sent_to.set()
            await self.reads.wait()
            self.pieces.append(message["body"])


async def test_answers_that_are_not_read_take_a_bounded_number_of_bytes(memory: Engine):
    keys: dict[str, MintedKey] = {}
    for name in ("acme", "globex"):
        keys[name] = minted = mint()
        await tenants.create(memory, Tenant(name=name))
        await api_keys.add(
            memory,
            NewKey(id=minted.id, digest=minted.digest, tenant=name, scopes=(Scope.READ,)),
        )
        large = b'{"x":"%s"}' % (b"x" * 90 * KIB)
        await memory.submit([a_job(tenant=name, payload=large)])
    app = Application(Service(memory, ApiSettings(**ROOM)), is_local=False)
    slow = Reader("/v1/jobs", keys["acme"])

    async def asked(name: str, path: str) -> httpx.Response:
        headers = {"Authorization": f"Bearer {keys[name].text}"}
        return await client.get(path, headers=headers)

    async with asking(app) as client:
        reading = asyncio.create_task(app(slow.scope, slow.receive, slow.send))
        await slow.is_sent_to.wait()
        refused = await asked("acme", "/v1/jobs")
        small = await asked("acme", "/v1/schedules")
        other = await asked("globex", "/v1/jobs")
        slow.reads.set()
        await reading
        later = await asked("acme", "/v1/jobs")

    assert (refused.status_code, refused.json()["code"]) == (503, "overloaded")
    assert refused.headers["retry-after"] == "1"
    assert [one.status_code for one in (small, other, later)] == [200] * 3
    assert len(json.loads(b"".join(slow.pieces))["jobs"]) == 1
    assert max(map(len, slow.pieces)) <= 64 * KIB


async def test_few_pages_of_jobs_are_read_at_once_and_fewer_of_one_tenant(
    memory: Engine, monkeypatch: pytest.MonkeyPatch
):
    keys: list[MintedKey] = []
    for name in "abcde":
        await tenants.create(memory, Tenant(name=name))
        keys.append(minted := mint())
        await api_keys.add(
            memory,
            NewKey(id=minted.id, digest=minted.digest, tenant=name, scopes=(Scope.READ,)),
        )
    find, reading = memory.find, list[str | None]()
    seen: list[int] = []
    own: list[int] = []

    async def counted(which: JobFilter, **options: Any) -> Page:
        reading.append(which.tenant)
        seen.append(len(reading))
        own.append(reading.count(which.tenant))
        for _ in range(10):
            await asyncio.sleep(0)
        try:
            return await find(which, **options)
        finally:
            reading.remove(which.tenant)

    monkeypatch.setattr(memory, "find", counted)
    async with asking(Application(Service(memory), is_local=False)) as client:
        answers = await asyncio.gather(
            *(
                client.get(path, headers={"Authorization": f"Bearer {key.text}"})
                for path in ("/v1/jobs", "/v1/dead")
                for key in keys
                for _ in range(4)
            )
        )

    assert {one.status_code for one in answers} == {200}
    assert (max(own), max(seen)) == (2, 8)


async def test_a_page_reads_few_large_jobs_behind_small_ones(
    memory: Engine, monkeypatch: pytest.MonkeyPatch
):
    large = b'{"x":"%s"}' % (b"x" * 900 * KIB)
    await memory.submit([a_job(payload=large) for _ in range(40)])
    await memory.submit([a_job() for _ in range(40)])
    find, read = memory.find, list[int]()

    async def counted(which: JobFilter, **options: Any) -> Page:
        page = await find(which, **options)
        read.append(sum(len(one.payload) for one in page.jobs))
        return page

    monkeypatch.setattr(memory, "find", counted)
    async with asking(Application(Service(memory))) as client:
        answer = await client.get("/v1/jobs?limit=200")

    assert len(answer.json()["jobs"]) == 44
    assert max(read) <= 32 << 20


async def test_a_client_that_is_refused_while_it_sends_can_go_on_with_its_connection(
    memory: Engine,
):
    head = HEAD + b"Content-Length: %d\r\n" % (50 * KIB)
    again = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n" + LAST + b"\r\n"
    async with served(memory, **BUDGET) as address, unfinished(address, head, b"{"):
        await refused(address, batch(20 * KIB))
        reader, writer = await asyncio.open_connection(*address)
        size = 500 * KIB
        writer.write(HEAD + b"Content-Length: %d\r\n\r\n" % size)
        said = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 20)
        writer.write(b"x" * size + again)
        rest = await asyncio.wait_for(reader.read(), 20)
        writer.close()

    assert b"503 Service Unavailable" in said
    assert b"body_budget" in rest
    assert b"200 OK" in rest
    assert b"431" not in rest


HEALTH = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
JOBS = b"GET /v1/jobs HTTP/1.1\r\nHost: localhost\r\n" + LAST + b"\r\n"


@asynccontextmanager
async def kept_open(
    address: Address, raw: bytes, until: bytes = b"\r\n\r\n"
) -> AsyncIterator[None]:
    """A connection that stays open after the answer to these bytes has begun."""
    reader, writer = await asyncio.open_connection(*address)
    try:
        writer.write(raw)
        if until:
            await asyncio.wait_for(reader.readuntil(until), 20)
        yield
    finally:
        writer.close()


async def test_connections_beyond_the_cap_are_answered_503_and_the_health_routes_200(
    memory: Engine,
):
    stream = b"GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n"
    half = HEAD + b"Content-Length: 10\r\n"
    async with served(memory, max_connections=3) as address, AsyncExitStack() as stack:
        await stack.enter_async_context(kept_open(address, HEALTH + b"\r\n"))
        await stack.enter_async_context(kept_open(address, stream, b"\n\n"))
        async with unfinished(address, half, b"{"):
            await eventually(lambda: is_full(address), within=20)
            status, said = await exchange(address, JOBS)
            routes = [b"/healthz", b"/health", b"/readyz"]
            healthy = [
                await exchange(address, HEALTH.replace(b"/healthz", one) + b"\r\n")
                for one in routes
            ]
        await eventually(lambda: is_served(address), within=20)

    assert status == 503
    assert b'"code":"overloaded"' in said
    assert b"retry-after: " in said
    assert b"connection: close" in said
    # These connections are closed too, although the client did not ask for that.
    assert [one[0] for one in healthy] == [200] * 3


async def is_full(address: Address) -> bool:
    return (await exchange(address, JOBS))[0] == 503


async def is_served(address: Address) -> bool:
    return (await exchange(address, JOBS))[0] == 200


async def test_the_places_for_health_checks_cannot_be_kept_by_connections_that_say_nothing(
    memory: Engine,
):
    async with served(memory, max_connections=1) as address, AsyncExitStack() as stack:
        await stack.enter_async_context(kept_open(address, HEALTH + b"\r\n"))
        for _ in range(RESERVED):
            await stack.enter_async_context(kept_open(address, b"", b""))
        # Nothing was asked, and the answer is there.
        await eventually(lambda: is_closed_at_once(address), within=20)
        await eventually(lambda: is_healthy(address), within=20)


async def is_closed_at_once(address: Address) -> bool:
    reader, writer = await asyncio.open_connection(*address)
    try:
        async with asyncio.timeout(0.5):
            return b"overloaded" in await reader.read()
    except TimeoutError:
        return False
    finally:
        writer.close()


async def is_healthy(address: Address) -> bool:
    try:
        return (await exchange(address, HEALTH + b"\r\n"))[0] == 200
    except ConnectionError:
        return False


async def test_a_full_service_still_answers_the_health_routes(memory: Engine):
    half = HEAD + b"Content-Length: 10\r\n"
    async with (
        served(memory, max_requests=1) as address,
        unfinished(address, half, b"{"),
    ):
        await eventually(lambda: is_full(address), within=20)
        status, _ = await exchange(address, HEALTH + LAST + b"\r\n")

    assert status == 200


@asynccontextmanager
async def longest_stall() -> AsyncIterator[list[float]]:
    """The processor time that the loop's thread took in the block, and the most at a stretch.

    Unlike the time on the wall it does not depend on what else the machine does.
    """
    measured: list[float] = []
    worst = 0.0

    async def watch() -> None:
        nonlocal worst
        before = thread_time()
        while True:
            await asyncio.sleep(0.001)
            worst, before = max(worst, thread_time() - before), thread_time()

    # A collection walks all that a thousand tests before this one have left, at one stretch.
    gc.collect()
    gc.disable()
    watching = asyncio.create_task(watch())
    await asyncio.sleep(0)
    began = thread_time()
    try:
        yield measured
        await asyncio.sleep(0.002)
        measured.extend((thread_time() - began, worst))
    finally:
        gc.enable()
        watching.cancel()


async def test_a_request_with_many_jobs_does_not_hold_up_the_others(memory: Engine):
    settings = ApiSettings(max_batch_jobs=100_000)
    # All are looked at, and none reaches the store: it has threads of its own.
    jobs: list[dict[str, object]] = [{"type": "a", "priority": 10}] * 20_000
    body = json.dumps({"jobs": jobs}).encode()
    headers = {"Content-Type": "application/json"}
    async with (
        asking(Application(Service(memory, settings))) as client,
        longest_stall() as measured,
    ):
        answer = await client.post("/v1/jobs:batch", content=body, headers=headers)

    assert answer.status_code == 200
    total, stall = measured
    assert stall < total / 2, (stall, total)


async def test_events_of_large_batches_do_not_hold_up_the_others(memory: Engine):
    for _ in range(3):
        await memory.submit([a_job() for _ in range(4_000)])
    path = "/v1/events?follow=false&from_start=true"
    async with (
        asking(Application(Service(memory))) as client,
        longest_stall() as measured,
    ):
        whole = await client.get(path)
        nothing = await client.get(f"{path}&type=none")

    assert whole.content.count(b"event: job.submitted") == 12_000
    assert nothing.status_code == 204
    total, stall = measured
    assert stall < total / 4, (stall, total)


async def test_events_told_to_many_do_not_hold_up_the_others(memory: Engine):
    hub = Service(memory).hub
    batches = [[a_job() for _ in range(4_000)] for _ in range(3)]
    listeners = [await hub.listen("someone", Wish(tenant="default")) for _ in range(20)]
    for one in listeners:
        one.join()
    async with longest_stall() as measured:
        for jobs in batches:
            await memory.submit(jobs)
        position = (await memory.span()).last
        await eventually(lambda: hub.position == position, within=20)
    for one in listeners:
        one.close()

    total, stall = measured
    assert stall < total / 4, (stall, total)


async def test_the_rate_of_many_schedules_does_not_hold_up_the_others(memory: Engine):
    await tenants.create(memory, Tenant(name="acme", rate=1.0))
    minted = mint()
    await api_keys.add(
        memory,
        NewKey(id=minted.id, digest=minted.digest, tenant="acme", scopes=(Scope.OPERATE,)),
    )
    headers = {"Authorization": f"Bearer {minted.text}"}
    for number in range(300):
        await schedules.put(
            memory,
            a_schedule(
                name=f"s{number}", tenant="acme", every=None, cron=f"{number % 60} 2 * 3 *"
            ),
        )
    body = {"name": "last", "type": "a", "cron": "0 2 * 3 *"}
    async with (
        asking(Application(Service(memory), is_local=False)) as client,
        longest_stall() as measured,
    ):
        answer = await client.post("/v1/schedules", json=body, headers=headers)

    assert answer.status_code == 201
    total, stall = measured
    assert stall < total / 2, (stall, total)
