"""Events on the screen, from the outbox or from Kafka."""

import asyncio
import secrets
from collections.abc import AsyncGenerator
from datetime import datetime
from typing import Any

import msgspec

from longshore.cli import render
from longshore.core import cloudevent
from longshore.core.event import Name
from longshore.core.instant import rfc3339
from longshore.core.state import State
from longshore.errors import ConfigError
from longshore.operations.events import Heard
from longshore.relay.settings import KafkaSettings
from longshore.streaming.events import JobEvent

__all__ = ["fits", "line", "names_of", "of_kafka", "of_record"]

_PAGE = 500
_POLL = 0.5
_LEADS_TO: dict[Name, State] = {
    Name.READY: State.READY,
    Name.RELEASED: State.READY,
    Name.RECLAIMED: State.READY,
    Name.REPLAYED: State.READY,
    Name.STARTED: State.RUNNING,
    Name.SUCCEEDED: State.SUCCEEDED,
    Name.RETRYING: State.SCHEDULED,
    Name.SNOOZED: State.SCHEDULED,
    Name.DEAD: State.DEAD,
    Name.CANCELLED: State.CANCELLED,
}
_facts = msgspec.json.Decoder(dict[str, Any])


def line(one: JobEvent) -> str:
    """An event for people."""
    at = rfc3339(one.at)
    rest = msgspec.json.encode(one.details).decode()[:200] if one.details else ""
    place = f"{one.queue}/{one.type}"
    return f"{at}  {one.name:<20}  {one.job_id or '-'}  {place}  {rest}".rstrip()


def names_of(name: Name | None, state: State | None) -> list[Name]:
    """The events that have this name and lead to this state; none of both: any, so none."""
    if state is None:
        return [] if name is None else [name]
    found = [one for one, leads_to in _LEADS_TO.items() if leads_to is state]
    if name is None:
        return found
    if name not in found:
        raise ConfigError(f"{name} does not lead to the state {state}")
    return [name]


def fits(one: JobEvent, which: Heard) -> bool:
    """Whether an event is one of those that are meant."""
    names = which.get("names")
    return (
        which.get("queue") in (None, one.queue)
        and which.get("type") in (None, one.type)
        and which.get("job_id") in (None, one.job_id)
        and (names is None or one.name in names)
    )


async def of_kafka(settings: KafkaSettings, *, from_start: bool) -> AsyncGenerator[JobEvent]:
    """What a topic gets, by a reader that leaves no trace there."""
    try:
        from confluent_kafka import Consumer, KafkaException  # an extra

        from longshore.relay.kafka import client_options
    except ImportError as error:
        raise ConfigError("reading Kafka needs `pip install longshore[kafka]`") from error
    options: dict[str, Any] = {
        "group.id": f"longshore-tail-{secrets.token_hex(4)}",
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest" if from_start else "latest",
        "log_level": 3,
        **client_options(settings),
    }
    consumer = Consumer(options)
    consumer.subscribe([settings.topic])
    try:
        while True:
            for message in await asyncio.to_thread(consumer.consume, _PAGE, _POLL):
                error = message.error()
                if error is not None and not error.retriable():
                    raise ConfigError(f"kafka: {error.str()}")
                if error is None:
                    event = of_record(message.headers(), message.value())
                    if event is None:
                        render.note("a record that is no event of Longshore is left out")
                    else:
                        yield event
    except KafkaException as error:
        raise ConfigError(f"kafka: {error.args[0].str()}") from error
    finally:
        consumer.close()


def of_record(headers: Any, value: Any) -> JobEvent | None:
    """The event that a record of the topic tells; None of a record of somebody else."""
    listed: list[tuple[str, Any]] = list(headers or ())
    try:
        said = {name: bytes(text).decode() for name, text in listed if text is not None}
        facts = _facts.decode(value or b"{}")
        return JobEvent(
            id=said["ce_id"],
            name=said["ce_type"].removeprefix(cloudevent.PREFIX).rpartition(".")[0],
            at=datetime.fromisoformat(said["ce_time"]),
            job_id=facts.pop("job", None),
            queue=facts.pop("queue"),
            type=facts.pop("type"),
            tenant=facts.pop("tenant"),
            details=facts,
            trace=said.get("ce_traceparent"),
        )
    except (KeyError, ValueError, msgspec.DecodeError):
        return None
