"""`http.call` against real servers on loopback, friendly and hostile."""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta

import pytest
from receiver import Answer, Receiver, a_task, at, listening, replies, running

from longshore.core import ids
from longshore.directives import Dead, Retry
from longshore.errors import ConfigError
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


async def test_a_call_sends_the_request_and_keeps_the_answer(receiver: Receiver):
    receiver.answer = replies(
        201, b"made it", content_type="text/plain", etag='"7"', x_secret="s"
    )

    answer = await a_task().call(
        "POST", f"{receiver.url}/orders?id=7", {"X-Shop": "berlin"}, json={"seven": 7}
    )

    (request,) = receiver.requests
    assert (request.method, request.target) == ("POST", "/orders?id=7")
    assert request.body == b'{"seven":7}'
    assert request.headers["content-type"] == "application/json"
    assert request.headers["x-shop"] == "berlin"
    assert (answer.status, answer.body, answer.is_truncated) == (201, "made it", False)
    assert answer.headers["etag"] == '"7"'
    assert "x-secret" not in answer.headers


async def test_the_job_id_is_the_idempotency_key_as_a_quoted_string(receiver: Receiver):
    await a_task().call("POST", receiver.url)

    assert receiver.requests[0].headers["idempotency-key"] == f'"{ids.text(CLAIM.id)}"'


async def test_a_job_may_bring_an_idempotency_key_of_its_own(receiver: Receiver):
    await a_task().call("POST", receiver.url, {"Idempotency-KEY": '"mine"'})

    assert receiver.requests[0].headers["idempotency-key"] == '"mine"'


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 504])
async def test_an_answer_that_may_change_is_tried_again(receiver: Receiver, status: int):
    receiver.answer = replies(status, b"not now")

    with pytest.raises(Retry, match=f"answered {status}: not now") as raised:
        await a_task().call("GET", receiver.url)

    assert raised.value.after is None


@pytest.mark.parametrize("status", [301, 304, 400, 401, 403, 404, 410, 422])
async def test_an_answer_that_stays_the_same_ends_the_job_dead(receiver: Receiver, status: int):
    receiver.answer = replies(status)

    with pytest.raises(Dead, match=f"answered {status}"):
        await a_task().call("GET", receiver.url)


async def test_expect_decides_which_answers_are_a_success(receiver: Receiver):
    receiver.answer = replies(404)

    answer = await a_task().call("DELETE", receiver.url, expect=[204, 404])

    assert answer.status == 404
    with pytest.raises(Dead):
        await a_task().call("DELETE", receiver.url, expect=[204])


@pytest.mark.parametrize(
    ("asked", "after"),
    [
        ("120", timedelta(minutes=2)),
        # ManualClock begins with the year 2026.
        ("Thu, 01 Jan 2026 00:05:00 GMT", timedelta(minutes=5)),
        ("Thu, 01 Jan 2026 00:05:00 -0000", timedelta(minutes=5)),
        ("99999999999999999999", timedelta(hours=1)),
        ("Fri, 01 Jan 2100 00:00:00 GMT", timedelta(hours=1)),
        ("Thu, 01 Jan 2015 00:00:00 GMT", None),
        ("0", None),
        ("-5", None),
        ("soon", None),
        ("", None),
    ],
)
async def test_retry_after_is_honoured_within_bounds(
    receiver: Receiver, asked: str, after: timedelta | None
):
    receiver.answer = replies(429, retry_after=asked)

    with pytest.raises(Retry) as raised:
        await a_task().call("GET", receiver.url)

    assert raised.value.after == after


@pytest.mark.parametrize("status", [400, 500])
async def test_a_reason_leaves_out_the_query_of_the_url_also_where_the_answer_repeats_it(
    receiver: Receiver, status: int
):
    receiver.answer = replies(status, b"no: token=t0k3n, t0k3n")

    with pytest.raises((Dead, Retry)) as raised:
        await a_task().call("GET", f"{receiver.url}/a?token=t0k3n&n=1")

    assert str(raised.value.reason) == f"{receiver.url}/a answered {status}: no: token=***, ***"


async def test_the_url_of_an_answer_has_no_query(receiver: Receiver):
    receiver.answer = replies(302, location="?token=t0k3n")

    answer = await a_task().call("GET", f"{receiver.url}/a?b=c", max_redirects=2, expect=[302])

    assert answer.url == f"{receiver.url}/a"
    assert [one.target for one in receiver.requests] == ["/a?b=c", *["/a?token=t0k3n"] * 2]


