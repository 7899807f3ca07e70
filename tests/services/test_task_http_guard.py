"""`http.call` cannot be turned inward, whatever a payload or a receiver says."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterator

import pytest
from receiver import TLS, Receiver, a_task, at, listening, replies, running

from longshore.directives import Dead, Retry
from longshore.tasks.http import HttpTask
from longshore.testing.factories import a_claim

CLAIM = a_claim(type="http.call")


@pytest.fixture(autouse=True)
def job() -> Iterator[None]:
    with running(CLAIM):
        yield


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with listening() as one:
        yield one


# Each line is a way that was once used to reach something inward. PORT is a live receiver's.
INWARD = [
    "http://127.0.0.1:PORT/",
    "http://127.0.0.1.:PORT/",
    "http://localhost:PORT/",
    "http://LOCALHOST.:PORT/",
    "http://0.0.0.0:PORT/",
    "http://0:PORT/",
    "http://127.1:PORT/",
    "http://127.0.1:PORT/",
    "http://2130706433:PORT/",
    "http://017700000001:PORT/",
    "http://0177.0.0.1:PORT/",
    "http://0177.0.0.01:PORT/",
    "http://0x7f000001:PORT/",
    "http://0x7f.0.0.1:PORT/",
    "http://0x7F.1:PORT/",
    "http://127.000.000.001:PORT/",
    "http://127\u30020\u30020\u30021:PORT/",
    "http://\uff11\uff12\uff17.\uff10.\uff10.\uff11:PORT/",
    "http://\u2460\u2461\u2466.0.0.1:PORT/",
    "http://127%2e0%2e0%2e1:PORT/",
    "http://[::1]:PORT/",
    "http://[::]:PORT/",
    "http://[::ffff:127.0.0.1]:PORT/",
    "http://[::ffff:7f00:1]:PORT/",
    "http://[0:0:0:0:0:ffff:127.0.0.1]:PORT/",
    "http://[::127.0.0.1]:PORT/",
    "http://[64:ff9b::127.0.0.1]:PORT/",
    "http://[2002:7f00:1::1]:PORT/",
    "http://[fe80::1%25eth0]:PORT/",
    "http://[fd00:ec2::254]/latest/meta-data/",
    "http://169.254.169.254/latest/meta-data/",
    "http://100.100.100.200/latest/meta-data/",
    "http://168.63.129.16/machine",
    "http://10.0.0.1/",
    "http://172.16.0.1/",
    "http://192.168.0.1/",
    "http://192.0.0.192/",
    "http://224.0.0.1/",
    "http://255.255.255.255/",
    "http://user@127.0.0.1:PORT/",
    "http://public.example@127.0.0.1:PORT/",
    "http://public.example:80@127.0.0.1:PORT/",
    "http://127.0.0.1:PORT\\@public.example/",
    "http://public.example\\@127.0.0.1:PORT/",
    "http://127.0.0.1:PORT#@public.example/",
    "http://127.0.0.1:PORT?@public.example/",
    "http://public.example @127.0.0.1:PORT/",
    "http://inward.example:PORT/",
    "http://mixed.example:PORT/",
    "http://mapped.example:PORT/",
    "https://inward.example:PORT/",
    "file:///etc/passwd",
    "ftp://127.0.0.1:PORT/",
    "gopher://127.0.0.1:PORT/_GET",
    "unix:///run/docker.sock",
    "//127.0.0.1:PORT/",
    "http:127.0.0.1:PORT",
    "http:///127.0.0.1:PORT/",
    "http://127.0.0.1:PORT/\r\nHost: public.example",
    "http://[::1:PORT/",
    "http://127.0.0.1:99999/",
    "",
]
NAMES = {
    "localhost": ["127.0.0.1", "::1"],
    "localhost.": ["127.0.0.1"],
    "inward.example": ["127.0.0.1"],
    "mixed.example": ["93.184.215.14", "127.0.0.1"],
    "mapped.example": ["::ffff:127.0.0.1"],
    "public.example": ["93.184.215.14"],
}


@pytest.mark.parametrize("template", INWARD)
async def test_a_url_that_leads_inward_ends_the_job_dead(receiver: Receiver, template: str):
    async def resolve(host: str, port: int) -> list[str]:
        # Names that are really numbers would be read as addresses by a machine's resolver.
        return NAMES.get(host, ["127.0.0.1"])

    task = HttpTask(resolve=resolve)

    with pytest.raises(Dead):
        await task.call("GET", template.replace("PORT", str(receiver.port)))

    assert receiver.connections == 0


def test_at_least_forty_ways_inward_are_tried():
    assert len(set(INWARD)) >= 40


async def test_the_connection_goes_to_the_address_that_was_checked(receiver: Receiver):
    answers = iter([["127.0.0.1"], ["10.0.0.1"]])

    async def rebinding(host: str, port: int) -> list[str]:
        return next(answers)

    task = a_task(resolve=rebinding)
    await task.call("GET", f"http://rebind.example:{receiver.port}/")

    assert receiver.requests[0].headers["host"] == f"rebind.example:{receiver.port}"
    assert next(answers) == ["10.0.0.1"], "the name was resolved a second time"


async def test_the_payload_cannot_reach_what_only_the_worker_may_allow(receiver: Receiver):
    with pytest.raises(Dead):
        await HttpTask().call("GET", receiver.url)
    with pytest.raises(TypeError):
        await HttpTask().call("GET", receiver.url, allowed_networks=["127.0.0.0/8"])  # type: ignore[call-arg]

    assert receiver.connections == 0


async def test_a_redirect_is_not_followed_unless_asked(receiver: Receiver):
    receiver.answer = replies(302, location="/elsewhere")

    with pytest.raises(Dead, match="answered 302"):
        await a_task().call("GET", receiver.url)

    assert len(receiver.requests) == 1


async def test_a_redirect_that_was_asked_for_is_followed(receiver: Receiver):
    async def first_here_then_there(writer: asyncio.StreamWriter) -> None:
        last = receiver.requests[-1].target
        await (replies(307, location="/b") if last == "/a" else replies(200, b"b"))(writer)

    receiver.answer = first_here_then_there

    answer = await a_task().call("POST", f"{receiver.url}/a", body="hello", max_redirects=1)

    assert [(r.method, r.target, r.body) for r in receiver.requests] == [
        ("POST", "/a", b"hello"),
        ("POST", "/b", b"hello"),
    ]
    assert (answer.body, answer.url) == ("b", f"{receiver.url}/b")


@pytest.mark.parametrize(
    "location",
    [
        "http://10.0.0.1/",
        "http://169.254.169.254/latest/",
        "http://[::1]:PORT/",
        "http://0x7f.1:PORT/",
        "//user@127.0.0.1:PORT/",
        "file:///etc/passwd",
    ],
)
async def test_every_hop_of_a_redirect_is_checked(receiver: Receiver, location: str):
    receiver.answer = replies(302, location=location.replace("PORT", str(receiver.port)))

    with pytest.raises(Dead, match="may not be called"):
        await a_task().call("GET", receiver.url, max_redirects=5)

    assert receiver.connections == 1


async def test_redirects_that_never_end_do(receiver: Receiver):
    receiver.answer = replies(301, location="/again")

    with pytest.raises(Dead, match="answered 301"):
        await a_task().call("GET", receiver.url, max_redirects=3)

    assert len(receiver.requests) == 4


async def test_a_redirect_to_another_origin_takes_no_secrets_along(receiver: Receiver):
    async with listening() as other:
        receiver.answer = replies(302, location=f"{other.url}/landing")
        secrets = {"Authorization": "Bearer s3cret", "X-Api-Key": "s3cret", "Cookie": "s3cret"}

        await a_task().call("POST", receiver.url, secrets, body="hello", max_redirects=1)

    (request,) = other.requests
    assert (request.method, request.body) == ("GET", b"")
    assert "s3cret" not in str(request.headers)


@pytest.mark.parametrize(
    "headers",
    [
        {"X-Evil": "a\r\nX-Injected: b"},
        {"X-Evil": "a\nb"},
        {"X-Evil\r\nX-Injected": "a"},
        {"X Evil": "a"},
        {"X-Evil": "a\0"},
        {"Host": "internal"},
        {"Content-Length": "0"},
        {"transfer-encoding": "chunked"},
        {"Proxy-Authorization": "x"},
        {"Connection": "upgrade"},
    ],
)
async def test_a_header_that_could_bend_the_request_ends_the_job_dead(
    receiver: Receiver, headers: dict[str, str]
):
    with pytest.raises(Dead):
        await a_task().call("GET", receiver.url, headers)

    assert receiver.connections == 0


def a_tls_context(names: list[str | None]) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(TLS / "server.pem")
    context.sni_callback = lambda _socket, name, _context: names.append(name)
    return context


async def test_the_certificate_is_checked_for_the_name_and_not_for_the_address():
    names: list[str | None] = []
    async with listening(tls=a_tls_context(names)) as receiver:
        task = a_task(resolve=at("127.0.0.1"), ca_file=str(TLS / "authority.pem"))

        answer = await task.call("GET", f"https://receiver.example:{receiver.port}/")

    assert answer.status == 200
    assert names == ["receiver.example"]
    assert receiver.requests[0].headers["host"] == f"receiver.example:{receiver.port}"


@pytest.mark.parametrize(
    ("name", "ca_file"),
    [("other.example", str(TLS / "authority.pem")), ("receiver.example", None)],
)
async def test_a_certificate_for_another_name_or_from_a_stranger_is_refused(
    name: str, ca_file: str | None
):
    async with listening(tls=a_tls_context([])) as receiver:
        task = a_task(resolve=at("127.0.0.1"), ca_file=ca_file)

        with pytest.raises(Retry, match="certificate"):
            await task.call("GET", f"https://{name}:{receiver.port}/")

    assert receiver.requests == []


async def test_a_redirect_from_https_to_http_is_refused(receiver: Receiver):
    async with listening(tls=a_tls_context([])) as secure:
        secure.answer = replies(302, location=f"{receiver.url}/plain")
        task = a_task(resolve=at("127.0.0.1"), ca_file=str(TLS / "authority.pem"))

        with pytest.raises(Dead, match="https to http"):
            await task.call("GET", f"https://receiver.example:{secure.port}/", max_redirects=1)

    assert receiver.requests == []


async def test_proxies_of_the_environment_are_not_used(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
):
    async with listening() as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        monkeypatch.setenv("ALL_PROXY", proxy.url)

        await a_task().call("GET", receiver.url)

    assert (proxy.connections, receiver.connections) == (0, 1)
