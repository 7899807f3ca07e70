"""Webhooks: signed and delivered, tried again, never turned inward, and nobody's burden."""

import asyncio
import html
import logging
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from itertools import count
from pathlib import Path
from unittest.mock import patch

import pytest
from msgspec.structs import replace
from receiver import Answer, Receiver, listening, replies, running
from standardwebhooks import Webhook, WebhookVerificationError
from test_task_http_guard import INWARD, NAMES

from longshore import Longshore, Settings
from longshore.contract import Engine
from longshore.core import webhook
from longshore.core.job import JobId
from longshore.core.state import State
from longshore.core.view import JobFilter
from longshore.core.webhook import Endpoint
from longshore.directives import Cancel, Dead, Retry, Snooze
from longshore.engines import open_engine
from longshore.errors import ConfigError
from longshore.operations import deliveries
from longshore.records import webhooks
from longshore.runtime.clock import ManualClock
from longshore.runtime.ids import IdSource
from longshore.scheduler.notify import CONSUMER, Notifier
from longshore.tasks.settings import WebhookSettings
from longshore.tasks.ssrf import Guard
from longshore.tasks.webhook import WebhookTask
from longshore.testing.factories import SECOND, a_claim, a_job
from longshore.testing.flaky import FlakyEngine
from longshore.testing.harness import eventually

LOCAL = WebhookSettings(allowed_networks=("127.0.0.0/8",), timeout=timedelta(seconds=1))
CLAIM = a_claim(type=webhook.TASK)


async def nowhere(host: str, port: int) -> list[str]:
    raise OSError(f"{host} does not exist")


create = partial(deliveries.create, guard=Guard(LOCAL.allowed_networks, nowhere))


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        return request.getfixturevalue("empty_postgres_url")
    return f"sqlite:///{tmp_path}/jobs.db"


@asynccontextmanager
async def working(url: str, settings: WebhookSettings = LOCAL) -> AsyncIterator[Longshore]:
    """An app whose jobs run, and whose events are delivered."""
    app = Longshore(url, settings=Settings(webhooks=settings))
    async with app:
        await app.engine.migrate()
        task = asyncio.create_task(app.work(concurrency=8))
        try:
            yield app
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
async def engine() -> AsyncIterator[Engine]:
    async with Longshore("sqlite://:memory:") as app:
        yield app.engine


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with listening() as one:
        yield one


def verified(secret: str, receiver: Receiver, number: int) -> dict[str, object]:
    got = receiver.requests[number]
    return Webhook(secret).verify(got.body, got.headers)


async def test_a_message_arrives_signed_and_can_be_had_again(store: str, receiver: Receiver):
    async with working(store) as app:
        engine = app.engine
        url, wanted = receiver.url + "/hook?a=b", ("job.succeeded",)
        secret, made = await create(
            engine, tenant="default", url=url, events=wanted, types=("noop",)
        )
        job = await app.submit("noop")
        await eventually(lambda: len(receiver.requests) == 1, within=30)
        newer, _ = await deliveries.rotate(engine, made.id, grace=60_000_000)
        await app.submit("noop")
        await eventually(lambda: len(receiver.requests) == 2, within=30)

        async def first() -> deliveries.Delivery | None:
            done, _ = await deliveries.deliveries(engine, made, state=State.SUCCEEDED)
            return done[-1] if len(done) == 2 else None

        delivery = await eventually(first, within=30)
        assert delivery is not None
        await deliveries.replay(engine, made, delivery.job.id, IdSource())
        await eventually(lambda: len(receiver.requests) == 3, within=30)

    told = verified(secret, receiver, 0)
    assert told["type"] == "job.succeeded"
    assert told["data"]["job_id"] == job.id  # pyright: ignore[reportIndexIssue]  # a document
    assert verified(secret, receiver, 1) == verified(newer, receiver, 1)
    with pytest.raises(WebhookVerificationError):
        verified(newer, receiver, 0)
    assert delivery.status == 200
    first_id, again = (receiver.requests[n].headers["webhook-id"] for n in (0, 2))
    assert first_id == again == delivery.message.message
    assert receiver.requests[0].target == "/hook?a=b"


