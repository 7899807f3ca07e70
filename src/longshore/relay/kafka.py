"""Kafka as a sink: CloudEvents in binary mode, keyed by job, by an idempotent producer.

A message never times out: the client sends it again and again, in order, and whoever waits
decides when to give up. Then all that waits is purged at once, so that of a partition's
messages a first part is kept and no later one: what is sent again fits behind it.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from longshore.core import cloudevent
from longshore.core.event import Event
from longshore.errors import ConfigError
from longshore.relay.settings import KafkaSettings
from longshore.relay.sink import Refused, SinkError

__all__ = ["KafkaSink", "client_options"]

log = logging.getLogger("longshore.relay")

NAME = "kafka"
_FIXED = {
    "enable.idempotence": True,
    "enable.gapless.guarantee": True,
    "acks": "all",
    "message.timeout.ms": 0,
    "delivery.report.only.error": True,
}
_DEFAULTS: dict[str, object] = {
    "client.id": "longshore-relay",
    "compression.type": "lz4",
    "linger.ms": 5,
    "queue.buffering.max.messages": 200_000,
    "topic.metadata.propagation.max.ms": 5_000,
    "log_level": 3,
}
_POISON = {KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.INVALID_RECORD}
_BROKEN = (KafkaException, SystemError)
"""What the client raises after a fatal error: the second when callbacks were still to come."""
_EVERY = 1.0
_PATIENCE = 10.0
"""Seconds until a broker that does not answer is told of as one that is down."""
_LAST_WORDS = 1.0
_NOTHING: Mapping[str, object] = {}
_BATCH_BYTES, _LEAST_BATCH_BYTES = 1_000_000, 16_000
"""What the client puts into a batch unless it is told otherwise, and the least it is told."""


def client_options(settings: KafkaSettings) -> dict[str, object]:
    """The client's options, or ConfigError. Those of the settings come first."""
    lines = list(settings.options)
    if settings.options_file is not None:
        try:
            lines += settings.options_file.read_text("utf-8").splitlines()
        except OSError as error:
            raise ConfigError(f"kafka.options_file: {error.strerror}") from error
    found: dict[str, object] = {}
    for line in lines:
        name, equals, value = line.partition("=")
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if not equals or not name.strip():
            raise ConfigError("kafka.options: each has to look like name=value")
        found[name.strip()] = value.strip()
    return {"bootstrap.servers": settings.servers, **found}


