"""Every event reaches a real broker, in order, while it stops and relays are killed."""

import asyncio
import base64
import os
import secrets
import time
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
from confluent_kafka import Consumer, Message
from confluent_kafka.admin import AdminClient, NewTopic

from longshore.contract import Engine
from longshore.core import cloudevent, ids
from longshore.core.event import Event
from longshore.core.job import JobId, NewJob
from longshore.engines import open_engine
from longshore.records import quarantine
from longshore.relay.kafka import KafkaSink
from longshore.relay.relay import Relay
from longshore.relay.settings import KafkaSettings
from longshore.testing.factories import a_job, an_unchecked_job
from longshore.testing.manual import a_worker
from longshore_lab.bus import Ledger, balance, header, read_outbox, read_topic
from longshore_lab.bus_trial import Yard
from longshore_lab.kafka import KafkaServer


@pytest.fixture
def topic() -> str:
    return f"events-{secrets.token_hex(4)}"


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[Engine]:
    engine = open_engine(f"sqlite:///{tmp_path}/jobs.db")
    await engine.migrate()
    yield engine
    await engine.close()


@pytest.mark.slow
async def test_events_are_cloudevents_by_job_and_one_too_large_holds_up_no_other(
    engine: Engine, kafka_server: KafkaServer, topic: str
) -> None:
    large = an_unchecked_job(payload=b'{"x": "%s"}' % (b"x" * 2_000_000))
    small = a_job(trace=f"00-{'a' * 32}-{'b' * 16}-01")
    await engine.submit([large, small])
    worker = await a_worker(engine)
    for claim in await worker.claim(2):
        await worker.succeed(claim)
    await engine.change("purge", [large.id, small.id])
    sink = KafkaSink(KafkaSettings(servers=kafka_server.servers, topic=topic), source="/test")
    relay = Relay(engine, sink, holder="a")

    async with asyncio.timeout(60):
        while not relay.stats.sent:
            await relay.tick()
    await relay.close()

    (aside,) = await quarantine.latest(engine, limit=10)
    events = await read_outbox(engine)
    ledger = balance(events, read_topic(kafka_server.servers, topic))
    assert (ledger.missing, ledger.strange, ledger.disordered) == ([aside.event_id], [], [])
    assert (aside.job_id, len(aside.body) > 2_000_000) == (large.id, True)
    assert "too large" in aside.reason
    (first, *_) = [one for one in events if one.job_id == small.id]
    _check(first, small, _first_record(kafka_server.servers, topic, small.id))


@pytest.fixture
def narrow_topic(kafka_server: KafkaServer, topic: str) -> str:
    """Its broker takes a tenth of what the client would send."""
    admin = AdminClient({"bootstrap.servers": kafka_server.servers})
    wanted = NewTopic(topic, 4, 1, config={"max.message.bytes": "100000"})
    for made in admin.create_topics([wanted]).values():
        made.result(60)
    return topic


@pytest.mark.slow
async def test_an_event_that_the_broker_refuses_is_set_aside_and_the_others_flow(
    engine: Engine, kafka_server: KafkaServer, narrow_topic: str
) -> None:
    noise = base64.b64encode(os.urandom(300_000))
    large, small = a_job(payload=b'{"x":"%s"}' % noise), [a_job() for _ in range(20)]
    await engine.submit([*small[:10], large, *small[10:]])
    await engine.change("cancel", [large.id, *(one.id for one in small)], reason="not wanted")
    await engine.change("purge", [large.id, *(one.id for one in small)])

    ledger = await _shipped(engine, kafka_server, narrow_topic)

    (aside,) = await quarantine.latest(engine, limit=10)
    assert (ledger.missing, ledger.strange, ledger.disordered) == ([aside.event_id], [], [])
    assert aside.job_id == large.id
    assert "too large" in aside.reason


@pytest.mark.slow
async def test_batches_that_the_broker_refuses_become_smaller_until_they_flow(
    engine: Engine, kafka_server: KafkaServer, narrow_topic: str
) -> None:
    jobs = [
        a_job(payload=b'{"x":"%s"}' % secrets.token_hex(20_000).encode()) for _ in range(60)
    ]
    for start in range(0, 60, 20):
        few = [one.id for one in jobs[start : start + 20]]
        await engine.submit(jobs[start : start + 20])
        await engine.change("cancel", few, reason="not wanted")
        await engine.change("purge", few)

    ledger = await _shipped(engine, kafka_server, narrow_topic)

    assert ledger.is_sound
    assert await quarantine.latest(engine, limit=10) == []