async def test_a_message_goes_on_with_the_trace_of_the_job_it_tells_of(
    store: str, receiver: Receiver
):
    trace = f"00-{'a' * 32}-{'b' * 16}-01"
    async with working(store) as app:
        secret, _ = await create(
            app.engine,
            tenant="default",
            url=receiver.url + "/hook",
            events=("job.submitted",),
            types=("noop",),
        )

        await app.engine.submit([a_job(trace=trace)])
        await app.engine.submit([a_job()])
        await eventually(lambda: len(receiver.requests) == 2, within=30)

    told = {
        (
            receiver.requests[number].headers.get("traceparent"),
            verified(secret, receiver, number)["data"]["trace"],  # pyright: ignore[reportIndexIssue]  # a document
        )
        for number in (0, 1)
    }
    assert told == {(trace, trace), (None, None)}


async def test_a_crash_between_submit_and_advance_doubles_nothing(engine: Engine):
    _, made = await create(engine, tenant="default", url="https://example.com/")
    await engine.submit([a_job(), a_job()])
    flaky = FlakyEngine(engine)
    dying = Notifier(flaky, IdSource())
    flaky.lose_answers(1, of=["submit"])

    with pytest.raises(Exception, match="lost"):
        await dying.tick()
    (standing,) = await engine.consumers()
    cursor = await engine.take_cursor(CONSUMER, holder=standing.holder or "", lease=1)
    assert cursor is not None
    await engine.advance(cursor, position=cursor.position, releases=True)
    await Notifier(engine, IdSource()).tick()

    found = (await engine.find(JobFilter(tag=made.id), limit=100)).jobs
    (after,) = await engine.consumers()
    assert len(found) == 2
    assert (standing.position, after.behind) == (0, 0)


async def test_of_deliveries_nothing_is_told_and_nobody_leaves_no_consumer(engine: Engine):
    notifier = Notifier(engine, IdSource())
    await notifier.tick()
    nobody = await engine.consumers()
    _, made = await create(engine, tenant="default", url="https://example.com/")
    await engine.submit([a_job()])
    for _ in range(3):
        await notifier.tick()
    found = (await engine.find(JobFilter(tag=made.id), limit=100)).jobs
    await webhooks.delete(engine, made.id)
    await notifier.tick()

    assert nobody == await engine.consumers() == []
    assert len(found) == 1


async def test_every_endpoint_hears_once_whoever_reads_for_them():
    clock = ManualClock()
    engine = open_engine("sqlite://:memory:", clock=clock)
    await engine.migrate()
    for _ in range(2):
        await create(engine, tenant="default", url="https://example.com/")
    first, second = (Notifier(engine, IdSource(clock)) for _ in range(2))

    async def heard(notifier: Notifier, jobs: int) -> int:
        """How many deliveries there are once this one has looked."""
        for _ in range(jobs):
            await engine.submit([a_job()])
        for _ in range(5):
            if await notifier.tick() > 0:
                break
        return sum(one.ready for one in await engine.counts() if one.queue == webhook.QUEUE)

    # More than are read at once.
    by_first = await heard(first, 210)
    standing_by = await heard(second, 1)
    clock.advance(16 * SECOND)
    by_second = await heard(second, 1)
    lost = await heard(first, 1)
    clock.advance(16 * SECOND)
    by_first_again = await heard(first, 1)
    await engine.close()

    assert (by_first, standing_by, by_second) == (420, 420, 424)
    assert (lost, by_first_again) == (424, 428)


