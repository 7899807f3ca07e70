"""From a request's document to a job that an engine takes, and from its answer to ours."""

import re
from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from longshore.api.context import Service
from longshore.api.problems import Flaw, ProblemError, invalid, problem
from longshore.core import codec, ids, submission
from longshore.core.job import CheckedJob, NewJob, UniqueUntil
from longshore.errors import SubmitError
from longshore.operations.fields import (
    Attempts,
    JobIdText,
    Key,
    Name,
    Payload,
    Priority,
    Seconds,
    Tags,
    Timestamp,
    micros,
)
from longshore.runtime.actor import ACTOR

__all__ = ["KEY_PATTERN", "JobBody", "idempotency_key", "new_job", "trace_of"]

_TRACE = r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}"
_TRACEPARENT = re.compile(_TRACE.encode())
KEY_PATTERN = (
    r'^("([\x20\x21\x23-\x5b\x5d-\x7e]|\\["\\]){1,512}"|[\x21\x23-\x2b\x2d-\x7e]{1,512})$'
)
"""An Idempotency-Key: a string of RFC 9651, or the same without its quotes."""
_QUOTED = re.compile(rb'"((?:[\x20\x21\x23-\x5b\x5d-\x7e]|\\["\\]){1,1024})"')
_BARE = re.compile(rb"[\x21\x23-\x2b\x2d-\x7e]{1,512}")
_ESCAPED = re.compile(rb'\\(["\\])')
_SAID = re.compile(r"(?P<field>\w+)(?: .*)? (?P<words>is not .*|it must be .*|are too many.*)")


class JobBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A job to submit."""

    type: Name
    """The task's name."""
    payload: Payload = {}
    """The task's arguments."""
    id: JobIdText | None = None
    """An id of the caller's own making: sending the job again with it is harmless. The service
    makes one unless it is given."""
    queue: Name = "default"
    priority: Priority = 5
    run_at: Timestamp | None = None
    """Not before this moment."""
    delay_seconds: Seconds | None = None
    """Not before so long after it was accepted; instead of `run_at`."""
    max_attempts: Attempts = 5
    timeout_seconds: Annotated[float, Meta(gt=0, le=315_360_000)] | None = 300.0
    """For one attempt; null for no end."""
    idempotency_key: Key | None = None
    """The same as the header Idempotency-Key, for the jobs of a batch."""
    unique_key: Key | None = None
    """While a live job holds this key, no other is stored."""
    unique: bool = False
    """While a live job has the same type and payload, no other is stored; instead of
    `unique_key`."""
    unique_until: UniqueUntil = UniqueUntil.FINISHED
    ordering_key: Key | None = None
    """Jobs with the same key run one at a time, in order of submission."""
    trace: Annotated[str, Meta(pattern=rf"\A{_TRACE}\Z")] | None = None
    """W3C traceparent; the header of that name unless given."""
    tags: Tags = ()


def new_job(
    service: Service,
    tenant: str,
    body: JobBody,
    *,
    key: str | None = None,
    trace: str | None = None,
) -> NewJob:
    """The job that the document asks for, or the problem with it."""
    if body.run_at is not None and body.delay_seconds is not None:
        raise invalid("/delay_seconds", "cannot stand beside `run_at`")
    if key is not None and body.idempotency_key not in (None, key):
        raise invalid("/idempotency_key", "is not the one in the header")
    if body.unique and body.unique_key is not None:
        raise invalid("/unique", "cannot stand beside `unique_key`")
    timeout = body.timeout_seconds
    payload = _packed(body.payload, service.settings.max_body_bytes)
    job = CheckedJob(
        id=service.ids.make() if body.id is None else ids.parse(body.id),
        type=body.type,
        payload=payload,
        queue=body.queue,
        tenant=tenant,
        priority=body.priority,
        delay=0 if body.delay_seconds is None else round(body.delay_seconds * 1e6),
        run_at=None if body.run_at is None else micros(body.run_at),
        max_attempts=body.max_attempts,
        timeout=None if timeout is None else max(round(timeout * 1e6), 1),
        idempotency_key=key or body.idempotency_key,
        unique_key=codec.unique_key(body.type, payload) if body.unique else body.unique_key,
        unique_until=body.unique_until,
        ordering_key=body.ordering_key,
        trace=body.trace or trace,
        tags=body.tags,
        by=ACTOR.get() if service.tells_who else None,
    )
    try:
        submission.validate_fields(job)
    except SubmitError as error:
        raise ProblemError(problem("invalid", errors=[_said(str(error))])) from None
    if job.idempotency_key is None:
        return job
    return msgspec.structs.replace(job, fingerprint=codec.fingerprint(job))


def idempotency_key(headers: Mapping[bytes, bytes]) -> str | None:
    """What the header says: a Structured Field String, or the same without quotes."""
    raw = headers.get(b"idempotency-key")
    if raw is None:
        return None
    raw = raw.strip()
    if quoted := _QUOTED.fullmatch(raw):
        raw = _ESCAPED.sub(rb"\1", quoted[1])
    elif not _BARE.fullmatch(raw):
        raise ProblemError(problem("key_malformed"))
    if len(raw) > submission.LONGEST_KEY:
        raise ProblemError(problem("key_malformed"))
    return raw.decode("ascii")


def trace_of(headers: Mapping[bytes, bytes]) -> str | None:
    """The header `traceparent`; one that cannot be read is ignored, as the standard has it."""
    raw = headers.get(b"traceparent")
    return raw.decode("ascii") if raw and _TRACEPARENT.fullmatch(raw) else None


def _packed(payload: dict[str, Any], limit: int) -> bytes:
    # A batch may be larger than its largest job.
    packed = codec.pack(payload, limit=1 << 62)
    if len(packed) > limit:
        raise invalid("/payload", f"has more than {limit} bytes")
    return packed


def _said(message: str) -> Flaw:
    """What the core complains of, without what was sent."""
    found = _SAID.fullmatch(message)
    if found is None:
        return Flaw("", "is out of its limits")
    pointer = "/tags" if found["field"] in ("a", "tags") else f"/{found['field']}"
    return Flaw(pointer, found["words"])
