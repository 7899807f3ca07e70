"""What a ledger's lines say. One struct per kind of line, one line per fact.

Times are microseconds of the machine's monotonic clock, which all processes of one machine
share and which nobody can set. Jobs are named by the text of their ids.
"""

from enum import StrEnum

import msgspec

__all__ = [
    "Claimed",
    "DueRan",
    "EffectApplied",
    "Entry",
    "Fate",
    "Fault",
    "FaultKind",
    "Opened",
    "Outcome",
    "Record",
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
    | Fault
)


class Entry(msgspec.Struct, frozen=True, gc=False):
    """One line and whose it is."""

    actor: str
    record: Record