class SlowIds(IdSource):
    """Takes ten milliseconds for each id, by the clock of the store."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock)
        self._hands = clock

    def make(self) -> JobId:
        self._hands.advance(SECOND // 100)
        return super().make()


async def test_what_takes_longer_than_a_lease_is_delivered_by_one_and_once(store: str):
    clock = ManualClock()
    engine = open_engine(store, clock=clock)
    await engine.migrate()
    await create(engine, tenant="default", url="https://example.com/")
    await engine.submit([a_job() for _ in range(2_000)])
    flaky = FlakyEngine(engine)

    async def read_all() -> None:
        notifier = Notifier(flaky, SlowIds(clock))
        while not any(not one.behind for one in await engine.consumers()):
            await notifier.tick()

    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        for _ in range(2):
            group.create_task(read_all())
    await engine.close()

    assert flaky.calls.count("submit") == 4


async def test_how_far_it_is_is_noted_every_few_thousand_events(store: str):
    engine = open_engine(store)
    await engine.migrate()
    await create(engine, tenant="default", url="https://example.com/", types=("rare",))
    for size in (2_000, 2_000, 2_000, 12_000):
        await engine.submit([a_job() for _ in range(size)])
    notifier = Notifier(engine, IdSource())

    pauses: list[float] = []
    behind: list[int] = []
    for _ in range(5):
        pauses.append(await notifier.tick())
        behind += [one.behind for one in await engine.consumers()]
    await engine.close()

    assert behind == [2, 1, 1, 1, 0]
    assert [pause > 0 for pause in pauses] == [False, False, False, False, True]


@asynccontextmanager
async def delivering(
    engine: Engine, url: str, failures: int = 0, **settings: object
) -> AsyncIterator[tuple[WebhookTask, Endpoint]]:
    _, made = await create(engine, tenant="default", url=url)
    chosen = WebhookSettings(**{"allowed_networks": ("127.0.0.0/8",), **settings})  # pyright: ignore[reportArgumentType]  # as given
    with running(replace(CLAIM, failures=failures)):
        yield WebhookTask(lambda: engine, chosen), made


@pytest.mark.parametrize(
    ("failures", "status", "headers", "least"),
    [
        (0, 500, {}, 5),
        (3, 404, {}, 7_200),
        (0, 301, {"location": "http://169.254.169.254/"}, 5),
        (0, 429, {"retry_after": "9000"}, 9_000),
        (0, 503, {"retry_after": "9999999"}, 86_400),
        (0, 400, {"retry_after": "9000"}, 5),
    ],
)
async def test_what_is_refused_is_tried_again_on_the_schedule(
    engine: Engine,
    receiver: Receiver,
    failures: int,
    status: int,
    headers: dict[str, str],
    least: int,
):
    receiver.answer = replies(status, b"no", **headers)
    async with delivering(engine, receiver.url, failures) as (task, made):
        with pytest.raises(Retry, match=str(status)) as caught:
            await task.deliver(made.id, "msg_1", "job.dead", "{}")

    assert isinstance(caught.value.after, timedelta)
    assert least <= caught.value.after.total_seconds() <= 1.2 * least
    assert len(receiver.requests) == 1
    assert (await webhooks.get(engine, made.id)).failing_since is not None


async def test_an_endpoint_that_is_gone_or_fails_for_long_is_disabled(
    engine: Engine, receiver: Receiver
):
    receiver.answer = replies(410)
    async with delivering(engine, receiver.url) as (task, made):
        with pytest.raises(Dead, match="410"):
            await task.deliver(made.id, "msg_1", "job.dead", "{}")
        with pytest.raises(Cancel, match="disabled"):
            await task.deliver(made.id, "msg_1", "job.dead", "{}")
    receiver.answer = replies(500)
    async with delivering(engine, receiver.url) as (task, other):
        await webhooks.change(engine, other.id, lambda it: replace(it, failing_since=1))
        with pytest.raises(Retry):
            await task.deliver(other.id, "msg_1", "job.dead", "{}")
    with running(replace(CLAIM, tenant="rival")), pytest.raises(Cancel, match="gone"):
        await task.deliver(other.id, "msg_1", "job.dead", "{}")

    assert (await webhooks.get(engine, made.id)).disabled == "it answered 410"
    assert "5 days" in ((await webhooks.get(engine, other.id)).disabled or "")
    assert len(receiver.requests) == 2


async def test_one_success_makes_good_what_failed_before(engine: Engine, receiver: Receiver):
    async with delivering(engine, receiver.url) as (task, made):

        async def fail(times: int) -> None:
            receiver.answer = replies(500)
            for _ in range(times):
                with pytest.raises(Retry):
                    await task.deliver(made.id, "msg_1", "job.dead", "{}")

        await fail(4)
        failing = await webhooks.get(engine, made.id)
        receiver.answer = replies(204)
        await task.deliver(made.id, "msg_1", "job.dead", "{}")
        good = await webhooks.get(engine, made.id)
        # It would rest after the fifth in a row.
        await fail(5)

    assert failing.failing_since is not None
    assert good.failing_since is None


async def test_no_url_leads_inward(engine: Engine, receiver: Receiver):
    async def resolve(host: str, port: int) -> list[str]:
        return NAMES.get(host, ["127.0.0.1"])

    task = WebhookTask(lambda: engine, resolve=resolve)
    passed: list[str] = []
    for template in INWARD:
        url = template.replace("PORT", str(receiver.port))
        try:
            _, made = await create(engine, tenant="default", url=url)
            with running(CLAIM):
                await task.deliver(made.id, "msg_1", "job.dead", "{}")
        except (ConfigError, Dead):
            for one in await webhooks.every(engine):
                await webhooks.delete(engine, one.id)
            continue
        passed.append(url)

    assert len(INWARD) >= 40
    assert passed == []
    assert receiver.connections == 0


@pytest.mark.parametrize("template", INWARD)
async def test_no_endpoint_is_made_of_a_url_that_leads_inward(engine: Engine, template: str):
    async def resolve(host: str, port: int) -> list[str]:
        return NAMES.get(host, ["127.0.0.1"])

    guard, url = Guard(resolve=resolve), template.replace("PORT", "8000")
    _, public = await deliveries.create(
        engine, tenant="default", url="https://public.example/", guard=guard
    )

    with pytest.raises(ConfigError, match="url"):
        await deliveries.create(engine, tenant="default", url=url, guard=guard)
    with pytest.raises(ConfigError, match="url"):
        await deliveries.change(engine, public.id, lambda it: replace(it, url=url), guard=guard)

    assert [one.url for one in await webhooks.every(engine)] == ["https://public.example/"]


async def test_an_endpoint_is_made_while_no_name_server_answers(engine: Engine):
    release = threading.Event()

    def hangs(*_: object, **__: object) -> None:
        release.wait(60)
        raise OSError("no answer")

    with patch("socket.getaddrinfo", hangs):
        try:
            await deliveries.create(engine, tenant="default", url="https://slow.example/")
        finally:
            release.set()
    await deliveries.create(
        engine, tenant="default", url="https://nowhere.example/", guard=Guard(resolve=nowhere)
    )

    assert len(await webhooks.every(engine)) == 2


async def test_an_endpoint_that_led_inward_before_can_still_be_changed(engine: Engine):
    _, made = await create(engine, tenant="default", url="http://127.0.0.1:1/")

    found = await deliveries.change(engine, made.id, lambda it: replace(it, disabled="by hand"))

    assert found.disabled == "by hand"


TOKEN = "t0p/s3cr3t value"
HOOK = "/hook?token=t0p%2Fs3cr3t+value&n=1"


def echoing(status: int, **headers: str) -> Answer:
    """Answers with all that it was asked, as many a receiver does."""
    return replies(status, f"<a href='{html.escape(HOOK)}'>{TOKEN}</a>".encode(), **headers)


async def never(writer: asyncio.StreamWriter) -> None:
    await writer.wait_closed()


@pytest.mark.parametrize(
    ("trouble", "state"),
    [
        (echoing(200), State.SUCCEEDED),
        (echoing(500), State.SCHEDULED),
        (echoing(302, location=HOOK), State.SCHEDULED),
        (echoing(410), State.DEAD),
        (never, State.SCHEDULED),
        (None, State.SCHEDULED),
    ],
    ids=["taken", "refused", "redirected", "gone", "silent", "away"],
)
async def test_neither_the_query_of_an_endpoint_nor_its_secret_is_told_to_anyone(
    tmp_path: Path,
    receiver: Receiver,
    caplog: pytest.LogCaptureFixture,
    trouble: Answer | None,
    state: State,
):
    async with listening() as gone:
        url = gone.url if trouble is None else receiver.url
    receiver.answer = trouble or receiver.answer
    caplog.set_level(logging.DEBUG)
    app = Longshore(f"sqlite:///{tmp_path}/jobs.db", settings=Settings(webhooks=LOCAL))
    async with app:
        engine = app.engine
        await engine.migrate()
        secret, made = await create(engine, tenant="default", url=url + HOOK)
        job_id = await deliveries.test(engine, made, IdSource())
        task = asyncio.create_task(app.work(queues=[webhook.QUEUE]))

        async def ended() -> bool:
            found = await engine.get(job_id)
            return found.state is state

        await eventually(ended, within=20)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        told = {
            "job": await engine.get(job_id),
            "attempts": await engine.attempts(job_id),
            "events": await engine.events(after=0, limit=1_000),
            "audit": await engine.audit_entries(before=10**9, limit=100),
            "metrics": app.metrics.text([]),
            "why": (await webhooks.get(engine, made.id)).disabled,
            # Longshore's own processes silence httpcore, whose debug lines hold all headers.
            "logs": [
                (record.getMessage(), vars(record))
                for record in caplog.records
                if not record.name.startswith("httpcore")
            ],
        }

    assert told["attempts"]
    key = secret.removeprefix("whsec_")
    for place, seen in told.items():
        for hidden in (TOKEN, "s3cr3t", key):
            assert hidden not in repr(seen), place


async def drip(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n")
    while True:
        writer.write(b"x")
        await writer.drain()
        await asyncio.sleep(0.2)


async def flood(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 500 No\r\ntransfer-encoding: chunked\r\n\r\n")
    while True:
        writer.write(b"10000\r\n" + b"x" * 65_536 + b"\r\n")
        await writer.drain()


@pytest.mark.prove
async def test_hostile_receivers_hold_nobody_up(tmp_path: Path, receiver: Receiver):
    url = f"sqlite:///{tmp_path}/jobs.db"
    async with (
        listening() as slow,
        listening() as endless,
        listening() as circle,
        working(url, replace_settings(max_running=2)) as app,
    ):
        slow.answer, endless.answer = drip, flood
        circle.answer = replies(302, location=circle.url)
        for one in (slow, endless, circle, receiver):
            await create(app.engine, tenant="default", url=one.url, events=("job.submitted",))
        for _ in range(12):
            await app.submit("noop")
        await eventually(lambda: len(receiver.requests) == 12, within=25)

        async def tried() -> bool:
            found = (await app.engine.find(JobFilter(type=webhook.TASK), limit=100)).jobs
            return sum(job.failure is not None for job in found) >= 6

        # Each lets go of its slots, time after time.
        await eventually(tried, within=25)

    assert circle.connections <= 12


def replace_settings(**changes: object) -> WebhookSettings:
    facts = {"allowed_networks": LOCAL.allowed_networks, "timeout": LOCAL.timeout}
    return WebhookSettings(**{**facts, **changes})  # pyright: ignore[reportArgumentType]  # as given


@pytest.mark.prove
async def test_a_slot_is_free_within_half_a_minute(engine: Engine, receiver: Receiver):
    receiver.answer = drip
    clock = asyncio.get_running_loop().time
    async with delivering(engine, receiver.url) as (task, made):
        began = clock()
        with pytest.raises(Retry, match="no complete answer"):
            await task.deliver(made.id, "msg_1", "job.dead", "{}")
        assert clock() - began < 30


@pytest.fixture
async def timed(store: str) -> AsyncIterator[tuple[Engine, ManualClock]]:
    """A store whose clock is set by hand."""
    clock = ManualClock()
    engine = open_engine(store, clock=clock)
    await engine.migrate()
    yield engine, clock
    await engine.close()


Worker = Callable[[], Coroutine[object, object, str]]


def workers(engine: Engine, endpoint: Endpoint, *, most: int = 1) -> tuple[Worker, Worker]:
    """What two worker processes do with one delivery after the other, and how each ends."""
    deliveries = count(1)

    def a_worker() -> Worker:
        settings = replace_settings(timeout=timedelta(seconds=0.2), max_running=most)
        task = WebhookTask(lambda: engine, settings)

        async def deliver() -> str:
            with running(replace(CLAIM, delivery=next(deliveries))):
                try:
                    await task.deliver(endpoint.id, "msg_1", "job.dead", "{}")
                except (Retry, Snooze) as end:
                    return f"{type(end).__name__}: {end.reason}"
            return "delivered"

        return deliver

    return a_worker(), a_worker()


BUSY, RESTS = "Snooze: the endpoint is busy", "Snooze: the endpoint keeps failing"


async def test_all_workers_together_have_so_many_slots_of_an_endpoint(
    timed: tuple[Engine, ManualClock], receiver: Receiver
):
    engine, _ = timed
    _, made = await create(engine, tenant="default", url=receiver.url)
    first, second = workers(engine, made, most=2)
    receiver.answer = drip

    ends = await asyncio.gather(first(), first(), second(), second(), second())
    receiver.answer = replies(204)
    after = await second()

    assert sorted(ends)[2:] == [BUSY] * 3
    assert all(end.startswith("Retry") for end in sorted(ends)[:2])
    assert after == "delivered"
    assert receiver.connections == 3


async def test_an_endpoint_that_keeps_failing_rests_and_then_one_delivery_goes_first(
    timed: tuple[Engine, ManualClock], receiver: Receiver
):
    engine, clock = timed
    _, made = await create(engine, tenant="default", url=receiver.url)
    first, second = workers(engine, made, most=4)
    receiver.answer = replies(500)

    failed = [await first(), await second(), await first(), await second(), await first()]
    resting = [await first(), await second()]
    clock.advance(31 * SECOND)
    receiver.answer = drip
    probing = await asyncio.gather(first(), second(), first())

    assert all(end.startswith("Retry") for end in failed)
    assert resting == [RESTS, RESTS]
    assert sorted(probing)[1:] == [BUSY, BUSY]
    assert receiver.connections == 6


async def test_a_store_that_is_away_when_a_message_arrived_does_not_send_it_again(
    engine: Engine, receiver: Receiver
):
    _, made = await create(engine, tenant="default", url=receiver.url)
    flaky = FlakyEngine(engine)
    flaky.lose_answers(1, of=["leave_webhook"])
    first, _ = workers(flaky, made)

    end = await first()

    assert end == "delivered"
