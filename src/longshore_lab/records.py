"""What a ledger's lines say. One struct per kind of line, one line per fact.

Times are microseconds of the machine's monotonic clock, which all processes of one machine
share and which nobody can set. Jobs are named by the text of their ids.
"""

from enum import StrEnum

import msgspec

__all__ = [
    "CancelAnswer",
    "CancelAnswered",
    "CancelCalled",
    "Claimed",
    "DueRan",
    "EffectApplied",
    "Entry",
    "Fate",
    "Fault",
    "FaultKind",
    "Fired",
    "Opened",
    "Outcome",
    "Reclaimed",
    "Record",
    "Renewal",
    "RunBegan",
    "RunEnded",
    "Settled",
    "SubmitAcknowledged",
    "SubmitCalled",
    "SubmitUnknown",
]


class Fate(StrEnum):
    """What must become of a job, whatever happens to its workers."""

    SUCCEEDED = "succeeded"
    DEAD = "dead"


class Outcome(StrEnum):
    """How a handler ended, in its own words."""

    RETURNED = "returned"
    RAISED = "raised"
    STOPPED = "stopped"
    """It was cancelled from outside: a drain, a lost lease, a timeout."""


class FaultKind(StrEnum):
    """What was done to a process."""

    KILL = "kill"
    """SIGKILL: it does nothing more, not even a flush."""
    STOP = "stop"
    """SIGSTOP: it stands still, and does not know it."""
    RESUME = "resume"
    """SIGCONT."""
    TERMINATE = "terminate"
    """SIGTERM: it is asked to finish and leave."""
    GONE = "gone"
    """It was seen to have ended."""
    STEP = "clock step"
    """Its wall clock was set."""


class CancelAnswer(StrEnum):
    """What the queue said to a cancel."""

    CANCELLED = "cancelled"
    """It waited, and will never run again."""
    ASKED = "asked"
    """It runs, and whoever holds it was asked to stop it."""
    TOO_LATE = "too late"
    """It had ended."""
    NO_JOB = "no such job"


class Line(msgspec.Struct, frozen=True, tag_field="what", gc=False):
    """What every line has."""

    at: int


class Opened(Line, frozen=True, tag="opened"):
    """The first line of every file: who writes it."""

    actor: str
    role: str
    pid: int


class SubmitCalled(Line, frozen=True, tag="submit-called"):
    """A producer is about to submit a job. From here on it may exist."""

    job: str
    seq: int
    batch: str
    """The call it travels in: jobs of one call are accepted together or not at all."""
    fate: Fate
    max_attempts: int
    key: str | None = None


class SubmitAcknowledged(Line, frozen=True, tag="submit-acknowledged"):
    """The queue said yes. From here on the job must not be lost."""

    job: str
    """The id it was sent with."""
    seq: int
    batch: str
    accepted_as: str
    """The id of the job that now stands for it."""
    verdict: str


class SubmitUnknown(Line, frozen=True, tag="submit-unknown"):
    """A call failed in a way that leaves open whether the queue took its jobs."""

    batch: str
    why: str


class Claimed(Line, frozen=True, tag="claimed"):
    """A worker received a claim. Written when the answer arrived."""

    called_at: int
    """When the worker first asked: the job may have been its own since then."""
    job: str
    delivery: int


class RunBegan(Line, frozen=True, tag="run-began"):
    """The first thing a handler does."""

    job: str
    seq: int
    delivery: int
    attempt: int
    pid: int


class RunEnded(Line, frozen=True, tag="run-ended"):
    """The last thing a handler does."""

    job: str
    delivery: int
    outcome: Outcome


class EffectApplied(Line, frozen=True, tag="effect-applied"):
    """A handler asked the outside world to change."""

    job: str
    seq: int
    delivery: int
    is_first: bool
    """False: the world had already done it, and refused to do it again."""


class Settled(Line, frozen=True, tag="settled"):
    """A worker learned what the queue did with a settlement."""

    called_at: int
    """When the worker first sent it: whatever was known before that precedes it."""
    job: str
    delivery: int
    verb: str
    is_accepted: bool
    sent: int = 1
    """How often it was sent until this answer came."""

    @property
    def is_sure(self) -> bool:
        """False: it was refused when it was sent again; the first may have been accepted."""
        return self.is_accepted or self.sent == 1


class Renewal(Line, frozen=True, tag="renewed"):
    """A worker learned what became of a renewal of its lease."""

    called_at: int
    token: int
    kept: tuple[tuple[str, int], ...] = ()
    """The jobs and deliveries that the queue agreed are the worker's own."""
    lost: tuple[tuple[str, int], ...] = ()
    """Those that it said are not."""
    engine_now: int = 0
    """The engine's clock when it renewed; 0 when no answer came."""
    expires_at: int = 0
    """When the lease ends, on the engine's clock."""


class CancelCalled(Line, frozen=True, tag="cancel-called"):
    """Somebody is about to cancel a job. From here on it may be cancelled."""

    job: str


class CancelAnswered(Line, frozen=True, tag="cancel-answered"):
    """What the queue said to that."""

    called_at: int
    job: str
    answer: CancelAnswer


class Reclaimed(Line, frozen=True, tag="reclaimed"):
    """A scheduler or a worker buried a session that had lapsed, or tried to."""

    called_at: int
    worker: str
    """Whose session it was."""
    jobs: int
    """How many it held; 0 when it was renewed meanwhile, or another was first."""


class Fired(Line, frozen=True, tag="fired"):
    """A scheduler learned what became of a firing."""

    called_at: int
    schedule: str
    due: int
    """Microseconds since the epoch, on the engine's clock."""
    jobs: int
    """0: another was first."""


class DueRan(Line, frozen=True, tag="due-ran"):
    """A handler ran for a due time of a schedule."""

    schedule: str
    due: int
    """Microseconds since the epoch, on the engine's clock."""
    job: str
    delivery: int


class Fault(Line, frozen=True, tag="fault"):
    """Something was done to a process, by the runner that wrote this line."""

    target: str
    kind: FaultKind
    seconds: float = 0.0
    """How far the clock was set, forward or back."""


Record = (
    Opened
    | SubmitCalled
    | SubmitAcknowledged
    | SubmitUnknown
    | Claimed
    | RunBegan
    | RunEnded
    | EffectApplied
    | DueRan
    | Settled
    | Renewal
    | CancelCalled
    | CancelAnswered
    | Reclaimed
    | Fired
    | Fault
)


class Entry(msgspec.Struct, frozen=True, gc=False):
    """One line and whose it is."""

    actor: str
    record: Record
