"""The ledger of an event bus: what a topic holds, against what the outbox told."""

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from longshore.contract.outbox import Outbox
from longshore.core import cloudevent
from longshore.core.event import Event, expand
from longshore.relay.relay import MOST_EVENTS

__all__ = ["Ledger", "Record", "balance", "header", "read_outbox", "read_topic"]

_SECONDS = 30.0
_PAGE = 1_000


@dataclass(frozen=True, slots=True)
class Record:
    """What the ledger needs of a record."""

    id: str
    key: str
    partition: int


@dataclass(frozen=True, slots=True)
class Ledger:
    """How a topic and an outbox differ."""

    told: int
    records: int
    missing: list[str]
    """Events that the topic does not have."""
    strange: list[str]
    """Records that no event explains."""
    disordered: list[str]
    """Keys whose events, each where it came first, are not in their order."""
    doubles: int
    """Records of events that came before."""
    largest: int
    """Events of the largest batch: what has to be noted at once."""

    @property
    def is_sound(self) -> bool:
        """Nothing is missing, strange or out of order; doubles are allowed."""
        return not (self.missing or self.strange or self.disordered)

    def most_doubles(self, kills: int) -> int:
        """How many there may be after so many relays were killed: one handing over of each."""
        return kills * max(MOST_EVENTS, self.largest)


def balance(events: Sequence[Event], records: Iterable[Record]) -> Ledger:
    """Compare them. Records of a partition are in the order of the topic."""
    wanted: dict[str, list[str]] = {}
    for event in events:
        wanted.setdefault(cloudevent.subject(event), []).append(event.id)
    found: dict[str, dict[str, None]] = {}
    seen: Counter[str] = Counter()
    for record in records:
        seen[record.id] += 1
        found.setdefault(record.key, {}).setdefault(record.id)
    ids = {event.id for event in events}
    return Ledger(
        told=len(events),
        records=seen.total(),
        missing=sorted(ids - seen.keys()),
        strange=sorted(seen.keys() - ids),
        disordered=sorted(
            key
            for key, order in wanted.items()
            if (got := list(found.get(key, {}))) != [one for one in order if one in seen]
            and set(got) <= ids
        ),
        doubles=seen.total() - len(seen),
        largest=max(Counter(one.id.partition(".")[0] for one in events).values(), default=0),
    )


async def read_outbox(outbox: Outbox) -> list[Event]:
    """Every event that is kept."""
    found: list[Event] = []
    after = 0
    while batches := await outbox.events(after=after, limit=_PAGE):
        found += [event for batch in batches for event in expand(batch)]
        after = batches[-1].position
    return found


def read_topic(servers: str, topic: str) -> list[Record]:
    """Every record of a topic, partition by partition."""
    options = {
        "bootstrap.servers": servers,
        "group.id": "longshore-ledger",
        "enable.auto.commit": False,
        "enable.partition.eof": False,
    }
    consumer = Consumer(options)
    try:
        return _read_all(consumer, topic)
    finally:
        consumer.close()


def header(message: Message, name: str) -> str:
    """One header of a record as text."""
    found = message.headers() or []
    listed = found.items() if isinstance(found, dict) else found
    for one, value in listed:
        if one == name and value is not None:
            return value if isinstance(value, str) else value.decode()
    raise KeyError(name)


def _ends(consumer: Consumer, topic: str) -> dict[int, int]:
    """Where each partition that has records ends."""
    partitions = consumer.list_topics(topic, timeout=_SECONDS).topics[topic].partitions
    ends: dict[int, int] = {}
    for number in partitions:
        place = TopicPartition(topic, number)
        low, high = consumer.get_watermark_offsets(place, timeout=_SECONDS)
        if high > low:
            ends[number] = high
    return ends


def _read_all(consumer: Consumer, topic: str) -> list[Record]:
    ends = _ends(consumer, topic)
    consumer.assign([TopicPartition(topic, number, 0) for number in ends])
    found: list[Record] = []
    deadline = time.monotonic() + _SECONDS
    while ends:
        messages = consumer.consume(10_000, timeout=0.5)
        if messages:
            deadline = time.monotonic() + _SECONDS
        elif time.monotonic() > deadline:
            raise TimeoutError(f"{topic} ended too soon")
        for message in messages:
            error = message.error()
            if error is not None:
                raise KafkaException(error)
            number, offset = message.partition() or 0, message.offset() or 0
            key = message.key() or b""
            name = header(message, "ce_id")
            found.append(Record(name, key if isinstance(key, str) else key.decode(), number))
            if offset + 1 >= ends.get(number, 0):
                ends.pop(number, None)
    return found
