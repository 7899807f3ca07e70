"""The client: one job for one submit, whatever happens to the answers."""

from collections.abc import AsyncIterator

import httpx
import pytest

from longshore.api.application import Application
from longshore.api.context import Service
from longshore.client import Client, Submission, SyncClient
from longshore.client.retrying import Retrying
from longshore.contract import Engine, JobFilter
from longshore.core.state import State
from longshore.engines import open_engine
from longshore.errors import (
    EngineError,
    EngineUnavailableError,
    IdempotencyError,
    IllegalTransitionError,
    InFlightError,
    JobNotFoundError,
    SubmitError,
    WaitTimeoutError,
)
from longshore.testing.factories import a_job

REFUSED = httpx.ConnectError("connection refused")
UNKNOWN = "019a8a6e-7c00-7000-8000-000000000000"


class Rough(httpx.AsyncBaseTransport):
    """The application, behind a line that loses answers or is busy."""

    def __init__(self, application: Application) -> None:
        self._inner = httpx.ASGITransport(application, client=("127.0.0.1", 1))
        self.lost = 0
        """Answers to lose."""
        self.busy = 0
        """Requests to turn away."""
        self.turn: tuple[int, str] = (503, "overloaded")
        """How that is said."""
        self.keys: list[str | None] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.keys.append(request.headers.get("idempotency-key"))
        if self.busy:
            self.busy -= 1
            status, code = self.turn
            words = {"type": "x", "title": "x", "status": status, "detail": "x", "code": code}
            return httpx.Response(status, headers={"retry-after": "0"}, json=words)
        answer = await self._inner.handle_async_request(request)
        if self.lost:
            self.lost -= 1
            await answer.aread()
            raise httpx.ReadError("cut off")
        return answer


@pytest.fixture
async def engine() -> AsyncIterator[Engine]:
    opened = open_engine("sqlite://:memory:")
    await opened.migrate()
    yield opened
    await opened.close()


@pytest.fixture
def line(engine: Engine) -> Rough:
    return Rough(Application(Service(engine)))


@pytest.fixture
async def client(line: Rough) -> AsyncIterator[Client]:
    async with Client("http://localhost", transport=line) as opened:
        yield opened


async def test_a_submit_whose_answer_is_lost_is_one_job(
    client: Client, line: Rough, engine: Engine
) -> None:
    line.lost = 2

    job = await client.submit("mail", {"to": "ann"}, queue="mail", priority=2)

    found = (await engine.find(JobFilter(), limit=10)).jobs
    assert [(one.queue, one.priority) for one in found] == [("mail", 2)]
    assert len(line.keys) == 3
    assert len(set(line.keys)) == 1
    assert (await client.get(job.id)).payload == {"to": "ann"}


async def test_a_batch_whose_answer_is_lost_is_stored_once(
    client: Client, line: Rough, engine: Engine
) -> None:
    line.lost = 1

    outcomes = await client.submit_many(
        [Submission("a"), Submission("b", {}, {"priority": 99}), Submission("c")]
    )

    assert [one.id is not None for one in outcomes] == [True, False, True]
    assert isinstance(outcomes[1].error, SubmitError)
    assert len((await engine.find(JobFilter(), limit=10)).jobs) == 2


async def test_a_request_that_was_turned_away_is_sent_again(
    client: Client, line: Rough
) -> None:
    job = await client.submit("mail")
    line.busy = 2

    cancelled = await client.cancel(job.id)

    assert cancelled.state is State.CANCELLED


async def test_a_submit_whose_key_is_under_way_elsewhere_is_sent_again_with_it(
    client: Client, line: Rough
) -> None:
    line.busy, line.turn = 2, (409, "idempotency_in_flight")

    await client.submit("mail", key="k")

    assert line.keys == ['"k"'] * 3


async def test_a_key_that_stays_under_way_is_an_error_that_says_so(line: Rough) -> None:
    line.busy, line.turn = 1_000, (409, "idempotency_in_flight")

    async with Client("http://localhost", transport=line, timeout=0.3) as client:
        with pytest.raises(InFlightError):
            await client.submit("mail", key="k")


async def test_a_conflict_that_stays_one_is_not_sent_again(client: Client, line: Rough) -> None:
    job = await client.submit("mail")
    await client.cancel(job.id)

    with pytest.raises(IllegalTransitionError):
        await client.cancel(job.id)

    assert len(line.keys) == 3


