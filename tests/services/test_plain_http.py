"""An API key over plain HTTP: never to a public address unless somebody said so."""

import logging
import socket
from collections.abc import Callable

import httpx
import pytest

from longshore.client import Client, SyncClient
from longshore.client.connection import ServiceConnection
from longshore.engines import open_store
from longshore.errors import ConfigError, EngineUnavailableError
from longshore.settings import load
from longshore.wire import plain_http
from longshore.wire.address import keyed
from longshore.wire.plain_http import Reach, reach_of

PUBLIC = "93.184.216.34"
PRIVATE = "10.1.2.3"


class Wire:
    """What would have gone over the network."""

    def __init__(self) -> None:
        self.keys: list[str | None] = []
        self.transport = httpx.MockTransport(self._take)

    def _take(self, request: httpx.Request) -> httpx.Response:
        self.keys.append(request.headers.get("authorization"))
        return httpx.Response(200, json={"queues": [], "cursor": None})


async def by_client(url: str, key: str | None, is_allowed: bool, wire: Wire) -> None:
    async with Client(
        url, key=key, plain_http=is_allowed, transport=wire.transport, timeout=2
    ) as it:
        await it.queues()


async def by_sync_client(url: str, key: str | None, is_allowed: bool, wire: Wire) -> None:
    with SyncClient(
        url, key=key, plain_http=is_allowed, transport=wire.transport, timeout=2
    ) as it:
        it.queues()


async def by_engine(url: str, key: str | None, is_allowed: bool, wire: Wire) -> None:
    line = ServiceConnection(
        url, key=key or "", plain_http=is_allowed, transport=wire.transport
    )
    await line.call("GET", "/v1/queues", seconds=2)
    await line.close()


WAYS = pytest.mark.parametrize("ask", [by_client, by_sync_client, by_engine])


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Lets every name stand for these addresses."""

    def stand_for(*addresses: str) -> None:
        def look_up(host: object, port: int, *_: object, **__: object) -> list[object]:
            if not addresses:
                raise socket.gaierror(8, "unknown name")
            return [(0, 0, 0, "", (one, port)) for one in addresses]

        monkeypatch.setattr(socket, "getaddrinfo", look_up)

    return stand_for


@WAYS
@pytest.mark.parametrize("host", [PUBLIC, "[2606:4700::1]", "jobs.example.com"])
async def test_a_key_is_not_sent_to_a_public_address_in_the_clear(
    ask: Callable[..., object], host: str, names: Callable[..., None]
):
    names(PRIVATE, PUBLIC)
    wire = Wire()

    with pytest.raises(ConfigError, match="LONGSHORE_PLAIN_HTTP"):
        await ask(f"http://{host}:8080", "ls_secret", False, wire)

    assert wire.keys == []


@WAYS
async def test_a_key_is_sent_where_it_is_allowed_or_encrypted_or_there_is_none(
    ask: Callable[..., object],
):
    wire = Wire()

    await ask(f"http://{PUBLIC}", "ls_secret", True, wire)
    await ask(f"https://{PUBLIC}", "ls_secret", False, wire)
    await ask(f"http://{PUBLIC}", None, False, wire)

    assert wire.keys == ["Bearer ls_secret", "Bearer ls_secret", None]


@WAYS
async def test_a_private_address_is_warned_of_once_and_this_machine_is_not(
    ask: Callable[..., object],
    names: Callable[..., None],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(plain_http, "_warned", set[str]())
    names(PRIVATE)
    wire = Wire()

    with caplog.at_level(logging.WARNING, "longshore.client"):
        for host in ("localhost", "127.0.0.1", "[::1]", "jobs", "jobs", PRIVATE, PRIVATE):
            await ask(f"http://{host}", "ls_secret", False, wire)

    assert wire.keys == ["Bearer ls_secret"] * 7
    hosts = [vars(one)["host"] for one in caplog.records if one.name == "longshore.client"]
    assert hosts == ["jobs", PRIVATE]


@WAYS
async def test_a_name_that_stands_for_nothing_gets_no_key(
    ask: Callable[..., object], names: Callable[..., None]
):
    names()
    wire = Wire()

    with pytest.raises(EngineUnavailableError):
        await ask("http://jobs.example.com", "ls_secret", False, wire)

    assert wire.keys == []


@pytest.mark.parametrize(
    ("address", "reach"),
    [
        ("127.9.9.9", Reach.LOOPBACK),
        ("::1", Reach.LOOPBACK),
        ("::ffff:127.0.0.1", Reach.LOOPBACK),
        ("192.168.1.1", Reach.PRIVATE),
        ("100.64.0.1", Reach.PRIVATE),
        ("169.254.1.1", Reach.PRIVATE),
        ("fe80::1%eth0", Reach.PRIVATE),
        ("fd00::1", Reach.PRIVATE),
        ("8.8.8.8", Reach.PUBLIC),
        ("::ffff:8.8.8.8", Reach.PUBLIC),
        ("2606:4700::1", Reach.PUBLIC),
    ],
)
def test_how_far_away_an_address_is(address: str, reach: Reach):
    assert reach_of(address) is reach


async def test_settings_and_urls_can_allow_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("LONGSHORE_PLAIN_HTTP", "true")

    url = keyed(f"http://{PUBLIC}", "ls_secret", plain_http=load().plain_http)

    assert url == f"http://ls_secret@{PUBLIC}?plain_http=on"
    assert open_store(url).url == f"http://{PUBLIC}"
    with pytest.raises(ConfigError):
        open_store(f"http://{PUBLIC}?plain_http=maybe")
