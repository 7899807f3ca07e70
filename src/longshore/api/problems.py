"""Every error that the service answers with: RFC 9457 problem details, in one catalogue.

A problem never repeats what was sent: it says which field is wrong and what it has to be.
"""

from collections.abc import Sequence

import msgspec

from longshore.errors import (
    BrokenRecordError,
    CapReachedError,
    ConfigError,
    CursorLostError,
    EngineBusyError,
    EngineError,
    EventsExpiredError,
    ExchangeOrderError,
    IllegalTransitionError,
    JobNotFoundError,
    KeyEndedError,
    KeyNotFoundError,
    LeaseLostError,
    LongshoreError,
    NotFoundError,
    PayloadError,
    QueueFullError,
    QueueNotFoundError,
    QueueNotOpenedError,
    ScheduleNotFoundError,
    SchemaError,
    SubmitError,
    TenantInUseError,
    TenantNotFoundError,
    WebhookNotFoundError,
)
from longshore.wire.problems import Flaw, Problem

__all__ = [
    "CATALOGUE",
    "Flaw",
    "Kind",
    "Problem",
    "ProblemError",
    "RawHeaders",
    "invalid",
    "of_error",
    "problem",
]

RawHeaders = tuple[tuple[bytes, bytes], ...]

_QUOTA = "https://iana.org/assignments/http-problem-types#quota-exceeded"


class Kind(msgspec.Struct, frozen=True):
    """One row of the catalogue; its title and detail are the same for everyone."""

    code: str
    status: int
    title: str
    detail: str

    @property
    def type(self) -> str:
        """The URI that names this kind of problem for good."""
        return _QUOTA if self.code == "quota_exceeded" else f"urn:longshore:problem:{self.code}"


CATALOGUE = {
    kind.code: kind
    for kind in (
        Kind(
            "key_required",
            400,
            "An idempotency key is required",
            "Send an Idempotency-Key header: this tenant's jobs are not accepted without.",
        ),
        Kind(
            "key_malformed",
            400,
            "The idempotency key cannot be read",
            "Idempotency-Key holds one string of 1 to 512 printable characters, quoted or not.",
        ),
        Kind(
            "unauthenticated",
            401,
            "An API key is required",
            "Send a valid key: Authorization: Bearer ls_...",
        ),
        Kind(
            "forbidden",
            403,
            "The API key does not allow this",
            "The key lacks a scope that this request needs.",
        ),
        Kind(
            "cross_site",
            403,
            "A web page may not ask this",
            "Without API keys the service answers programs on this machine, not web pages.",
        ),
        Kind(
            "forwarded",
            403,
            "Whoever is behind a proxy needs a key",
            "Without API keys the service answers programs on this machine, and not what a"
            " proxy passes on: make a key (`longshore keys create`).",
        ),
        Kind("route_not_found", 404, "There is no such route", "GET /openapi.json lists them."),
        Kind("not_found", 404, "There is no such thing", "Nothing of yours has this name."),
        Kind("job_not_found", 404, "There is no such job", "No job of yours has this id."),
        Kind(
            "queue_not_found",
            404,
            "There is no such queue",
            "No queue of this name has jobs of yours or settings.",
        ),
        Kind(
            "schedule_not_found",
            404,
            "There is no such schedule",
            "No schedule of yours has this name.",
        ),
        Kind("tenant_not_found", 404, "There is no such tenant", "No tenant has this name."),
        Kind(
            "webhook_not_found",
            404,
            "There is no such endpoint",
            "No webhook endpoint of yours has this id.",
        ),
        Kind("key_not_found", 404, "There is no such key", "No API key has this id."),
        Kind(
            "method_not_allowed",
            405,
            "The route does not know this method",
            "The Allow header lists those that it knows.",
        ),
        Kind("request_timeout", 408, "The request took too long", "Send it faster."),
        Kind(
            "illegal_transition",
            409,
            "The job's state does not allow this",
            "The job is in another state.",
        ),
        Kind(
            "idempotency_in_flight",
            409,
            "A request with this key is under way",
            "The first request with this key has not been answered yet; ask again later.",
        ),
        Kind(
            "tenant_in_use",
            409,
            "The tenant has jobs or schedules",
            "Disable it, and delete it when they are gone.",
        ),
        Kind("key_ended", 409, "The key has ended", "It was revoked or has expired."),
        Kind("name_taken", 409, "The name is taken", "Something of this name exists already."),
        Kind(
            "content_too_large",
            413,
            "The request is too large",
            "The body has more bytes than the service takes.",
        ),
        Kind(
            "unsupported_media_type",
            415,
            "The body is not JSON",
            "Send JSON in UTF-8, not compressed, with Content-Type: application/json.",
        ),
        Kind(
            "exchange_order",
            409,
            "The exchange's number does not follow",
            "Send the session's last number again, or the next one.",
        ),
        Kind(
            "queue_not_opened",
            422,
            "The session was not opened for the queue",
            "Ask for queues that the session was opened for, or open another session.",
        ),
        Kind(
            "cursor_lost",
            409,
            "Another reads for the consumer",
            "Take the cursor again when its holder has left.",
        ),
        Kind(
            "lease_lost",
            410,
            "The session is over",
            "Its lease has ended, or it never was this key's; open another one.",
        ),
        Kind(
            "cursor_expired",
            410,
            "What came after this is no longer kept",
            "Begin anew without Last-Event-ID: a job's stream opens with how it stands.",
        ),
        Kind(
            "misdirected",
            421,
            "The request is for another host",
            "Without API keys the service answers only to the names of this machine.",
        ),
        Kind(
            "malformed", 422, "The body cannot be read", "The body is not JSON text in UTF-8."
        ),
        Kind(
            "invalid",
            422,
            "The request does not make sense",
            "What is wrong with it stands in `errors`.",
        ),
        Kind(
            "idempotency",
            422,
            "The idempotency key belongs to another request",
            "The key was used before with another content; use a new one.",
        ),
        Kind(
            "id_taken",
            409,
            "The id is taken",
            "Another job has it; choose another id, or leave it out.",
        ),
        Kind(
            "cap_reached",
            409,
            "The tenant has as many as it may have",
            "Delete one, or ask an operator to raise the cap that `cap` names.",
        ),
        Kind(
            "quota_exceeded",
            429,
            "Too many requests",
            "The quota is used up; ask again after Retry-After seconds.",
        ),
        Kind(
            "queue_full",
            429,
            "The queue is full",
            "The queue has reached its maximum depth; ask again after Retry-After seconds.",
        ),
        Kind(
            "headers_too_large",
            431,
            "The header is too large",
            "The head of the request has more bytes than the service takes.",
        ),
        Kind(
            "cursor",
            400,
            "The cursor does not fit",
            "It is not of a list with the same filter; begin again without one.",
        ),
        Kind("bad_request", 400, "This is not HTTP", "The request cannot be read."),
        Kind("internal", 500, "The service has a bug", "It was written to the service's log."),
        Kind(
            "overloaded",
            503,
            "The service is busy",
            "It answers as many requests as it can; ask again after Retry-After seconds.",
        ),
        Kind(
            "body_budget",
            503,
            "The service holds too many bytes of requests",
            "Other requests hold the memory for bodies; ask again after Retry-After seconds.",
        ),
        Kind(
            "engine_unavailable",
            503,
            "The store cannot be used",
            "The engine's store is away; ask again after Retry-After seconds.",
        ),
        Kind(
            "engine_busy",
            503,
            "The store is busy",
            "Someone else holds the store's lock; ask again after Retry-After seconds.",
        ),
        Kind(
            "schema",
            503,
            "The store's schema does not fit",
            "Bring it up to date with `longshore migrate`.",
        ),
        Kind(
            "broken_record",
            500,
            "A stored record cannot be decoded",
            "Store it anew or delete it; `longshore doctor` says what is wrong with it.",
        ),
        Kind(
            "not_ready",
            503,
            "The service is not ready",
            "What is missing stands in `missing`.",
        ),
    )
}

