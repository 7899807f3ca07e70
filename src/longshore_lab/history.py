"""What happened, put together from the ledgers of all processes."""

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from longshore_lab.records import (
    CancelAnswer,
    CancelAnswered,
    CancelCalled,
    Claimed,
    DueRan,
    EffectApplied,
    Entry,
    Fate,
    Fault,
    FaultKind,
    Fired,
    Opened,
    Outcome,
    Reclaimed,
    Renewal,
    RunBegan,
    RunEnded,
    Settled,
    SubmitAcknowledged,
    SubmitCalled,
    SubmitUnknown,
)

__all__ = ["Call", "Cancel", "History", "Run", "Submission", "gather"]

_HARM = frozenset({FaultKind.KILL, FaultKind.STOP, FaultKind.TERMINATE})
_END = frozenset({FaultKind.KILL, FaultKind.GONE})


@dataclass(slots=True)
class Submission:
    """One job id as its producers sent it."""

    seq: int
    fate: Fate
    max_attempts: int
    key: str | None
    accepted_as: set[str] = field(default_factory=set[str])
    """The job that stands for it, by the queue's own answers. Empty: no answer arrived."""
    acknowledged_at: int | None = None
    """When the first answer arrived."""


@dataclass(slots=True)
class Call:
    """One submit call: its jobs are accepted together or not at all."""

    actor: str
    batch: str
    jobs: set[str] = field(default_factory=set[str])
    verdicts: dict[str, str] = field(default_factory=dict[str, str])
    """What the queue said of each job, as far as an answer arrived."""
    stands: dict[str, str] = field(default_factory=dict[str, str])
    """Which job stands for each, by the same answer."""
    why_unknown: str | None = None
    called_at: int = 0
    answered_at: int | None = None


@dataclass(slots=True)
class Cancel:
    """One call that was to cancel a job."""

    actor: str
    called_at: int
    answered_at: int | None = None
    answer: CancelAnswer | None = None
    """None: no answer arrived."""


@dataclass(slots=True)
class Run:
    """One run of a handler."""

    job: str
    delivery: int
    actor: str
    began: int
    claimed: int | None = None
    """When its worker asked for the job; None if that is not known."""
    ended: int | None = None
    """The handler's own last line, or the death of its process; None while neither is known."""
    outcome: Outcome | None = None
    """None: its process ended first."""


class History:
    """Everything the ledgers say, by job. Filled by `gather`."""

    def __init__(self) -> None:
        self.submissions: dict[str, Submission] = {}
        self.calls: dict[tuple[str, str], Call] = {}
        """By actor and batch."""
        self.claims: defaultdict[str, list[tuple[str, Claimed]]] = defaultdict(list)
        self.runs: defaultdict[str, list[Run]] = defaultdict(list)
        """In order of delivery, which is not always that of their beginning."""
        self.claimed_by: defaultdict[str, list[Claimed]] = defaultdict(list)
        """The same, by the actor that claimed."""
        self.settles: defaultdict[str, list[tuple[str, Settled]]] = defaultdict(list)
        self.settled_at: dict[tuple[str, str, int], int] = {}
        """When an actor first heard of the end of a delivery, by actor, job and delivery."""
        self.cancels: defaultdict[str, list[Cancel]] = defaultdict(list)
        self.renewals: list[tuple[str, Renewal]] = []
        self.reclaims: list[tuple[str, Reclaimed]] = []
        self.firings: list[tuple[str, Fired]] = []
        self.effects: defaultdict[str, list[EffectApplied]] = defaultdict(list)
        self.faults: defaultdict[str, list[Fault]] = defaultdict(list)
        """By the actor they hit."""
        self.began_at = 0
        """When the first job was sent."""

    @property
    def accepted(self) -> set[str]:
        """The jobs that the queue said it has."""
        return {job for sent in self.submissions.values() for job in sent.accepted_as}

    @property
    def unanswered(self) -> set[str]:
        """Jobs that were sent and never answered for: they may exist or not."""
        return {job for job, sent in self.submissions.items() if not sent.accepted_as}

    def was_hurt(self, run: Run, until: int) -> bool:
        """Whether the run's process was killed, stopped or asked to leave under it.

        Counted from the claim, for a job also waits in the buffer of a process that stands
        still. A fault is written down before it is done, and a process goes on a little in
        between; so one that was killed counts as hurt from then on for good.
        """
        since = run.claimed if run.claimed is not None else run.began
        faults = self.faults[run.actor]
        for at, kind in ((fault.at, fault.kind) for fault in faults if fault.kind in _HARM):
            ends = self._resumed(run.actor, at) if kind is FaultKind.STOP else None
            if at <= until and (ends is None or since <= ends):
                return True
        return False

    def in_flight(self, fault: Fault) -> set[str]:
        """The jobs that the fault's target held when it struck: claimed and not yet settled.

        A kill is written down before it is done, and the process goes on a little in between:
        what it claimed then, and never settled, it held as well. One that was stopped may have
        asked before, and hears the answer when it goes on.
        """
        is_kill = fault.kind is FaultKind.KILL
        # Whatever it settled, it settled before it was dead.
        struck = math.nextafter(math.inf, 0) if is_kill else fault.at
        resumed = None if is_kill else self._resumed(fault.target, fault.at)
        return {
            claim.job
            for claim in self.claimed_by[fault.target]
            if (resumed is None or claim.called_at <= resumed)
            and self.settled_at.get((fault.target, claim.job, claim.delivery), math.inf)
            > struck
        }

    def _resumed(self, actor: str, stopped_at: int) -> int | None:
        """When a process that was stopped then went on; None if it never did."""
        resumed = (
            fault.at
            for fault in self.faults[actor]
            if fault.kind is FaultKind.RESUME and fault.at > stopped_at
        )
        return next(resumed, None)


