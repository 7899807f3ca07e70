"""Events on the screen, from the outbox or from Kafka."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Coroutine
from dataclasses import dataclass
from typing import Any

import msgspec

from longshore.cli import documents
from longshore.cli.documents import Document
from longshore.core import cloudevent
from longshore.core.event import Event, Name, expand
from longshore.core.state import State
from longshore.errors import ConfigError
from longshore.outbox import Outbox
from longshore.relay.settings import KafkaSettings

__all__ = ["Happening", "Wanted", "of_kafka", "of_outbox", "run"]

_PAGE = 500
_PAUSE = 0.1
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


@dataclass(frozen=True, slots=True)
class Happening:
    """An event, wherever it was read."""

    id: str
    name: str
    at: str
    facts: dict[str, Any]
    """What it tells, as Kafka has it."""

    def document(self) -> Document:
        """For programs."""
        return {"id": self.id, "name": self.name, "at": self.at, **self.facts}

    def line(self) -> str:
        """For people."""
        facts = dict(self.facts)
        whose = str(facts.pop("job", "-"))
        place = f"{facts.pop('queue', '')}/{facts.pop('type', '')}"
        facts.pop("tenant", None)
        rest = msgspec.json.encode(facts).decode()[:200] if facts else ""
        return f"{self.at}  {self.name:<20}  {whose}  {place}  {rest}".rstrip()


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which events are shown."""

    queue: str | None
    type: str | None
    job: str | None
    state: State | None
    name: Name | None

    def fits(self, one: Happening) -> bool:
        """Whether this is one of them."""
        facts = one.facts
        return (
            self.queue in (None, facts.get("queue"))
            and self.type in (None, facts.get("type"))
            and self.job in (None, facts.get("job"))
            and self.name in (None, one.name)
            and (self.state is None or _leads_to(one.name) is self.state)
        )


def run(main: Coroutine[Any, Any, None]) -> None:
    """Run it to its end."""
    asyncio.run(main)


async def of_outbox(outbox: Outbox, *, from_start: bool) -> AsyncIterator[Happening]:
    """What happens, from now on or from the oldest event that is kept."""
    after = 0 if from_start else (await outbox.span()).last
    while True:
        batches = await outbox.events(after=after, limit=_PAGE)
        for batch in batches:
            after = batch.position
            for event in expand(batch):
                yield _happening(event)
        if len(batches) < _PAGE:
            await asyncio.sleep(_PAUSE)


async def of_kafka(settings: KafkaSettings, *, from_start: bool) -> AsyncIterator[Happening]:
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
                    yield _of_record(message.headers(), message.value())
    except KafkaException as error:
        raise ConfigError(f"kafka: {error.args[0].str()}") from error
    finally:
        consumer.close()


def _happening(event: Event) -> Happening:
    facts = msgspec.json.decode(cloudevent.data(event))
    return Happening(event.id, event.name, str(documents.instant(event.at)), facts)


def _of_record(headers: Any, value: Any) -> Happening:
    listed: list[tuple[str, Any]] = list(headers or ())
    said = {name: bytes(text).decode() for name, text in listed if text is not None}
    kind = said.get("ce_type", "").removeprefix(cloudevent.PREFIX).rpartition(".")[0]
    facts = msgspec.json.decode(value or b"{}", type=dict[str, Any])
    return Happening(said.get("ce_id", ""), kind, said.get("ce_time", ""), facts)


def _leads_to(name: str) -> State | None:
    return _LEADS_TO.get(Name(name)) if name in list(Name) else None