_OF_ERRORS: dict[type[LongshoreError], str] = {
    PayloadError: "invalid",
    QueueFullError: "queue_full",
    SubmitError: "invalid",
    JobNotFoundError: "job_not_found",
    QueueNotFoundError: "queue_not_found",
    ScheduleNotFoundError: "schedule_not_found",
    TenantNotFoundError: "tenant_not_found",
    KeyNotFoundError: "key_not_found",
    WebhookNotFoundError: "webhook_not_found",
    NotFoundError: "not_found",
    TenantInUseError: "tenant_in_use",
    KeyEndedError: "key_ended",
    CapReachedError: "cap_reached",
    IllegalTransitionError: "illegal_transition",
    CursorLostError: "cursor_lost",
    EventsExpiredError: "cursor_expired",
    LeaseLostError: "lease_lost",
    ExchangeOrderError: "exchange_order",
    QueueNotOpenedError: "queue_not_opened",
    ConfigError: "invalid",
    EngineBusyError: "engine_busy",
    SchemaError: "schema",
    BrokenRecordError: "broken_record",
    EngineError: "engine_unavailable",
    LongshoreError: "internal",
}


class ProblemError(Exception):
    """The request cannot be served; the answer is this problem."""

    def __init__(self, answer: Problem, headers: RawHeaders = ()) -> None:
        super().__init__(answer.code)
        self.problem = answer
        self.headers = headers


def problem(
    code: str,
    detail: str | None = None,
    *,
    errors: Sequence[Flaw] = (),
    missing: Sequence[str] = (),
    policies: Sequence[str] = (),
) -> Problem:
    """A problem of the catalogue, with a detail of its own if there is one."""
    kind = CATALOGUE[code]
    return Problem(
        type=kind.type,
        title=kind.title,
        status=kind.status,
        detail=detail or kind.detail,
        code=code,
        errors=tuple(errors),
        missing=tuple(missing),
        violated_policies=tuple(policies),
    )


def invalid(pointer: str, detail: str) -> ProblemError:
    """422: one field or parameter is wrong."""
    return ProblemError(problem("invalid", errors=[Flaw(pointer, detail)]))


def too_many(jobs: int, most: int, reason: str) -> ProblemError:
    """422: the jobs have to come in smaller batches."""
    flaw = Flaw("/jobs", f"has {jobs} jobs; send at most {most} in one request, {reason}")
    return ProblemError(
        msgspec.structs.replace(problem("invalid", errors=[flaw]), most_jobs=most)
    )


def of_error(error: LongshoreError) -> ProblemError:
    """The problem that the error is answered with."""
    code = next(_OF_ERRORS[kind] for kind in type(error).__mro__ if kind in _OF_ERRORS)
    # Its message tells the state and the verb, and nothing that was sent.
    is_told = isinstance(error, IllegalTransitionError | CapReachedError)
    detail = str(error) if is_told else None
    wait = error.retry_after if isinstance(error, QueueFullError) else 1
    found = problem(code, detail)
    if isinstance(error, CapReachedError):
        found = msgspec.structs.replace(found, cap=error.cap, most=error.most)
    headers = ((b"retry-after", b"%d" % max(1, wait)),) if found.status in (429, 503) else ()
    return ProblemError(found, headers)
