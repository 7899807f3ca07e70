"""How long things took, by the ledgers: waits, and until the jobs of a dead worker ran."""

from collections.abc import Iterable, Sequence

import msgspec

from longshore_lab.history import History
from longshore_lab.records import Fault, FaultKind
from longshore_lab.trial import Trial

__all__ = ["Spread", "Times", "percentile", "spread", "times"]

_MS = 1_000


class Spread(msgspec.Struct, frozen=True):
    """How a number of waits are spread, in milliseconds."""

    count: int
    p50_ms: float = 0.0
    p99_ms: float = 0.0
    max_ms: float = 0.0


class Times(msgspec.Struct, frozen=True, kw_only=True):
    """What was measured."""

    after_kill: Spread
    """From kill -9 of a worker until a job it held began elsewhere."""
    after_stop: Spread
    """The same, from the moment a worker was stopped: its lease has to end first."""
    submit: Spread
    """From the moment a job was meant to arrive until its submit was answered."""
    wait: Spread
    """From the moment a job was meant to arrive until its handler first began."""


def times(trial: Trial, history: History) -> Times:
    """Everything the ledgers tell of time."""
    hits = [one for faults in history.faults.values() for one in faults]
    return Times(
        after_kill=spread(_recoveries(history, hits, FaultKind.KILL)),
        after_stop=spread(_recoveries(history, hits, FaultKind.STOP)),
        submit=spread(_from_due(trial, _answers(history))),
        wait=spread(_from_due(trial, _beginnings(history))),
    )


def spread(waits: Iterable[int]) -> Spread:
    """Of waits in microseconds."""
    ordered = sorted(waits)
    if not ordered:
        return Spread(0)
    return Spread(
        len(ordered),
        percentile(ordered, 50) / _MS,
        percentile(ordered, 99) / _MS,
        ordered[-1] / _MS,
    )


def percentile(ordered: Sequence[int], percent: int) -> int:
    """The smallest value that so many percent of them do not exceed."""
    return ordered[max(-(-len(ordered) * percent // 100) - 1, 0)]


def _recoveries(history: History, hits: list[Fault], kind: FaultKind) -> Iterable[int]:
    for hit in hits:
        if hit.kind is kind:
            for job in history.in_flight(hit):
                began = [
                    run.began
                    for run in history.runs.get(job, ())
                    if run.actor != hit.target and run.began > hit.at
                ]
                if began:
                    yield min(began) - hit.at


def _answers(history: History) -> Iterable[tuple[int, int]]:
    for sent in history.submissions.values():
        if sent.acknowledged_at is not None:
            yield sent.seq, sent.acknowledged_at


def _beginnings(history: History) -> Iterable[tuple[int, int]]:
    for job, runs in history.runs.items():
        if runs and job in history.submissions:
            yield history.submissions[job].seq, min(run.began for run in runs)


def _from_due(trial: Trial, moments: Iterable[tuple[int, int]]) -> Iterable[int]:
    """Each order's first moment, counted from when it was meant to arrive."""
    if not trial.rate:
        return
    first: dict[int, int] = {}
    for seq, at in moments:
        first[seq] = min(at, first.get(seq, at))
    for seq, at in first.items():
        yield max(at - trial.due(seq), 0)
