"""What is kept, and for how long."""

from dataclasses import dataclass, field
from datetime import timedelta

from longshore.core import units
from longshore.core.retention import Retention

__all__ = ["AuditSettings", "Keeping", "SchedulerSettings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerSettings:
    """How long finished things are kept."""

    keep_succeeded: timedelta = timedelta(days=1)
    """Succeeded jobs, with their results and history, are deleted after this long."""
    keep_cancelled: timedelta = timedelta(days=1)
    """Cancelled jobs are deleted after this long."""
    keep_dead: timedelta = timedelta(days=14)
    """Dead jobs are deleted after this long; a `job.purged` event keeps their payload."""
    keep_idempotency: timedelta = timedelta(days=1)
    """Idempotency keys are remembered for this long."""
    keep_outbox: timedelta = timedelta(hours=1)
    """Events are deleted when they are this old and every consumer has passed them."""
    keep_unread: timedelta = timedelta(days=7)
    """Events are kept no longer for a consumer that nobody has read for in this long."""
    most_unread: int = 1_000_000
    """When more batches of events than this wait for a consumer, `job.progress` is left out of
    the outbox until half of them are read; every other event is stored at any time."""

    @property
    def retention(self) -> Retention:
        """As the engine takes it."""
        return Retention(
            succeeded=units.microseconds(self.keep_succeeded),
            cancelled=units.microseconds(self.keep_cancelled),
            dead=units.microseconds(self.keep_dead),
            idempotency=units.microseconds(self.keep_idempotency),
            outbox=units.microseconds(self.keep_outbox),
            consumer=units.microseconds(self.keep_unread),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditSettings:
    """The log of who did what. What somebody orders is always in it."""

    transitions: bool = False
    """Every transition of every job goes into the log too, and who submitted what over HTTP.
    Schedulers and API processes have to agree on it."""
    keep: timedelta = timedelta(days=90)
    """Entries are cut off when they are this old."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Keeping:
    """What a scheduler keeps."""

    retention: Retention = field(default_factory=Retention)
    transitions: bool = False
    """Every transition, in the audit log."""
    most_unread: int = 1_000_000
    """Batches that may wait for a consumer of the outbox before progress is left out."""
