"""Every exception Longshore raises.

LongshoreError                    .code  a stable string: HTTP problem type, CLI exit, log field
├── ConfigError                   a setting, URL or declaration makes no sense
│   ├── ForbiddenError            the API key may not do this
│   └── NotOverHttpError          it is done where the store can be reached
├── SubmitError                   the job was not accepted
│   ├── PayloadError              too large, too deep, not encodable, or not what the task takes
│   ├── UnknownTaskError          no task has this type name
│   ├── IdempotencyError          the key was used before with other content
│   ├── IdTakenError              the id that was chosen belongs to another job
│   └── QueueFullError            .retry_after
├── NotFoundError                 JobNotFoundError · QueueNotFoundError · ScheduleNotFoundError
│                                 · TenantNotFoundError · KeyNotFoundError
│                                 · WebhookNotFoundError
├── TenantInUseError              .jobs .schedules
├── CapReachedError               the tenant has as many of something as it may have
├── KeyEndedError                 the API key was revoked or has expired
├── IllegalTransitionError        .state .verb
├── LeaseLostError                the session is no longer live; nothing it sent was applied
├── CursorLostError               another process reads the outbox for this consumer
├── ExchangeOrderError            an exchange number that is neither the last one nor the next
├── QueueNotOpenedError           an exchange asked for a queue that its session did not open
├── EventsExpiredError            what happened after this is no longer kept
├── JobFailedError                what `result()` raises for a job that ended dead or cancelled
├── WaitTimeoutError              the time the caller was willing to wait is over
└── EngineError                   the store failed; nothing is wrong with the request
    ├── EngineUnavailableError    trying again may help: gone, refused, read-only, disk full
    ├── EngineBusyError           trying again will help: someone else holds the lock
    │   └── InFlightError         another submit with the same key has not ended yet
    ├── BrokenRecordError         what is stored under this name cannot be decoded
    └── SchemaError               the store's schema is missing, older, newer or changed
"""

from typing import ClassVar

__all__ = [
    "BrokenRecordError",
    "CapReachedError",
    "ConfigError",
    "CursorLostError",
    "EngineBusyError",
    "EngineError",
    "EngineUnavailableError",
    "EventsExpiredError",
    "ExchangeOrderError",
    "ForbiddenError",
    "IdempotencyError",
    "IllegalTransitionError",
    "InFlightError",
    "JobFailedError",
    "JobNotFoundError",
    "KeyEndedError",
    "KeyNotFoundError",
    "LeaseLostError",
    "LongshoreError",
    "NotFoundError",
    "NotOverHttpError",
    "PayloadError",
    "QueueFullError",
    "QueueNotFoundError",
    "QueueNotOpenedError",
    "ScheduleNotFoundError",
    "SchemaError",
    "SubmitError",
    "TenantInUseError",
    "TenantNotFoundError",
    "UnknownTaskError",
    "WaitTimeoutError",
    "WebhookNotFoundError",
]


class LongshoreError(Exception):
    """Base of all errors that Longshore raises on purpose."""

    code: ClassVar[str] = "longshore"


class ConfigError(LongshoreError):
    """A setting, URL or declaration makes no sense; nothing was started."""

    code = "config"


class ForbiddenError(ConfigError):
    """The API key may not do this: it lacks a scope, or it is another tenant's."""

    code = "forbidden"


class NotOverHttpError(ConfigError):
    """A service does not do this for its callers: it is done where the store can be reached."""

    code = "not_over_http"


class SubmitError(LongshoreError):
    """The job was not accepted, and nothing of it was stored."""

    code = "submit"


class PayloadError(SubmitError):
    """The arguments cannot travel as a payload, or are not what the task takes."""

    code = "payload"


class UnknownTaskError(SubmitError):
    """No task has this type name."""

    code = "unknown_task"

    def __init__(self, type_name: str, suggestion: str | None = None) -> None:
        hint = f"; did you mean {suggestion!r}?" if suggestion else ""
        super().__init__(f"no task is registered as {type_name!r}{hint}")
        self.type = type_name


class IdempotencyError(SubmitError):
    """The idempotency key was used before for a job with other content."""

    code = "idempotency"

    def __init__(self, key: str, existing: str) -> None:
        super().__init__(
            f"idempotency key {key!r} belongs to job {existing} with other content"
        )
        self.key = key
        self.existing = existing


class IdTakenError(SubmitError):
    """The id that was chosen for the job belongs to another one."""

    code = "id_taken"

    def __init__(self, job_id: str) -> None:
        super().__init__(f"the id {job_id} is taken; choose another, or none")
        self.job_id = job_id


class QueueFullError(SubmitError):
    """The queue has reached its maximum depth, or in it the tenant its own."""

    code = "queue_full"

    def __init__(self, queue: str, retry_after: float, tenant: str | None = None) -> None:
        whose = "" if tenant is None else f" for tenant {tenant!r}"
        super().__init__(f"queue {queue!r} is full{whose}; try again in {retry_after:g} s")
        self.queue = queue
        self.retry_after = retry_after
        self.tenant = tenant


class NotFoundError(LongshoreError):
    """Nothing has this name or id."""

    code = "not_found"


class JobNotFoundError(NotFoundError):
    """No job has this id."""

    code = "job_not_found"

    def __init__(self, job_id: str) -> None:
        super().__init__(f"no job has the id {job_id}")
        self.job_id = job_id


class QueueNotFoundError(NotFoundError):
    """No queue has this name."""

    code = "queue_not_found"

    def __init__(self, queue: str) -> None:
        super().__init__(f"no queue is named {queue!r}")
        self.queue = queue


