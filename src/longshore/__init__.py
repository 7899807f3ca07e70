"""A durable job queue and scheduler for Python.

The larger names are imported when they are first used: a program that needs an error class,
or the help of the command line, does not pay for an event loop.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from longshore.errors import (
    BrokenRecordError,
    CapReachedError,
    ConfigError,
    CursorLostError,
    EngineBusyError,
    EngineError,
    EngineUnavailableError,
    EventsExpiredError,
    ExchangeOrderError,
    ForbiddenError,
    IdempotencyError,
    IdTakenError,
    IllegalTransitionError,
    InFlightError,
    JobFailedError,
    JobNotFoundError,
    KeyEndedError,
    KeyNotFoundError,
    LeaseLostError,
    LongshoreError,
    NotFoundError,
    NotOverHttpError,
    PayloadError,
    QueueFullError,
    QueueNotFoundError,
    QueueNotOpenedError,
    ScheduleNotFoundError,
    SchemaError,
    SubmitError,
    TenantInUseError,
    TenantNotFoundError,
    UnknownTaskError,
    WaitTimeoutError,
    WebhookNotFoundError,
)

if TYPE_CHECKING:
    from longshore.app import Longshore
    from longshore.breakers import Breaker
    from longshore.core.job import JobId
    from longshore.core.schedule import Schedule
    from longshore.core.state import State
    from longshore.directives import Cancel, Dead, Retry, Snooze
    from longshore.engines import open_engine
    from longshore.handle import JobHandle
    from longshore.job_context import current_job
    from longshore.operations.job_documents import Job
    from longshore.options import Options
    from longshore.settings import Settings
    from longshore.streaming.events import JobEvent
    from longshore.task import Task

__all__ = [
    "Breaker",
    "BrokenRecordError",
    "Cancel",
    "CapReachedError",
    "ConfigError",
    "CursorLostError",
    "Dead",
    "EngineBusyError",
    "EngineError",
    "EngineUnavailableError",
    "EventsExpiredError",
    "ExchangeOrderError",
    "ForbiddenError",
    "IdTakenError",
    "IdempotencyError",
    "IllegalTransitionError",
    "InFlightError",
    "Job",
    "JobEvent",
    "JobFailedError",
    "JobHandle",
    "JobId",
    "JobNotFoundError",
    "KeyEndedError",
    "KeyNotFoundError",
    "LeaseLostError",
    "Longshore",
    "LongshoreError",
    "NotFoundError",
    "NotOverHttpError",
    "Options",
    "PayloadError",
    "QueueFullError",
    "QueueNotFoundError",
    "QueueNotOpenedError",
    "Retry",
    "Schedule",
    "ScheduleNotFoundError",
    "SchemaError",
    "Settings",
    "Snooze",
    "State",
    "SubmitError",
    "Task",
    "TenantInUseError",
    "TenantNotFoundError",
    "UnknownTaskError",
    "WaitTimeoutError",
    "WebhookNotFoundError",
    "current_job",
    "open_engine",
]

_HOMES = {
    "Breaker": "breakers",
    "Cancel": "directives",
    "Dead": "directives",
    "Job": "operations.job_documents",
    "JobEvent": "streaming.events",
    "JobHandle": "handle",
    "JobId": "core.job",
    "Longshore": "app",
    "Options": "options",
    "Retry": "directives",
    "Schedule": "core.schedule",
    "Settings": "settings",
    "Snooze": "directives",
    "State": "core.state",
    "Task": "task",
    "current_job": "job_context",
    "open_engine": "engines",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
