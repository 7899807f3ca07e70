"""Events, and who reads them, on the command line."""

from cli_steps import Queue, Shell

from longshore.cli import events
from longshore.contract import Engine
from longshore.core import cloudevent
from longshore.core.event import Event, Name
from longshore.streaming.events import Told
from longshore.testing.factories import an_id


def test_events_are_shown_from_the_start_by_queue_job_and_state(shell: Shell, queue: Queue):
    mail, other = queue.submit(queue="mail"), queue.submit(queue="other")
    queue.settle(mail)

    tail = ("events", "tail", "--from-start", "--limit")
    ours = shell.lines(*tail, 3, "--queue", "mail")
    (done,) = shell.lines(*tail, 1, "--state", "succeeded")
    (theirs,) = shell.lines(*tail, 1, "--job", other)
    line = shell(*tail, 1, "--event", "job.started").stdout

    assert [one["name"] for one in ours] == ["job.submitted", "job.started", "job.succeeded"]
    assert {one["job_id"] for one in ours} == {mail}
    assert (done["job_id"], done["queue"]) == (mail, "mail")
    first, second = (one["id"].partition(".") for one in (ours[0], theirs))
    assert theirs["name"] == "job.submitted"
    assert (int(first[0]) < int(second[0]), second[2]) == (True, "0")
    assert "job.started" in line
    assert mail in line
    assert shell("events", "tail", "--kafka").exit_code == 2


def test_an_event_that_leads_to_another_state_is_a_mistake(shell: Shell, queue: Queue):
    refused = shell("events", "tail", "--state", "dead", "--event", "job.started")

    assert refused.exit_code == 2
    assert "job.started does not lead to the state dead" in refused.stderr


def test_a_record_of_kafka_is_shown_as_the_event_that_it_is():
    event = Event(
        id="7.1",
        name=Name.RETRYING,
        at=1_767_225_600_000_001,
        job_id=an_id(),
        queue="mail",
        type="mail.send",
        tenant="acme",
        details={"delivery": 1},
        trace="00-1-2-01",
    )
    headers = [
        ("ce_id", event.id.encode()),
        ("ce_type", cloudevent.kind(event).encode()),
        ("ce_time", cloudevent.time(event.at).encode()),
        ("ce_traceparent", b"00-1-2-01"),
    ]
    body = cloudevent.data(event)

    told = events.of_record(headers, body)
    foreign = [
        events.of_record([], body),
        events.of_record(None, None),
        events.of_record(headers, b"[]"),
        events.of_record(headers, b"no JSON"),
        events.of_record([*headers, ("odd", b"\xff")], body),
    ]

    assert told == Told.of(event).event
    assert foreign == [None] * len(foreign)


def test_consumers_are_listed_and_forgotten(shell: Shell, queue: Queue):
    queue.submit()

    async def take(engine: Engine) -> None:
        assert await engine.take_cursor("kafka", holder="host:1", lease=60_000_000)

    empty = shell("outbox", "list").stderr
    queue.ask(take)
    (listed,) = shell.lines("outbox", "list")
    shown = shell("outbox", "list").stdout
    forgotten = shell("outbox", "forget", "kafka")

    assert "nobody reads events" in empty
    assert (listed["name"], listed["behind"], listed["holder"]) == ("kafka", 1, "host:1")
    assert "host:1" in shown
    assert forgotten.exit_code == 0
    assert shell("outbox", "forget", "kafka").exit_code == 3
    assert shell.lines("outbox", "quarantined") == []


def test_a_relay_without_a_sink_says_what_to_set(shell: Shell, queue: Queue):
    refused = shell("relay")

    assert refused.exit_code == 2
    assert "kafka.servers" in refused.stderr