async def test_a_receiver_that_is_down_is_tried_again():
    async with listening() as gone:
        url = gone.url

    with pytest.raises(Retry):
        await a_task().call("GET", url)


async def test_a_name_that_cannot_be_resolved_is_tried_again():
    with pytest.raises(Retry, match="does not exist"):
        await a_task().call("GET", "http://receiver.example/")


async def test_the_next_address_is_tried_when_one_refuses_the_connection(receiver: Receiver):
    task = a_task(resolve=at("127.0.0.9", "127.0.0.1"))

    answer = await task.call("GET", f"http://receiver.example:{receiver.port}/")

    assert answer.status == 200


async def test_only_so_much_of_an_endless_answer_is_read(receiver: Receiver):
    async def endless(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        for _ in range(100_000):
            writer.write(b"x" * 65_536)
            await writer.drain()

    receiver.answer = endless

    answer = await a_task(body_bytes=1_000).call("GET", receiver.url)

    assert answer.body == "x" * 1_000
    assert answer.is_truncated


async def test_a_compressed_answer_is_not_unpacked(receiver: Receiver):
    receiver.answer = replies(200, b"\x1f\x8b\x08", content_encoding="gzip")

    answer = await a_task().call("GET", receiver.url)

    assert answer.body is None
    assert receiver.requests[0].headers["accept-encoding"] == "identity"


async def test_bytes_that_no_store_can_keep_are_replaced(receiver: Receiver):
    receiver.answer = replies(200, b"a\0b\xff", content_type="text/plain; charset=punycode")

    answer = await a_task().call("GET", receiver.url)

    assert answer.body == "a�b�"


async def says_nothing(writer: asyncio.StreamWriter) -> None:
    await asyncio.get_running_loop().create_future()


async def drips(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n")
    for _ in range(1_000):
        writer.write(b".")
        await writer.drain()
        await asyncio.sleep(0.02)


@pytest.mark.parametrize("answer", [says_nothing, drips])
async def test_a_receiver_that_stalls_is_given_up_at_the_deadline(
    receiver: Receiver, answer: Answer
):
    receiver.answer = answer

    async with asyncio.timeout(5):
        with pytest.raises(Retry, match="no complete answer"):
            await a_task().call("GET", receiver.url, timeout=0.1)


async def test_a_worker_can_bound_what_a_payload_asks_for(receiver: Receiver):
    receiver.answer = says_nothing
    task = a_task(longest_call=timedelta(milliseconds=100))

    async with asyncio.timeout(5):
        with pytest.raises(Retry, match=r"in 0\.1 s"):
            await task.call("GET", receiver.url, timeout=3_600)


async def test_a_call_ends_before_the_time_of_its_job_is_over(receiver: Receiver):
    receiver.answer = says_nothing

    async with asyncio.timeout(5):
        with (
            running(CLAIM, deadline=time.monotonic() + 0.2),
            pytest.raises(Retry, match="no complete answer"),
        ):
            await a_task().call("GET", receiver.url, timeout=3_600)


async def test_a_slow_name_server_counts_against_the_deadline():
    async def never(host: str, port: int) -> list[str]:
        return await asyncio.get_running_loop().create_future()

    async with asyncio.timeout(5):
        with pytest.raises(Retry, match="no complete answer"):
            await a_task(resolve=never).call("GET", "http://slow.example/", timeout=0.1)


@pytest.mark.parametrize(
    "garbage",
    [b"SSH-2.0-OpenSSH\r\n", b"HTTP/1.1 200 OK\r\nx: " + b"y" * 300_000 + b"\r\n\r\n"],
)
async def test_an_answer_that_is_not_http_is_tried_again(receiver: Receiver, garbage: bytes):
    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(garbage)

    receiver.answer = answer

    with pytest.raises(Retry):
        await a_task().call("GET", receiver.url)


@pytest.mark.parametrize("seconds", [0, -1, float("nan")])
async def test_a_timeout_that_makes_no_sense_ends_the_job_dead(seconds: float):
    with pytest.raises(Dead, match="positive"):
        await a_task().call("GET", "http://receiver.example/", timeout=seconds)


async def test_body_and_json_together_end_the_job_dead():
    with pytest.raises(Dead, match="not both"):
        await a_task().call("POST", "http://receiver.example/", body="a", json={})


async def test_without_httpx_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "httpx", None)
    monkeypatch.delitem(sys.modules, "longshore.tasks.http_transport", raising=False)

    with pytest.raises(ConfigError, match=r"longshore\[http\]"):
        await a_task().call("GET", "http://receiver.example/")
