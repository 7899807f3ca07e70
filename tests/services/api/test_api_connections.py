"""Real connections: clients that are slow, silent, large or not HTTP at all, and proxies."""

import asyncio
import socket
from datetime import timedelta

import httpx
import pytest
from api_steps import asking, exchange, served

from longshore.api.application import Application
from longshore.api.context import Service
from longshore.api.http_server import is_loopback, listen, refuse_keyless
from longshore.api.proxies import Proxies
from longshore.api.settings import ApiSettings
from longshore.contract import Engine
from longshore.core.account import NewKey, Scope
from longshore.errors import ConfigError
from longshore.records import api_keys
from longshore.runtime.keys import mint

HEAD = b"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
SHORT = timedelta(milliseconds=200)


async def test_slow_clients_are_given_up_while_others_are_served(memory: Engine):
    options = {"header_timeout": SHORT, "body_timeout": SHORT, "idle_timeout": SHORT}
    async with served(memory, **options) as address:
        asked = [
            exchange(address, b""),
            exchange(address, b"GET /healthz HT"),
            exchange(address, HEAD),
            exchange(address, HEAD + b"Content-Length: 10\r\n\r\n{"),
            exchange(address, HEAD + b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n"),
            exchange(address, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"),
        ]
        answers = [status for status, _ in await asyncio.gather(*asked)]

    assert answers == [0, 408, 408, 408, 408, 200]


@pytest.mark.parametrize(
    "raw",
    [
        b"\r\n\r\n\r\nnonsense\r\n\r\n",
        b"GET\r\n\r\n",
        bytes(range(1, 256)) + b"\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET / HTTP/1.1\r\nContent-Length: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"GET / HTTP/1.1\r\nbad header\r\n\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    ],
)
async def test_what_is_not_http_is_answered_in_the_same_form(memory: Engine, raw: bytes):
    async with served(memory, header_timeout=SHORT) as address:
        status, said = await exchange(address, raw)

    assert status == 400
    assert b"application/problem+json" in said
    assert said.count(b"HTTP/1.1") == 1


@pytest.mark.parametrize("is_whole", [True, False])
async def test_a_head_that_is_too_large_is_refused(memory: Engine, is_whole: bool):
    raw = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: " + b"y" * 20_000
    async with served(memory) as address:
        status, said = await exchange(address, raw + b"\r\n\r\n" * is_whole)

    assert status == 431
    assert b"headers_too_large" in said


async def test_a_body_may_come_in_pieces_and_requests_one_after_the_other(memory: Engine):
    first = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
    pieces = [b"%x\r\n%s\r\n" % (len(one), one) for one in (b'{"type"', b':"a"', b"}")]
    last = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    async with served(memory) as address:
        _, said = await exchange(address, first + b"".join(pieces) + b"0\r\n\r\n" + last)

    assert (said.count(b"201 Created"), said.count(b"200 OK")) == (1, 1)


async def test_a_client_that_goes_away_leaves_nothing_behind(memory: Engine):
    async with served(memory) as address:
        for raw in (HEAD + b"Content-Length: 99\r\n\r\n{", HEAD, b""):
            _, writer = await asyncio.open_connection(*address)
            writer.write(raw)
            await writer.drain()
            writer.close()
        status, _ = await exchange(
            address, b"GET /v1/jobs HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        )

    assert status == 200


async def test_a_client_that_has_said_all_still_gets_its_answer(memory: Engine):
    body = b'{"type":"a"}'
    async with served(memory) as address:
        reader, writer = await asyncio.open_connection(*address)
        writer.write(HEAD + b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        writer.write_eof()
        said = await asyncio.wait_for(reader.read(), 20)
        writer.close()

    assert b"201 Created" in said


async def test_an_upgrade_is_not_offered(memory: Engine):
    raw = (
        b"GET /v1/jobs HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade, close\r\n"
        b"Upgrade: websocket\r\nSec-WebSocket-Key: x\r\nSec-WebSocket-Version: 13\r\n\r\n"
    )
    async with served(memory) as address:
        status, _ = await exchange(address, raw)

    assert status < 500


def test_a_proxy_is_believed_only_as_far_as_it_is_trusted():
    proxies = Proxies(["10.0.0.0/8", "::1"])

    assert proxies.client("10.0.0.1", b"192.0.2.7") == "192.0.2.7"
    assert proxies.client("10.0.0.1", b"1.1.1.1, 192.0.2.7, 10.9.9.9") == "192.0.2.7"
    assert proxies.client("192.0.2.7", b"1.1.1.1") == "192.0.2.7"
    assert proxies.client("10.0.0.1", b"nonsense") == "10.0.0.1"
    assert proxies.client("10.0.0.1", b"") == "10.0.0.1"
    assert proxies.client("10.0.0.1", None) == "10.0.0.1"
    assert Proxies([]).client("10.0.0.1", b"1.1.1.1") == "10.0.0.1"
    with pytest.raises(ConfigError, match="trusted_proxies"):
        Proxies(["nonsense"])


async def test_pages_of_an_origin_that_is_allowed_may_ask_and_others_may_not(memory: Engine):
    settings = ApiSettings(cors_origins=("https://ops.example",))
    asked = {"Access-Control-Request-Method": "POST"}
    async with asking(Application(Service(memory, settings))) as client:
        allowed = await client.options(
            "/v1/jobs", headers={"Origin": "https://ops.example", **asked}
        )
        answer = await client.get("/v1/jobs", headers={"Origin": "https://ops.example"})
        other = await client.options(
            "/v1/jobs", headers={"Origin": "https://x.example", **asked}
        )
        refused = await client.get("/v1/jobs", headers={"Origin": "https://x.example"})

    assert allowed.status_code == 204
    assert "POST" in allowed.headers["access-control-allow-methods"]
    assert answer.headers["access-control-allow-origin"] == "https://ops.example"
    assert (answer.status_code, other.status_code, refused.status_code) == (200, 405, 403)
    assert "access-control-allow-origin" not in refused.headers


@pytest.mark.parametrize(
    ("host", "is_local"),
    [("127.0.0.1", True), ("::1", True), ("localhost", True), ("0.0.0.0", False),
     ("192.0.2.1", False), ("example.com", False), ("127.0.0.2", True)],
)  # fmt: skip
def test_only_this_machine_reaches_a_loopback_address(host: str, is_local: bool):
    assert is_loopback(host) is is_local


async def test_no_address_that_others_reach_is_served_without_keys(memory: Engine):
    with pytest.raises(ConfigError, match="no API key"):
        await refuse_keyless(memory, "0.0.0.0")
    minted = mint()
    await api_keys.add(memory, NewKey(id=minted.id, digest=minted.digest, scopes=(Scope.READ,)))

    await refuse_keyless(memory, "0.0.0.0")


def test_an_address_that_cannot_be_had_is_said():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        with pytest.raises(ConfigError, match="cannot listen"):
            listen(ApiSettings(port=port))


async def test_who_connected_just_before_the_stop_is_still_answered(memory: Engine):
    async with served(memory) as address:
        reader, writer = await asyncio.open_connection(*address)
        async with httpx.AsyncClient() as client:
            # By then the other connection has surely been accepted.
            await client.get(f"http://localhost:{address[1]}/healthz")
        late = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
        leaving = asyncio.get_running_loop().call_later(0.3, writer.write, late)

    said = await reader.read()
    assert leaving.when() > 0
    assert b"200 OK" in said
    assert b"connection: close" in said
    writer.close()


async def test_requests_under_way_are_answered_before_the_service_stops(memory: Engine):
    async with served(memory) as address:
        reader, writer = await asyncio.open_connection(*address)
        writer.write(HEAD + b"Content-Length: 12\r\n\r\n")
        await writer.drain()
        async with httpx.AsyncClient() as client:
            # By then the other request has surely been read.
            await client.get(f"http://localhost:{address[1]}/healthz")
        leaving = asyncio.get_running_loop().call_later(0.2, writer.write, b'{"type":"a"}')

    said = await reader.read()
    assert leaving.when() > 0
    assert b"201 Created" in said
    assert b"connection: close" in said
    writer.close()


async def test_a_service_for_workers_serves_sessions_and_no_jobs(memory: Engine):
    async with (
        served(memory, only="sessions") as (host, port),
        httpx.AsyncClient(base_url=f"http://{host}:{port}") as client,
    ):
        offer = {"worker": "w", "queues": ["default"], "types": ["noop"]}
        opened = await client.post("/v1/sessions", json=offer)
        ready = await client.get("/readyz")
        jobs = await client.post("/v1/jobs", json={"type": "noop"})
        document = await client.get("/openapi.json")

    assert (opened.status_code, ready.status_code) == (201, 200)
    assert (jobs.status_code, jobs.json()["code"]) == (404, "route_not_found")
    assert "/v1/jobs" not in document.json()["paths"]


def test_a_part_that_there_is_not_is_refused_before_anything_listens():
    with pytest.raises(ConfigError, match="sessions"):
        listen(ApiSettings(port=0, only="jobs"))