class KafkaSink:
    """Every event as a record of one topic."""

    def __init__(self, settings: KafkaSettings, *, source: str) -> None:
        given = client_options(settings)
        for name in _FIXED.keys() & given.keys():
            raise ConfigError(f"kafka.options: {name} is not to be set; order depends on it")
        self._options: dict[str, object] = {**_DEFAULTS, **given, **_FIXED}
        self._topic = settings.topic
        self._headers = _Headers(source)
        self._producer: Producer | None = None
        self._failed: list[KafkaError] = []
        self._trouble = ""
        """What the client last said of its brokers."""
        self._open()  # options that make no sense are told of at once

    @property
    def name(self) -> str:
        """The consumer that it is."""
        return NAME

    async def send(
        self, events: Sequence[Event], *, keep: Callable[[], Awaitable[None]]
    ) -> list[Refused]:
        """Return when brokers have written every event, or refused it for good."""
        wait = _Wait(keep)
        try:
            producer = self._producer or self._open()
            return await self._deliver(producer, events, wait)
        except _PoisonError as error:
            # With the one that is refused the broker refuses all that it came along with, and
            # a producer without gaps goes no further.
            log.warning("kafka refuses a batch", extra={"error": str(error)})
            self._drop()
        except BaseException:
            self._drop()
            raise
        return await self._send_singly(events, wait)

    async def close(self) -> None:
        """Give up what is not sent."""
        self._drop()

    async def _send_singly(self, events: Sequence[Event], wait: "_Wait") -> list[Refused]:
        """One after the other, so that what is refused is refused for itself.

        With one on its way there can be no gap, and a producer that allows for gaps goes on.
        """
        refused: list[Refused] = []
        producer = self._made({"enable.gapless.guarantee": False})
        try:
            for event in events:
                try:
                    refused += await self._deliver(producer, [event], wait)
                except _PoisonError as error:
                    refused.append(Refused(event, str(error), cloudevent.data(event)))
        finally:
            _give_up(producer)
        if not refused:
            self._take_less()
        return refused

    async def _deliver(
        self, producer: Producer, events: Sequence[Event], wait: "_Wait"
    ) -> list[Refused]:
        """Those that the client refuses; _PoisonError when a broker refuses any."""
        self._failed.clear()
        refused: list[Refused] = []
        sent = 0
        try:
            while sent < len(events):
                await wait.on()
                few = await asyncio.to_thread(self._produce, producer, events[sent:], refused)
                while await asyncio.to_thread(producer.flush, _EVERY):
                    await wait.on(self._trouble)
                self._judge()
                wait.end()
                if not few:
                    raise SinkError("an event is larger than queue.buffering.max.kbytes")
                sent += few
        except _BROKEN as error:
            _give_up(producer)
            self._judge()
            raise SinkError(str(error.args[0])) from error
        return refused

    def _take_less(self) -> None:
        """Smaller batches from now on: no event is too large, so it is what they came in."""
        size = int(str(self._options.get("batch.size", _BATCH_BYTES))) // 2
        if size >= _LEAST_BATCH_BYTES:
            self._options["batch.size"] = size
            log.warning("kafka gets smaller batches", extra={"size_bytes": size})

    def _open(self) -> Producer:
        self._producer = self._made()
        return self._producer

    def _made(self, changes: Mapping[str, object] = _NOTHING) -> Producer:
        try:
            return Producer({**self._options, **changes, "error_cb": self._hear})
        except KafkaException as error:
            raise ConfigError(f"kafka: {error.args[0].str()}") from error

    def _drop(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            _give_up(producer)

    def _produce(
        self, producer: Producer, events: Sequence[Event], refused: list[Refused]
    ) -> int:
        """How many there was room for in the client."""
        produce = partial(producer.produce, self._topic)
        for place, event in enumerate(events):
            try:
                body = cloudevent.data(event)
                key = cloudevent.subject(event)
                headers = self._headers.of(event, key)
            except Exception as error:
                # Whatever it holds: it is set aside, and those behind it flow.
                refused.append(Refused(event, f"it cannot be written: {error}", b""))
                continue
            try:
                produce(value=body, key=key, headers=headers, on_delivery=self._report)
            except BufferError:
                return place
            except KafkaException as error:
                fault: KafkaError = error.args[0]
                if fault.code() not in _POISON:
                    raise
                refused.append(Refused(event, fault.str(), body))
        return len(events)

    def _hear(self, error: KafkaError) -> None:
        self._trouble = error.str()

    def _report(self, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            self._failed.append(error)

    def _judge(self) -> None:
        """Raise if anything failed: _PoisonError if that is for good, else SinkError."""
        for error in self._failed:
            if error.code() in _POISON:
                raise _PoisonError(error.str())
        for error in self._failed:
            raise SinkError(error.str())


class _PoisonError(Exception):
    """A broker will never take an event, or the batch that it came in."""


class _Wait:
    """Waits for brokers in steps of a second, and says so to whoever waits along."""

    def __init__(self, keep: Callable[[], Awaitable[None]]) -> None:
        self._keep = keep
        self._began = self._kept = time.monotonic()
        self._is_told = False

    async def on(self, trouble: str = "") -> None:
        """Wait on, or raise what `keep` raises."""
        if time.monotonic() - self._kept >= _EVERY:
            await self._keep()
            self._kept = time.monotonic()
        if not self._is_told and self._kept - self._began > _PATIENCE:
            self._is_told = True
            log.warning("kafka does not answer", extra={"error": trouble})

    def end(self) -> None:
        """They have answered."""
        now = time.monotonic()
        if self._is_told:
            log.info("kafka answers again", extra={"seconds": round(now - self._began)})
        self._began, self._is_told = now, False


def _give_up(producer: Producer) -> None:
    """Let its reports come, and its threads go. Safe to call twice."""
    with suppress(RuntimeError):  # it is closed already
        producer.purge()
        # What was in flight leaves a gap now, which is fatal to a producer without gaps.
        with suppress(*_BROKEN):
            producer.flush(_LAST_WORDS)
        # After a fatal error threads may stay for good otherwise. Older clients have no close.
        close = getattr(producer, "close", None)
        if close is not None:
            with suppress(*_BROKEN):
                close()


class _Headers:
    """The attributes of events as Kafka's binary mode has them."""

    def __init__(self, source: str) -> None:
        self._common = [
            ("ce_specversion", cloudevent.SPEC_VERSION),
            ("ce_source", source),
            ("content-type", cloudevent.CONTENT_TYPE),
        ]
        self._at = -1
        self._time = ""

    def of(self, event: Event, subject: str) -> list[tuple[str, str | bytes | None]]:
        if event.at != self._at:
            self._at, self._time = event.at, cloudevent.time(event.at)
        headers: list[tuple[str, str | bytes | None]] = [
            *self._common,
            ("ce_id", event.id),
            ("ce_type", cloudevent.kind(event)),
            ("ce_time", self._time),
            ("ce_subject", subject),
            ("ce_partitionkey", subject),
            ("ce_sequence", cloudevent.sequence(event)),
        ]
        if event.trace is not None:
            headers.append(("ce_traceparent", event.trace))
        return headers
