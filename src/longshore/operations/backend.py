"""What commands and apps ask for, on an engine or over HTTP."""

from typing import TYPE_CHECKING, TypeAlias, Union

from longshore.operations.audit import AuditOperations
from longshore.operations.breakers import BreakerOperations
from longshore.operations.broken_records import BrokenRecordOperations
from longshore.operations.declarations import DeclarationOperations
from longshore.operations.events import EventOperations
from longshore.operations.jobs import JobOperations
from longshore.operations.keys import KeyOperations
from longshore.operations.lines import LineOperations
from longshore.operations.outbox import OutboxOperations
from longshore.operations.queues import QueueOperations
from longshore.operations.schedules import ScheduleOperations
from longshore.operations.stats import StatsOperations
from longshore.operations.tenants import TenantOperations
from longshore.operations.webhooks import WebhookOperations
from longshore.operations.workers import WorkerOperations

if TYPE_CHECKING:
    from longshore.client import Client

__all__ = ["Backend", "EngineBackend"]


class EngineBackend(
    JobOperations,
    QueueOperations,
    WorkerOperations,
    DeclarationOperations,
    ScheduleOperations,
    TenantOperations,
    KeyOperations,
    WebhookOperations,
    LineOperations,
    BreakerOperations,
    StatsOperations,
    BrokenRecordOperations,
    OutboxOperations,
    EventOperations,
    AuditOperations,
):
    """Every operation, on an engine that is open. `longshore.client.Client` has the same."""


# A string would be no type at run time, where it stands in other unions.
Backend: TypeAlias = Union[EngineBackend, "Client"]
"""A type checker tries each call on both, so neither can fall behind."""
