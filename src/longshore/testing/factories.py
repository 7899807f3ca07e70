"""Build what the queue is made of, naming only what a test is about."""

from itertools import count
from typing import Any

from msgspec.structs import replace

from longshore.core import ids
from longshore.core.account import NewKey, Scope
from longshore.core.job import CheckedJob, Claim, Failure, Held, JobId, NewJob, Settlement
from longshore.core.schedule import Schedule
from longshore.core.state import Verb

__all__ = [
    "DAY",
    "HOUR",
    "MILLISECOND",
    "MINUTE",
    "SECOND",
    "a_claim",
    "a_failure",
    "a_held_job",
    "a_job",
    "a_key",
    "a_schedule",
    "a_settlement",
    "an_id",
    "an_unchecked_job",
]

MILLISECOND = 1_000
SECOND = 1_000 * MILLISECOND
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR

_START_MS = 1_767_225_600_000
_numbers = count(1)


def an_id() -> JobId:
    """An id that no other call returned, greater than all before it."""
    number = next(_numbers)
    return ids.make(_START_MS + number, number.to_bytes(10, "big"))


def a_job(**changes: Any) -> NewJob:
    """A job of type `noop`, to run as soon as possible."""
    return replace(NewJob(id=an_id(), type="noop"), **changes)


def an_unchecked_job(**changes: Any) -> NewJob:
    """A job that engines store whatever it holds, as an older version may have stored it."""
    return replace(CheckedJob(id=an_id(), type="noop"), **changes)


def a_key(**changes: Any) -> NewKey:
    """A key of the default tenant, which may submit and read."""
    number = next(_numbers)
    key = NewKey(
        id=f"{number:012}",
        digest=number.to_bytes(32, "big"),
        scopes=(Scope.SUBMIT, Scope.READ),
    )
    return replace(key, **changes)


def a_claim(**changes: Any) -> Claim:
    """The first claim of a fresh job."""
    claim = Claim(
        handle=1,
        delivery=1,
        id=an_id(),
        type="noop",
        queue="default",
        tenant="default",
        payload=b"{}",
        priority=5,
        attempt=0,
        failures=0,
        crashes=0,
        lapses=0,
        max_attempts=5,
        timeout=None,
        created_at=_START_MS * MILLISECOND,
        run_at=_START_MS * MILLISECOND,
    )
    return replace(claim, **changes)


def a_held_job(**changes: Any) -> Held:
    """A job in the hands of a session that is gone; its handler was never seen to start."""
    held = Held(
        handle=1,
        delivery=1,
        id=an_id(),
        type="noop",
        queue="default",
        tenant="default",
        started_at=None,
        attempt=0,
        failures=0,
        crashes=0,
        lapses=0,
        max_attempts=5,
        cancel_requested=False,
        alone=False,
    )
    return replace(held, **changes)


def a_failure(**changes: Any) -> Failure:
    """An exception, as it is recorded."""
    return replace(Failure("ValueError", "no such user"), **changes)


def a_settlement(claim: Claim, verb: Verb, **changes: Any) -> Settlement:
    """End the claim with any verb, also with one that no handler would choose."""
    return replace(
        Settlement(handle=claim.handle, delivery=claim.delivery, verb=verb), **changes
    )


def a_schedule(**changes: Any) -> Schedule:
    """A schedule that fires `noop` every minute."""
    return replace(Schedule(name="nightly", type="noop", every=MINUTE), **changes)