class ScheduleNotFoundError(NotFoundError):
    """No schedule has this name."""

    code = "schedule_not_found"

    def __init__(self, name: str) -> None:
        super().__init__(f"no schedule is named {name!r}")
        self.name = name


class TenantNotFoundError(NotFoundError):
    """No tenant has this name."""

    code = "tenant_not_found"

    def __init__(self, name: str) -> None:
        super().__init__(f"no tenant is named {name!r}")
        self.name = name


class KeyNotFoundError(NotFoundError):
    """No API key has this id."""

    code = "key_not_found"

    def __init__(self, key_id: str) -> None:
        super().__init__(f"no key has the id {key_id!r:.80}")
        self.key_id = key_id


class WebhookNotFoundError(NotFoundError):
    """No webhook endpoint has this id."""

    code = "webhook_not_found"

    def __init__(self, endpoint_id: str) -> None:
        super().__init__(f"no webhook endpoint has the id {endpoint_id!r:.80}")
        self.endpoint_id = endpoint_id


class TenantInUseError(LongshoreError):
    """The tenant still has jobs or schedules, so it cannot be deleted."""

    code = "tenant_in_use"

    def __init__(self, name: str, jobs: int, schedules: int) -> None:
        super().__init__(
            f"tenant {name!r} still has {jobs} jobs and {schedules} schedules; disable it, and "
            "delete it when they are gone"
        )
        self.name = name
        self.jobs = jobs
        self.schedules = schedules


class CapReachedError(LongshoreError):
    """The tenant has as many of something as it may have; nothing was stored."""

    code = "cap_reached"

    def __init__(self, cap: str, most: float, what: str) -> None:
        super().__init__(f"the tenant may have at most {most:g} {what} ({cap})")
        self.cap = cap
        self.most = most


class KeyEndedError(LongshoreError):
    """The API key was revoked or has expired; there is no way back."""

    code = "key_ended"

    def __init__(self, key_id: str) -> None:
        super().__init__(f"key {key_id} was revoked or has expired; create another one")
        self.key_id = key_id


class IllegalTransitionError(LongshoreError):
    """The job's state does not allow the verb."""

    code = "illegal_transition"

    def __init__(self, state: str, verb: str) -> None:
        super().__init__(f"cannot {verb.replace('_', ' ')} a job that is {state}")
        self.state = state
        self.verb = verb


class LeaseLostError(LongshoreError):
    """The session is no longer live; nothing it sent was applied."""

    code = "lease_lost"

    def __init__(self, token: int) -> None:
        super().__init__(f"session {token} has lost its lease; open a new one")
        self.token = token


class CursorLostError(LongshoreError):
    """Another process reads the outbox for this consumer now; nothing was changed."""

    code = "cursor_lost"

    def __init__(self, consumer: str) -> None:
        super().__init__(f"another process reads for consumer {consumer!r} now")
        self.consumer = consumer


class ExchangeOrderError(LongshoreError):
    """An exchange number must be the session's last one (sent again) or the next."""

    code = "exchange_order"

    def __init__(self, number: int, last: int) -> None:
        super().__init__(f"exchange {number} does not follow {last}")
        self.number = number
        self.last = last


class QueueNotOpenedError(LongshoreError):
    """The exchange asked for a queue that its session was not opened for; nothing was applied.

    Its number is not used up.
    """

    code = "queue_not_opened"

    def __init__(self, queue: str) -> None:
        super().__init__(
            f"the session was not opened for queue {queue!r}; ask for its own queues, or open "
            "another session"
        )
        self.queue = queue


class JobFailedError(LongshoreError):
    """The job ended dead or cancelled, so it has no result."""

    code = "job_failed"

    def __init__(self, job_id: str, state: str, reason: str | None) -> None:
        super().__init__(f"job {job_id} ended {state}" + (f": {reason}" if reason else ""))
        self.job_id = job_id
        self.state = state
        self.reason = reason


class EventsExpiredError(LongshoreError):
    """What happened after this place is no longer kept, or the place is of another store."""

    code = "cursor_expired"

    def __init__(self) -> None:
        super().__init__("what happened after this is no longer kept; begin anew")


class WaitTimeoutError(LongshoreError, TimeoutError):
    """The time the caller was willing to wait is over; the job goes on."""

    code = "wait_timeout"


class EngineError(LongshoreError):
    """The engine's store failed; nothing is wrong with the request."""

    code = "engine"


class EngineUnavailableError(EngineError):
    """The store cannot be used right now; trying again may help."""

    code = "engine_unavailable"


class EngineBusyError(EngineError):
    """Someone else held the store's lock for too long; trying again will help."""

    code = "engine_busy"


class InFlightError(EngineBusyError):
    """Another submit with the same idempotency or unique key has not ended yet.

    Nothing was stored. It may be the transaction of someone who has not decided.
    """

    code = "in_flight"

    def __init__(self) -> None:
        super().__init__("another submit with the same key has not ended yet; try again")


class BrokenRecordError(EngineError):
    """What is stored under this name cannot be decoded; storing or deleting it anew helps.

    Others are not concerned: lists leave it out, and `longshore doctor` names it.
    """

    code = "broken_record"

    def __init__(self, kind: str, name: str, problem: str) -> None:
        super().__init__(
            f"{kind} {name!r:.80} cannot be decoded ({problem}); store it anew, or delete it"
        )
        self.kind = kind
        self.name = name
        self.problem = problem


class SchemaError(EngineError):
    """The store's schema is missing, older, newer, or was changed by hand."""

    code = "schema"
