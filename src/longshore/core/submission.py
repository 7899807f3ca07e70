"""What a producer may ask for: the limits of a job's fields, the payload apart."""

import re
from functools import lru_cache

from longshore.core.backoff import LONGEST_US
from longshore.core.job import NewJob
from longshore.core.rank import HIGHEST_PRIORITY, LOWEST_PRIORITY
from longshore.errors import SubmitError

__all__ = [
    "LONGEST_KEY",
    "LONGEST_NAME",
    "MOST_ATTEMPTS",
    "MOST_TAGS",
    "fault_of_name",
    "first_run_at",
    "validate",
]

LONGEST_NAME = 128
LONGEST_KEY = 512
MOST_ATTEMPTS = 25
MOST_TAGS = 32

# A comma or an equals sign would be ambiguous where queues are listed with their weights. Names
# stand in headers, metrics and the API's document, where letters are those of ASCII.
_NAME = re.compile(rf"[A-Za-z0-9_.:/@+-]{{1,{LONGEST_NAME}}}")
_TRACE = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")


def validate(job: NewJob) -> None:
    """Return if the job may be submitted, else a SubmitError that names the field."""
    _check_name("type", job.type)
    _check_name("queue", job.queue)
    _check_name("tenant", job.tenant)
    _check_key("idempotency_key", job.idempotency_key)
    _check_key("unique_key", job.unique_key)
    _check_key("ordering_key", job.ordering_key)
    _check_range("priority", job.priority, HIGHEST_PRIORITY, LOWEST_PRIORITY)
    _check_range("max_attempts", job.max_attempts, 1, MOST_ATTEMPTS)
    if not 0 <= job.delay <= LONGEST_US:
        raise SubmitError(f"delay is {job.delay / 1e6:g} s; it must be 0 to ten years")
    if job.timeout is not None and not 0 < job.timeout <= LONGEST_US:
        raise SubmitError(f"timeout is {job.timeout / 1e6:g} s; it must be over 0, or None")
    if len(job.tags) > MOST_TAGS:
        raise SubmitError(f"{len(job.tags)} tags are too many; the limit is {MOST_TAGS}")
    for tag in job.tags:
        _check_text("a tag", tag, LONGEST_NAME)
    if job.trace is not None and not _TRACE.fullmatch(job.trace):
        raise SubmitError(f"trace {job.trace!r:.80} is not a W3C traceparent")


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
