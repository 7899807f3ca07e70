"""What a relay hands to Kafka, with the broker that the client library has for tests."""

from longshore.core.event import Event, Name
from longshore.core.job import JobId
from longshore.relay.kafka import KafkaSink
from longshore.relay.settings import KafkaSettings


async def keep() -> None:
    return None


async def test_an_event_that_cannot_be_written_is_set_aside_and_the_others_flow():
    settings = KafkaSettings(servers="", options=("test.mock.num.brokers=1",))
    sink = KafkaSink(settings, source="/test")
    # Keys that the outbox's form has, and JSON has not.
    details: list[dict[str, object]] = [{}, {"a": {(1, 2): 3}}, {}]
    events = [
        Event(f"1.{place}", Name.SUBMITTED, 1, JobId(bytes(16)), "q", "t", "default", one)
        for place, one in enumerate(details)
    ]

    refused = await sink.send(events, keep=keep)
    again = await sink.send(events[2:], keep=keep)
    await sink.close()

    assert [one.event.id for one in refused] == ["1.1"]
    assert "cannot be written" in refused[0].reason
    assert again == []
