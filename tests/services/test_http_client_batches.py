"""Many jobs at once through the client: what is turned away for now is sent again, alone."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import httpx
import msgspec
import pytest

from longshore.api.application import Application
from longshore.api.context import Service
from longshore.api.jobs import BatchItem, BatchResult
from longshore.api.problems import Problem, problem, too_many
from longshore.client import Client, Outcome, Submission, SyncClient
from longshore.client.batching import Batch
from longshore.client.retrying import Retrying
from longshore.contract import Engine, JobFilter
from longshore.core.limit_settings import Layer, QueueSettings
from longshore.engines import open_engine
from longshore.errors import (
    EngineUnavailableError,
    IdempotencyError,
    InFlightError,
    PayloadError,
    QueueFullError,
    SubmitError,
)
from longshore.records import queue_settings
from longshore.testing.factories import a_job

Submit = Callable[..., Awaitable[list[Outcome]]]

ID = "019a8a6e-7c00-7000-8000-000000000000"
HELD, FULL, WRONG = "idempotency_in_flight", "queue_full", "idempotency"


class Door:
    """A service that turns jobs away: each type by its list of codes, then it lets it in."""

    def __init__(self, **codes: list[str]) -> None:
        self._codes = codes
        self.later = 0
        self.most = 1_000
        """Jobs that it takes in one request."""
        self.breaks_after = 1_000
        """Requests that it answers before it is gone."""
        self.asked: list[list[tuple[str, str]]] = []
        """Of each request, the types and keys."""

    def __call__(self, request: httpx.Request) -> httpx.Response:
        if len(self.asked) >= self.breaks_after:
            raise httpx.ConnectError("gone")
        jobs: list[dict[str, Any]] = msgspec.json.decode(request.content)["jobs"]
        self.asked.append([(job["type"], job["idempotency_key"]) for job in jobs])
        if len(jobs) > self.most:
            refusal = too_many(len(jobs), self.most, "because").problem
            return httpx.Response(refusal.status, content=msgspec.json.encode(refusal))
        items = [self._item(job["type"]) for job in jobs]
        answer = BatchResult(sum(one.status == 201 for one in items), items)
        return httpx.Response(200, content=msgspec.json.encode(answer))

    def _item(self, name: str) -> BatchItem:
        if not self._codes.get(name):
            return BatchItem(status=201, id=ID)
        found = problem(self._codes[name].pop(0))
        return BatchItem(status=found.status, problem=found, retry_after_seconds=self.later)


@pytest.fixture(params=["async", "sync"])
def submit(request: pytest.FixtureRequest) -> Submit:
    """`submit_many` of either client, through this door."""

    async def waiting(door: Door, jobs: list[Submission], **options: Any) -> list[Outcome]:
        line = httpx.MockTransport(door)
        async with Client("http://x", transport=line, **options) as client:
            return await client.submit_many(jobs)

    def blocking(door: Door, jobs: list[Submission], **options: Any) -> list[Outcome]:
        with SyncClient("http://x", transport=httpx.MockTransport(door), **options) as client:
            return client.submit_many(jobs)

    async def threaded(*given: Any, **options: Any) -> list[Outcome]:
        return await asyncio.to_thread(blocking, *given, **options)

    return threaded if request.param == "sync" else waiting


async def test_jobs_that_were_turned_away_are_sent_again_alone_and_under_their_keys(
    submit: Submit,
):
    door = Door(held=[HELD], full=[FULL, FULL])

    outcomes = await submit(
        door, [Submission("good"), Submission("held", {}, {"key": "k"}), Submission("full")]
    )

    assert [(one.id, one.is_new, one.error) for one in outcomes] == [(ID, True, None)] * 3
    assert [[name for name, _ in one] for one in door.asked] == [
        ["good", "held", "full"],
        ["held", "full"],
        ["full"],
    ]
    keys = dict(door.asked[0])
    assert keys["held"] == "k"
    assert all(keys[name] == key for asked in door.asked for name, key in asked)


async def test_no_request_brings_more_jobs_than_the_service_says(submit: Submit):
    door = Door(full=[FULL])
    door.most = 3
    names = ["full", *"abcdefg"]

    outcomes = await submit(door, [Submission(name) for name in names])

    assert [one.error for one in outcomes] == [None] * 8
    assert [[name for name, _ in one] for one in door.asked] == [
        names,
        ["full", "a", "b"],
        ["c", "d", "e"],
        ["f", "g"],
        ["full"],
    ]


async def test_a_service_that_takes_no_jobs_at_all_is_not_asked_forever(submit: Submit):
    door = Door()
    door.most = 0

    with pytest.raises(SubmitError, match="send at most 0"):
        await submit(door, [Submission("a"), Submission("b")])


async def test_what_stays_turned_away_is_told_of_each_job(submit: Submit):
    door = Door(held=[HELD] * 100, full=[FULL] * 100, wrong=[WRONG])
    names = ["good", "held", "full", "wrong"]

    outcomes = await submit(door, [Submission(name) for name in names], timeout=0.4)

    kinds = [type(one.error) for one in outcomes]
    assert kinds == [type(None), InFlightError, QueueFullError, IdempotencyError]
    assert len(door.asked) > 1
    assert all(name != "wrong" for asked in door.asked[1:] for name, _ in asked)


async def test_a_pause_past_the_deadline_is_not_begun(submit: Submit):
    door = Door(full=[FULL] * 100)
    door.later = 60

    (outcome,) = await submit(door, [Submission("full")], timeout=30)

    assert isinstance(outcome.error, QueueFullError)
    assert len(door.asked) == 1


async def test_what_was_accepted_is_told_though_the_service_goes(submit: Submit):
    door = Door(held=[HELD])
    door.breaks_after = 1

    good, held = await submit(door, [Submission("good"), Submission("held")], timeout=0.4)

    assert (good.id, good.error) == (ID, None)
    assert isinstance(held.error, EngineUnavailableError)


async def test_jobs_behind_a_request_that_failed_are_not_sent_and_hear_why(submit: Submit):
    door = Door()
    door.breaks_after = 1
    jobs = [Submission("good") for _ in range(2_500)]

    outcomes = await submit(door, jobs, timeout=0.2)

    assert len(outcomes) == 2_500
    assert [one.error for one in outcomes[:1_000]] == [None] * 1_000
    assert {type(one.error) for one in outcomes[1_000:]} == {EngineUnavailableError}


async def test_an_error_before_anything_is_known_is_raised(submit: Submit):
    door = Door()
    door.breaks_after = 0

    with pytest.raises(EngineUnavailableError):
        await submit(door, [Submission("good")], timeout=0.2)


async def test_a_job_that_cannot_be_written_holds_up_no_other(submit: Submit):
    door = Door()

    outcomes = await submit(door, [Submission("odd", {"it": object()}), Submission("good")])

    assert [type(one.error) for one in outcomes] == [PayloadError, type(None)]
    assert [[name for name, _ in one] for one in door.asked] == [["good"]]


def test_jobs_that_are_sent_again_wait_as_long_as_the_longest_was_told():
    batch = Batch([Submission("a"), Submission("b"), Submission("c")])
    batch.ask()

    least = batch.take([turned_away(2), turned_away(7), turned_away(None)])
    assert least is not None
    pause = Retrying(deadline=100.0, is_repeatable=True).pause(least, now=50.0)

    assert pause == 7.0


def turned_away(later: int | None) -> BatchItem:
    found: Problem = problem(FULL)
    return BatchItem(status=found.status, problem=found, retry_after_seconds=later)


@pytest.fixture
async def engine() -> AsyncIterator[Engine]:
    opened = open_engine("sqlite://:memory:")
    await opened.migrate()
    yield opened
    await opened.close()


class Relief(httpx.AsyncBaseTransport):
    """The application; once it has answered, the queue has room again."""

    def __init__(self, engine: Engine) -> None:
        self._inner = httpx.ASGITransport(Application(Service(engine)))
        self._engine = engine

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        answer = await self._inner.handle_async_request(request)
        await queue_settings.put(self._engine, "mail", Layer.OVERRIDDEN, QueueSettings())
        return answer


async def test_jobs_of_a_full_queue_go_in_when_there_is_room(engine: Engine):
    await queue_settings.put(engine, "mail", Layer.OVERRIDDEN, QueueSettings(max_depth=1))
    await engine.submit([a_job(queue="mail")])
    jobs = [Submission("a", {}, {"queue": "mail"}), Submission("b")]

    async with Client("http://localhost", transport=Relief(engine)) as client:
        outcomes = await client.submit_many(jobs)

    assert [one.error for one in outcomes] == [None, None]
    found = (await engine.find(JobFilter(), limit=10)).jobs
    assert sorted((one.type, one.queue) for one in found if one.type in "ab") == [
        ("a", "mail"),
        ("b", "default"),
    ]