async def test_a_verb_whose_answer_was_lost_is_not_sent_twice(
    client: Client, line: Rough
) -> None:
    job = await client.submit("mail")
    line.lost = 1

    with pytest.raises(EngineUnavailableError):
        await client.cancel(job.id)

    assert (await client.get(job.id)).state is State.CANCELLED


async def test_problems_become_the_usual_errors(client: Client) -> None:
    await client.submit("mail", {"to": "ann"}, key="k")

    with pytest.raises(IdempotencyError):
        await client.submit("mail", {"to": "bob"}, key="k")
    with pytest.raises(JobNotFoundError):
        await client.get(UNKNOWN)
    with pytest.raises(SubmitError):
        await client.submit("mail", priority=99)


@pytest.mark.parametrize("body", [b"<html>hello</html>", b'{"queues": 7}', b"\xff"])
async def test_an_answer_of_something_else_than_a_service_is_an_error_that_says_so(
    body: bytes,
) -> None:
    elsewhere = httpx.MockTransport(lambda _: httpx.Response(200, content=body))

    async with Client("http://localhost", transport=elsewhere) as client:
        with pytest.raises(EngineError, match="see whether it is a Longshore service"):
            await client.queues()
        with pytest.raises(EngineError, match="see whether it is a Longshore service"):
            await anext(client.follow())


@pytest.mark.parametrize("data", [b"data: {}\n\n", b"data: \xff\n\n", b"x" * (5 << 20)])
async def test_a_stream_of_something_else_than_events_is_an_error_that_says_so(
    data: bytes,
) -> None:
    headers = {"content-type": "text/event-stream"}
    elsewhere = httpx.MockTransport(
        lambda _: httpx.Response(200, stream=httpx.ByteStream(data), headers=headers)
    )

    async with Client("http://localhost", transport=elsewhere) as client:
        with pytest.raises(EngineError, match="see whether it is a Longshore service"):
            await anext(client.follow())
    blocking = SyncClient("http://localhost", transport=elsewhere)
    with blocking, pytest.raises(EngineError, match="see whether it is a Longshore service"):
        next(blocking.follow())


async def test_waiting_for_a_result_ends(client: Client) -> None:
    job = await client.submit("mail")

    with pytest.raises(WaitTimeoutError):
        await client.result(job.id, timeout=0.05)


async def test_all_pages_are_walked(client: Client) -> None:
    await client.submit_many([Submission("mail") for _ in range(60)])

    found = [job.id async for job in client.jobs(type="mail")]

    assert len(set(found)) == 60


async def test_a_service_that_is_away_is_given_up_in_time() -> None:
    async with Client("http://127.0.0.1:9", timeout=0.5) as client:
        with pytest.raises(EngineUnavailableError):
            await client.submit("mail")


class Refusing(httpx.AsyncBaseTransport):
    """Refuses connections, but for those of which `let_in` says so."""

    def __init__(self, inner: httpx.AsyncBaseTransport) -> None:
        self._inner = inner
        self.tried = 0
        self.let_in: set[int] = set()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.tried += 1
        if self.tried not in self.let_in:
            raise REFUSED
        return await self._inner.handle_async_request(request)


async def test_a_service_that_never_answered_is_given_up_after_the_first_contact(
    line: Rough,
) -> None:
    away = Refusing(line)
    async with Client("http://localhost", transport=away) as client:
        client.first_contact = 0.0
        with pytest.raises(EngineUnavailableError, match="cannot be reached"):
            await client.queues()
        with pytest.raises(EngineUnavailableError, match="cannot be reached"):
            _ = [event async for event in client.events(UNKNOWN)]

    assert away.tried == 2


async def test_a_service_that_has_answered_may_be_away_for_as_long_as_a_call_takes(
    line: Rough,
) -> None:
    away = Refusing(line)
    away.let_in = {1, 4}
    async with Client("http://localhost", transport=away) as client:
        client.first_contact = 0.0
        await client.queues()
        await client.queues()

    assert away.tried == 4


def test_only_a_connection_that_cannot_be_made_ends_the_first_contact() -> None:
    tries = Retrying(deadline=100.0, is_repeatable=True, connect_deadline=1.0)

    assert tries.after(REFUSED, now=1.0) is None
    assert tries.after(httpx.ReadError("cut off"), now=1.0) is not None
    assert tries.after(httpx.Response(503), now=1.0) is not None


async def test_a_list_of_more_than_one_page_is_read_whole(
    client: Client, engine: Engine
) -> None:
    names = [f"q{number:04}" for number in range(1_005)]
    await engine.submit([a_job(queue=name) for name in names])

    assert [one.queue for one in await client.queues()] == names