@pytest.mark.slow
@pytest.mark.parametrize("password", ["let-me-in", "wrong"])
async def test_a_broker_that_asks_for_a_password_gets_it_from_the_options(
    engine: Engine, kafka_server: KafkaServer, topic: str, tmp_path: Path, password: str
) -> None:
    secrets_file = tmp_path / "kafka.options"
    secrets_file.write_text(f"sasl.password={password}\n")
    settings = KafkaSettings(
        servers=kafka_server.secured_servers,
        topic=topic,
        options=(
            "security.protocol=SASL_PLAINTEXT",
            "sasl.mechanism=PLAIN",
            "sasl.username=anna",
        ),
        options_file=secrets_file,
    )
    relay = Relay(engine, KafkaSink(settings, source="/test"), holder="a")
    await engine.submit([a_job()])
    if password == "wrong":
        relay.leave()

    async with asyncio.timeout(60):
        await relay.tick()
    await relay.close()

    assert (relay.stats.sent, relay.stats.failures) == (
        (0, 1) if password == "wrong" else (1, 0)
    )


async def _shipped(engine: Engine, kafka: KafkaServer, topic: str) -> Ledger:
    """What came of it once a relay has shipped everything."""
    sink = KafkaSink(KafkaSettings(servers=kafka.servers, topic=topic), source="/test")
    relay = Relay(engine, sink, holder="a")
    async with asyncio.timeout(60):
        await relay.tick()
        while any(one.behind for one in await engine.consumers()):
            await relay.tick()
    await relay.close()
    assert relay.stats.failures == 0
    return balance(await read_outbox(engine), read_topic(kafka.servers, topic))


def _first_record(servers: str, topic: str, job_id: JobId) -> Message:
    options = {"bootstrap.servers": servers, "group.id": topic, "auto.offset.reset": "earliest"}
    reader = Consumer(options)
    reader.subscribe([topic])
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        message = reader.poll(1)
        if message is not None and message.key() == ids.text(job_id).encode():
            reader.close()
            return message
    raise TimeoutError("no record of the job")


def _check(event: Event, job: NewJob, message: Message) -> None:
    job_id = ids.text(job.id)
    assert header(message, "ce_id") == event.id
    assert header(message, "ce_type") == "dev.longshore.job.submitted.v1"
    assert (header(message, "ce_specversion"), header(message, "ce_source")) == ("1.0", "/test")
    assert (header(message, "ce_subject"), header(message, "ce_partitionkey")) == (
        job_id,
        job_id,
    )
    assert header(message, "ce_time") == cloudevent.time(event.at)
    assert header(message, "ce_traceparent") == job.trace
    assert header(message, "content-type") == "application/json"
    body = msgspec.json.decode(message.value() or b"")
    assert (body["job"], body["queue"]) == (job_id, job.queue)


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, engine: Engine, tmp_path: Path) -> str:
    if request.param == "postgres":
        return request.getfixturevalue("empty_postgres_url")
    return f"sqlite:///{tmp_path}/jobs.db"


@pytest.mark.slow
async def test_relays_are_killed_and_the_broker_stops_under_load(
    store: str, kafka_server: KafkaServer, topic: str
) -> None:
    yard = Yard(store, kafka_server, topic)

    ledger = await yard.trial(kills=3, outage=3.0)

    assert yard.counter.errors == 0
    assert ledger.is_sound, ledger
    assert ledger.doubles <= ledger.most_doubles(3)
    assert ledger.told > 500
    assert yard.misplaced == (0 if store.startswith("postgres") else None)


@pytest.mark.prove
async def test_fifty_kills_and_a_minute_without_a_broker_lose_nothing(
    empty_postgres_url: str, kafka_server: KafkaServer, topic: str
) -> None:
    yard = Yard(empty_postgres_url, kafka_server, topic)

    ledger = await yard.trial(kills=50, outage=60.0)

    assert yard.counter.errors == 0
    assert ledger.is_sound, ledger
    assert ledger.doubles <= ledger.most_doubles(50)
    assert yard.misplaced == 0
