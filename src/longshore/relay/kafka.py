"""Kafka as a sink: CloudEvents in binary mode, keyed by job, by an idempotent producer.

A message never times out: the client sends it again and again, in order, and whoever waits
decides when to give up. Then all that waits is purged at once, so that of a partition's
messages a first part is kept and no later one: what is sent again fits behind it.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
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
        self._failed: list[tuple[KafkaError, Event]] = []
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
        self._failed.clear()
        refused: list[Refused] = []
        began = kept = time.monotonic()
        is_told = False
        try:
            producer = self._producer or self._open()
            await asyncio.to_thread(self._produce, producer, events, refused)
            while await asyncio.to_thread(producer.flush, _EVERY):
                if time.monotonic() - kept >= _EVERY:
                    await keep()
                    kept = time.monotonic()
                if not is_told and kept - began > _PATIENCE:
                    is_told = True
                    log.warning("kafka does not answer", extra={"error": self._trouble})
        except BaseException as error:
            self._drop()
            if isinstance(error, _BROKEN):
                raise SinkError(str(error.args[0])) from error
            raise
        if is_told:
            log.info("kafka answers again", extra={"seconds": round(kept - began)})
        return refused + self._judge()

    async def close(self) -> None:
        """Give up what is not sent."""
        self._drop()

    def _open(self) -> Producer:
        try:
            self._producer = Producer({**self._options, "error_cb": self._hear})
        except KafkaException as error:
            raise ConfigError(f"kafka: {error.args[0].str()}") from error
        return self._producer

    def _drop(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.purge()
            # What was in flight leaves a gap now, which is fatal to a producer without gaps.
            with suppress(*_BROKEN):
                producer.flush(_LAST_WORDS)

    def _produce(
        self, producer: Producer, events: Sequence[Event], refused: list[Refused]
    ) -> None:
        produce = partial(producer.produce, self._topic)
        for event in events:
            body = cloudevent.data(event)
            key = cloudevent.subject(event)
            headers, report = self._headers.of(event, key), partial(self._report, event)
            try:
                produce(value=body, key=key, headers=headers, on_delivery=report)
            except KafkaException as error:
                fault: KafkaError = error.args[0]
                if fault.code() not in _POISON:
                    raise
                refused.append(Refused(event, fault.str(), body))

    def _hear(self, error: KafkaError) -> None:
        self._trouble = error.str()

    def _report(self, event: Event, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            self._failed.append((error, event))

    def _judge(self) -> list[Refused]:
        """Those that brokers refuse for good, or SinkError when it is not for good."""
        for error, _ in self._failed:
            if error.code() not in _POISON:
                self._drop()
                raise SinkError(error.str())
        return [
            Refused(event, error.str(), cloudevent.data(event)) for error, event in self._failed
        ]


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
