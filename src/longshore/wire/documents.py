"""The worker protocol: a session's calls as JSON documents, for workers in any language.

Payloads and results stand in the documents as the JSON they are. Times and durations are whole
microseconds, as in the contract. A claim has one name, a text, because its numbers are larger
than what some languages count exactly.
"""

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from longshore.core.backoff import LONGEST_US
from longshore.core.ids import PATTERN as ID_PATTERN
from longshore.core.job import Attempt, Held
from longshore.core.responses import Share

__all__ = [
    "LONGEST_WAIT",
    "SETTLING_VERBS",
    "AttemptsAnswer",
    "AttemptsBody",
    "BuryAnswer",
    "BuryBody",
    "ClaimView",
    "ExchangeAnswer",
    "ExchangeBody",
    "FailureBody",
    "HeldAnswer",
    "OpenBody",
    "Opened",
    "RenewAnswer",
    "RenewBody",
    "ReportBody",
    "SettlementBody",
    "SettlingVerb",
    "WaitBody",
    "WaitingAnswer",
]

LONGEST_WAIT = 20.0
"""Seconds that an answer is held back at most."""

_LARGEST = 2**53 - 1
_MOST_HELD = 100_000

Text = Annotated[str, Meta(max_length=100_000, pattern=r"\A[^\x00]*\Z")]
Label = Annotated[str, Meta(min_length=1, max_length=200, pattern=r"\A[^\x00]*\Z")]
ClaimName = Annotated[str, Meta(pattern=r"\A-?[0-9]{1,19}\.[0-9]{1,10}\Z")]
ClaimNames = Annotated[list[ClaimName], Meta(max_length=_MOST_HELD)]
Instant = Annotated[int, Meta(ge=0, le=_LARGEST)]
Count = Annotated[int, Meta(ge=0, le=10_000)]
Number = Annotated[int, Meta(ge=-_LARGEST, le=_LARGEST)]
Queues = Annotated[list[Label], Meta(max_length=1_000)]
Types = Annotated[list[Label], Meta(max_length=100_000)]
Delay = Annotated[int, Meta(ge=0, le=LONGEST_US)]
Wait = Annotated[float, Meta(ge=0, le=LONGEST_WAIT)]
SETTLING_VERBS = ("succeed", "retry", "snooze", "release", "reclaim", "kill", "cancel")
SettlingVerb = Literal["succeed", "retry", "snooze", "release", "reclaim", "kill", "cancel"]


class OpenBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A worker that wants a lease."""

    worker: Label
    """Its name, for people."""
    queues: Queues
    """Where it takes jobs from, in this order."""
    types: Types
    """The tasks that it has: it is given no job of another type."""
    lease_us: Annotated[int, Meta(ge=-_LARGEST, le=86_400_000_000)] = 30_000_000
    """How long the session lives without a renewal."""


class Opened(msgspec.Struct, frozen=True, kw_only=True):
    """A session."""

    id: str
    """Names the session in its paths. It is good only beside the API key that opened it."""
    token: int
    """Fences the session: grows with every session ever opened on the store."""
    lease_us: int


class FailureBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Why an attempt ended badly."""

    kind: Text
    message: Text
    traceback: Text = ""
    put_off_us: Delay | UnsetType = UNSET
    """How much longer it waits than by its backoff, because many failed at once."""


