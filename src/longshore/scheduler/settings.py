"""What goes into the audit log, and for how long."""

from dataclasses import dataclass, field
from datetime import timedelta

from longshore.core.retention import Retention

__all__ = ["AuditSettings", "Keeping"]


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