def gather(entries: Iterable[Entry]) -> History:
    """The history that the entries tell. They must be in order of time."""
    history = History()
    running: dict[tuple[str, str, int], Run] = {}
    for entry in entries:
        match entry.record:
            case SubmitCalled() | SubmitAcknowledged() | SubmitUnknown() as record:
                _submit(history, entry.actor, record)
            case RunBegan() | RunEnded() as record:
                _run(history, running, entry.actor, record)
            case CancelCalled() | CancelAnswered() as record:
                _cancel(history, entry.actor, record)
            case Renewal() | Reclaimed() | Fired() as record:
                _keep(history, entry.actor, record)
            case record:
                _note(history, entry.actor, record)
    _end_with_their_processes(history)
    for runs in history.runs.values():
        runs.sort(key=lambda run: run.delivery)
    return history


def _submit(
    history: History, actor: str, record: SubmitCalled | SubmitAcknowledged | SubmitUnknown
) -> None:
    call = history.calls.setdefault((actor, record.batch), Call(actor, record.batch))
    match record:
        case SubmitCalled():
            history.began_at = history.began_at or record.at
            call.jobs.add(record.job)
            call.called_at = record.at
            sent = Submission(record.seq, record.fate, record.max_attempts, record.key)
            history.submissions.setdefault(record.job, sent)
        case SubmitAcknowledged():
            call.verdicts[record.job] = record.verdict
            call.stands[record.job], call.answered_at = record.accepted_as, record.at
            sent = history.submissions[record.job]
            sent.accepted_as.add(record.accepted_as)
            sent.acknowledged_at = sent.acknowledged_at or record.at
        case SubmitUnknown():
            call.why_unknown = record.why


def _run(
    history: History,
    running: dict[tuple[str, str, int], Run],
    actor: str,
    record: RunBegan | RunEnded,
) -> None:
    name = (actor, record.job, record.delivery)
    if isinstance(record, RunBegan):
        claimed = (
            claim.called_at
            for by, claim in history.claims[record.job]
            if by == actor and claim.delivery == record.delivery
        )
        running[name] = Run(record.job, record.delivery, actor, record.at, next(claimed, None))
        history.runs[record.job].append(running[name])
    else:
        running[name].ended, running[name].outcome = record.at, record.outcome


def _cancel(history: History, actor: str, record: CancelCalled | CancelAnswered) -> None:
    calls = history.cancels[record.job]
    if isinstance(record, CancelCalled):
        calls.append(Cancel(actor, record.at))
        return
    for call in calls:
        if (call.actor, call.called_at) == (actor, record.called_at):
            call.answered_at, call.answer = record.at, record.answer


def _keep(history: History, actor: str, record: Renewal | Reclaimed | Fired) -> None:
    match record:
        case Renewal():
            history.renewals.append((actor, record))
        case Reclaimed():
            history.reclaims.append((actor, record))
        case Fired():
            history.firings.append((actor, record))


def _note(
    history: History,
    actor: str,
    record: Opened | Claimed | Settled | EffectApplied | DueRan | Fault,
) -> None:
    match record:
        case Claimed():
            history.claims[record.job].append((actor, record))
            history.claimed_by[actor].append(record)
        case Settled():
            history.settles[record.job].append((actor, record))
            history.settled_at.setdefault((actor, record.job, record.delivery), record.at)
        case EffectApplied():
            history.effects[record.job].append(record)
        case Fault():
            history.faults[record.target].append(record)
        case Opened() | DueRan():
            pass


def _end_with_their_processes(history: History) -> None:
    deaths = {
        actor: min(fault.at for fault in faults if fault.kind in _END)
        for actor, faults in history.faults.items()
        if any(fault.kind in _END for fault in faults)
    }
    for runs in history.runs.values():
        for run in runs:
            if run.ended is None:
                run.ended = deaths.get(run.actor)
