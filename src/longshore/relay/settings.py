"""Where events are shipped to."""

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

__all__ = ["KafkaSettings", "RelaySettings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RelaySettings:
    """How events are shipped."""

    source: str = "/longshore"
    """The `source` of every CloudEvent; let each queue have its own."""
    lease: timedelta = timedelta(seconds=10)
    """Another relay takes over when the one that ships was not heard of for this long."""
    alarm_after: timedelta = timedelta(minutes=5)
    """A consumer that is behind by more than this is told of in the log."""
    progress_after: timedelta = timedelta(minutes=1)
    """Progress that could not be shipped within this long is left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaSettings:
    """The Kafka cluster that gets every event; there is none by default."""

    servers: str = ""
    """Brokers to begin with: `kafka-1:9092,kafka-2:9092`."""
    topic: str = "longshore.events"
    """Where events go. The key is the job's id, so a job's events stay in order."""
    options: tuple[str, ...] = ()
    """More for the client, as librdkafka names it: `security.protocol=SASL_SSL`."""
    options_file: Path | None = None
    """A file with such options, one a line, for those that are secret: `sasl.password=…`."""
