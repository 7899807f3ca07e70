"""Built-in tasks as jobs: submitted, run by a worker, settled."""

from collections.abc import AsyncIterator

import mail_relay
import pytest
from receiver import Receiver, listening, replies

from longshore import JobFailedError, Longshore, PayloadError, Settings, State
from longshore.core import ids
from longshore.tasks.settings import HttpTaskSettings, SmtpSettings, TlsMode


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with listening() as one:
        yield one


def an_app(**settings: object) -> Longshore:
    http = HttpTaskSettings(allowed_networks=("127.0.0.0/8",))
    return Longshore("sqlite://:memory:", settings=Settings(**{"http": http, **settings}))


async def test_every_app_has_the_builtin_tasks():
    assert {"noop", "http.call", "email.send"} <= an_app().tasks.keys()


async def test_a_builtin_task_that_is_turned_off_is_not_served(receiver: Receiver):
    async with an_app(http=HttpTaskSettings(enabled=False)) as app:
        job = await app.submit("http.call", {"method": "GET", "url": receiver.url})
        await app.work(until_idle=True)

        assert "http.call" not in app.tasks
        assert await job.status() is State.READY

    assert receiver.requests == []


async def test_an_http_call_keeps_its_answer_as_its_result(receiver: Receiver):
    async with an_app() as app:
        job = await app.submit("http.call", {"method": "GET", "url": receiver.url})
        await app.work(until_idle=True)
        answer = await job.result()

    assert (answer.status, answer.body) == (200, "thank you")
    assert receiver.requests[0].headers["idempotency-key"] == f'"{job.id}"'


async def test_an_http_call_that_is_tried_again_has_the_same_idempotency_key(
    receiver: Receiver,
):
    async with an_app() as app:
        job = await app.submit("http.call", {"method": "POST", "url": receiver.url})
        receiver.answer = replies(503, retry_after="3600")
        await app.work(until_idle=True)
        waiting = await job.get()
        receiver.answer = replies(200)
        await app.engine.change("retry", [ids.parse(waiting.id)])
        await app.work(until_idle=True)
        done = await job.get()

    keys = [request.headers["idempotency-key"] for request in receiver.requests]
    assert (waiting.state, waiting.failures) == (State.SCHEDULED, 1)
    assert (waiting.run_at - waiting.created_at).total_seconds() >= 3_600
    assert done.state is State.SUCCEEDED
    assert keys == [f'"{job.id}"'] * 2


async def test_an_http_call_that_is_refused_is_dead_at_once(receiver: Receiver):
    receiver.answer = replies(404, b"no such hook")
    async with an_app() as app:
        job = await app.submit("http.call", {"method": "GET", "url": receiver.url})
        await app.work(until_idle=True)

        with pytest.raises(JobFailedError, match="answered 404: no such hook"):
            await job.result()

    assert len(receiver.requests) == 1


async def test_a_payload_that_no_http_call_takes_is_not_even_stored():
    async with an_app() as app:
        with pytest.raises(PayloadError, match="method"):
            await app.submit("http.call", {"method": "BREW", "url": "http://pot.example/"})
        with pytest.raises(PayloadError, match="allowed_networks"):
            await app.submit(
                "http.call",
                b'{"method": "GET", "url": "http://x.example", "allowed_networks": []}',
            )

        assert await app.engine.counts() == []


async def test_mail_is_sent_from_a_thread_with_the_job_in_its_message_id():
    relay = mail_relay.Relay()
    with mail_relay.listening(relay) as port:
        smtp = SmtpSettings(
            host="127.0.0.1", port=port, tls=TlsMode.NONE, sender="shop@example.org"
        )
        async with an_app(smtp=smtp) as app:
            job = await app.submit(
                "email.send", {"to": ["ada@example.org"], "subject": "Hello", "text": "Hello"}
            )
            await app.work(until_idle=True)
            receipt = await job.result()

    assert receipt.message_id == f"<{job.id}@example.org>"
    assert relay.message()["Message-ID"] == receipt.message_id