class SettlementBody(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """How one claim ends."""

    claim: ClaimName
    verb: SettlingVerb
    """succeed; retry or snooze (after `delay_us`); release; kill (no retry); cancel."""
    delay_us: Delay = 0
    """Of retry and snooze: the job is due so long after this call."""
    charge: bool = False
    """It counts as a failure. So it should be with retry, and with kill."""
    crash: bool = False
    lapse: bool = False
    started_at_us: Instant | None = None
    """When the handler began; null: it never did, and the attempt does not count."""
    finished_at_us: Instant | None = None
    result: msgspec.Raw | UnsetType = UNSET
    """Of succeed: what the task returned, any JSON."""
    result_base64: bytes | None = None
    """Instead of `result`, for what is not JSON."""
    failure: FailureBody | None = None
    reason: Text | None = None
    """Why the job is dead or cancelled."""


class ReportBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How far a running handler says it is."""

    claim: ClaimName
    fraction: Annotated[float, Meta(ge=0, le=1)]
    message: Text | None = None


class ExchangeBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What ended, what began, and how much is wanted."""

    number: Number
    """1 for the session's first exchange, then one more each time."""
    started: ClaimNames = []
    """Claims whose handlers have begun and run on."""
    progress: Annotated[list[ReportBody], Meta(max_length=10_000)] = []
    settlements: Annotated[list[SettlementBody], Meta(max_length=10_000)] = []
    want: Count = 0
    queues: Queues | None = None
    """Instead of the session's own, for this time."""
    wait_seconds: Wait = 0.0
    """An answer without anything in it is held back until there may be work."""


class ClaimView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A job to run."""

    claim: str
    """Names this claim of the job, to settle it."""
    id: str
    type: str
    queue: str
    tenant: str
    payload: msgspec.Raw
    payload_base64: bytes | None = None
    """Instead of `payload`, for what is not JSON."""
    priority: int
    attempt: int
    """Starts before this one."""
    failures: int
    crashes: int
    lapses: int
    max_attempts: int
    """With the failure that makes it so many, the job should be killed."""
    timeout_us: int | None
    created_at_us: int
    run_at_us: int
    trace: str | None = None
    tags: tuple[str, ...] = ()


class ExchangeAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What became of it, and what to do next."""

    now_us: int
    """The store's clock."""
    claims: list[ClaimView]
    stale: list[str] = []
    """Of the settlements, those that were refused: the job is no longer this session's. All
    others were accepted."""
    cancel: list[str] = []
    """Held claims that someone asked to cancel."""
    is_paused: bool = False
    """Every wanted queue is paused."""
    look_in_us: int | None = None
    """A limit held jobs back: after so long it pays to ask again."""
    fair: tuple[str, ...] = ()
    """Of the queues that the claims are from, those whose tenants take turns."""


class RenewBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A sign of life."""

    number: Number = 0
    """The last exchange whose answer came."""
    held: ClaimNames | None = None
    """Every claim that the worker holds. What it was given up to `number` and does not hold
    goes back to the queue."""
    started: ClaimNames = []


class RenewAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The session lives on."""

    now_us: int
    expires_at_us: int
    cancel: list[str] = []
    lost: list[str] = []
    """Held claims that are no longer this session's: stop their handlers."""
    released: int = 0
    is_quiet: bool = False
    """Someone asked this worker to drain: finish what runs, claim no more."""
    shares: list[Share] = []
    """With how many others the worker shares its queues: no more of their retries should be due
    in a second than its part of what is normal, or of `retry_rate`."""


class HeldAnswer(msgspec.Struct, frozen=True):
    """What a session holds, live or lapsed."""

    held: list[Held] | None
    """Null: the session has ended."""


class AttemptsBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which job's history is asked for."""

    job_id: Annotated[str, Meta(pattern=ID_PATTERN)]
    """Of a job that the session holds."""


class AttemptsAnswer(msgspec.Struct, frozen=True):
    """The ended deliveries of a job, oldest first."""

    attempts: list[Attempt]


class WaitingAnswer(msgspec.Struct, frozen=True):
    """Whether jobs wait that the session should have been given."""

    is_waiting: bool


class BuryBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What becomes of a dead worker's jobs; those that are left out are released."""

    settlements: Annotated[list[SettlementBody], Meta(max_length=_MOST_HELD)] = []


class BuryAnswer(msgspec.Struct, frozen=True):
    """The session has ended."""

    settled: int
    """How many jobs that were; 0: it had ended already."""


class WaitBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How long to wait, and what for."""

    seconds: Wait = LONGEST_WAIT
    until: Literal["work", "cancel"] = "work"
    """Until work may have arrived, or until a held job may have to be cancelled."""
