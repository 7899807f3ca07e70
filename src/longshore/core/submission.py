"""What a job may be, whichever way it comes in.

`validate` holds the rules of a job's fields and its payload. SDK and HTTP API apply them where
a job is made, to say which option or field is wrong; every engine calls `check` before it
stores anything, so that nothing else is ever stored: by the SDK, the CLI, HTTP, a schedule, a
webhook, or in a caller's transaction.
"""

import re
from collections.abc import Sequence
from functools import lru_cache

from longshore.core import codec
from longshore.core.backoff import LONGEST_US
from longshore.core.instant import LATEST_US
from longshore.core.job import CheckedJob, NewJob
from longshore.core.priority_rank import HIGHEST_PRIORITY, LOWEST_PRIORITY
from longshore.errors import SubmitError

__all__ = [
    "LONGEST_KEY",
    "LONGEST_NAME",
    "LONGEST_TAG",
    "MOST_ATTEMPTS",
    "MOST_TAGS",
    "RESERVED_PREFIX",
    "check",
    "fault_of_name",
    "first_run_at",
    "validate",
    "validate_fields",
]

LONGEST_NAME = 128
LONGEST_KEY = 512
LONGEST_TAG = 256
"""A fired job has the name of its schedule in a tag."""
MOST_ATTEMPTS = 25
MOST_TAGS = 32
RESERVED_PREFIX = "longshore."
"""Queues with such a name are Longshore's own, as that of webhook deliveries."""

# A comma or an equals sign would be ambiguous where queues are listed with their weights. Names
# stand in headers, metrics and the API's document, where letters are those of ASCII.
_NAME = re.compile(rf"[A-Za-z0-9_.:/@+-]{{1,{LONGEST_NAME}}}")
_TRACE = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")


_ID_BYTES = 16
_LONGEST_FINGERPRINT = 64
_CHECKED = {CheckedJob}


def check(jobs: Sequence[NewJob]) -> None:
    """Return if every one of the jobs may be stored, else SubmitError or PayloadError.

    For engines: those that were checked where they were made cost next to nothing here.
    """
    if set(map(type, jobs)) <= _CHECKED:
        return
    for job in jobs:
        if type(job) is not CheckedJob:
            validate(job)


def validate(job: NewJob) -> None:
    """Return if the job may be stored, else a SubmitError or PayloadError that says why not."""
    validate_fields(job)
    codec.check(job.payload)


def validate_fields(job: NewJob) -> None:
    """As `validate`, for a job whose payload `core.codec` has made or checked already."""
    if len(job.id) != _ID_BYTES:
        raise SubmitError("id is not sixteen bytes")
    if len(job.fingerprint) > _LONGEST_FINGERPRINT:
        raise SubmitError(f"fingerprint has more than {_LONGEST_FINGERPRINT} bytes")
    _check_name("type", job.type)
    _check_name("queue", job.queue)
    _check_name("tenant", job.tenant)
    _check_key("idempotency_key", job.idempotency_key)
    _check_key("unique_key", job.unique_key)
    _check_key("ordering_key", job.ordering_key)
    _check_range("priority", job.priority, HIGHEST_PRIORITY, LOWEST_PRIORITY)
    _check_range("max_attempts", job.max_attempts, 1, MOST_ATTEMPTS)
    _check_times(job)
    if len(job.tags) > MOST_TAGS:
        raise SubmitError(f"{len(job.tags)} tags are too many; the limit is {MOST_TAGS}")
    for tag in job.tags:
        _check_text("a tag", tag, LONGEST_TAG)
    if job.trace is not None and not _TRACE.fullmatch(job.trace):
        raise SubmitError(f"trace {job.trace!r:.80} is not a W3C traceparent")


def _check_times(job: NewJob) -> None:
    if not 0 <= job.delay <= LONGEST_US:
        raise SubmitError(f"delay is {job.delay / 1e6:g} s; it must be 0 to ten years")
    if job.run_at is not None and not 0 <= job.run_at <= LATEST_US:
        raise SubmitError(f"run_at is {job.run_at / 1e6:g} s; it must be from 1970 to 9999")
    if job.timeout is not None and not 0 < job.timeout <= LONGEST_US:
        raise SubmitError(f"timeout is {job.timeout / 1e6:g} s; it must be over 0, or None")


def first_run_at(job: NewJob, *, now: int, arrival: int) -> int:
    """When a job that is accepted now is due; one that is due at once, since its arrival.

    The arrival is later than now where the clock was set back: order outlives clocks.
    """
    due = now + job.delay if job.run_at is None else job.run_at
    return due if due > now else arrival


def fault_of_name(field: str, value: str) -> str | None:
    """What is wrong with the name of a type, a queue or a tenant, if anything is."""
    try:
        if len(value) <= LONGEST_NAME and _is_name(value):
            return None
    except TypeError:
        pass  # not every caller has a type checker
    return f"{field} {value!r:.80} is not 1 to {LONGEST_NAME} of a-z, A-Z, 0-9 and _.:/@+-"


@lru_cache(4_096)
def _is_name(value: str) -> bool:
    """The same few names come with every job."""
    return _NAME.fullmatch(value) is not None


def _check_name(field: str, value: str) -> None:
    if fault := fault_of_name(field, value):
        raise SubmitError(fault)


def _check_key(field: str, value: str | None) -> None:
    if value is not None:
        _check_text(field, value, LONGEST_KEY)


def _check_text(field: str, value: str, longest: int) -> None:
    if not 0 < len(value) <= longest or not value.isprintable():
        raise SubmitError(f"{field} {value!r:.80} is not 1 to {longest} printable characters")


def _check_range(field: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise SubmitError(f"{field} is {value}; it must be {least} to {most}")
