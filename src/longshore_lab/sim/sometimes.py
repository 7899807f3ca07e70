"""What has to happen in some worlds, or the worlds are too easy to prove anything."""

from collections import Counter, defaultdict
from itertools import pairwise

from longshore_lab.history import History, Run
from longshore_lab.records import Outcome, Reclaimed
from longshore_lab.survey import Survey

__all__ = ["COMMON", "RARE", "happened"]

COMMON = (
    "lease lapsed while a handler ran",
    "answer with claims lost",
    "late duplicate carried out",
    "old exchange refused",
    "message held up",
    "settle sent again",
    "a running job was cancelled",
    "relay sent again",
    "scheduler changed within a due time",
    "due time in a fold",
    "engine clock set back",
    "engine clock set forward",
    "actor's clock set",
    "ran again after its worker was hurt",
    "submit answered as repeated",
    "retried",
    "dead after its last failure",
    "crash charged",
)
"""Half a minute on one engine has all of these."""
RARE = (
    "stale settle refused",
    "cancel against claim",
    "reclaim against settle",
    "reclaim against renew",
    "two runs at once",
    "lapse charged",
)
"""A thousand worlds have these too."""


def happened(history: History, found: Survey) -> Counter[str]:
    """How often each of them did, as far as the books tell."""
    return +(
        _settles(history)
        + _runs(history)
        + _calls(history)
        + _races(history)
        + _ends(history, found)
    )


def _settles(history: History) -> Counter[str]:
    seen: Counter[str] = Counter()
    for settles in history.settles.values():
        seen["stale settle refused"] += sum(not one.is_accepted for _, one in settles)
        seen["settle sent again"] += sum(one.sent > 1 for _, one in settles)
    return seen


def _runs(history: History) -> Counter[str]:
    seen: Counter[str] = Counter()
    for runs in history.runs.values():
        seen["ran again after its worker was hurt"] += sum(
            first.outcome is not Outcome.RAISED for first, _ in pairwise(runs)
        )
        seen["retried"] += sum(first.outcome is Outcome.RAISED for first, _ in pairwise(runs))
        seen["handler stopped"] += sum(run.outcome is Outcome.STOPPED for run in runs)
        seen["two runs at once"] += sum(
            first.ended is not None and first.ended > second.began
            for first, second in pairwise(runs)
        )
    return seen


def _calls(history: History) -> Counter[str]:
    seen: Counter[str] = Counter()
    for call in history.calls.values():
        seen["submit answered as repeated"] += "repeated" in call.verdicts.values()
        seen["submit not answered"] += call.why_unknown is not None
    for cancels in history.cancels.values():
        for one in cancels:
            seen[f"cancel answered: {one.answer or 'not at all'}"] += 1
    return seen


def _races(history: History) -> Counter[str]:
    seen: Counter[str] = Counter()
    for job, cancels in history.cancels.items():
        claims = [(claim.called_at, claim.at) for _, claim in history.claims.get(job, ())]
        spans = [(one.called_at, one.answered_at) for one in cancels if one.answered_at]
        seen["cancel against claim"] += _meetings(spans, claims)
    settles: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    for of_job in history.settles.values():
        for actor, settle in of_job:
            settles[actor].append((settle.called_at, settle.at))
    renewals: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    for actor, renewal in history.renewals:
        renewals[actor].append((renewal.called_at, renewal.at))
    runs: defaultdict[str, list[Run]] = defaultdict(list)
    for run in (run for of_job in history.runs.values() for run in of_job):
        runs[run.actor].append(run)
    for _, one in history.reclaims:
        span = [(one.called_at, one.at)]
        seen["reclaim against settle"] += _meetings(span, settles[one.worker])
        seen["reclaim against renew"] += _meetings(span, renewals[one.worker])
        seen["lease lapsed while a handler ran"] += _ran_on(one, runs[one.worker])
    firers: defaultdict[tuple[str, int], set[str]] = defaultdict(set)
    for actor, firing in history.firings:
        firers[firing.schedule, firing.due].add(actor)
    changed = sum(len(actors) > 1 for actors in firers.values())
    seen["scheduler changed within a due time"] += changed
    return seen


def _ends(history: History, found: Survey) -> Counter[str]:
    seen: Counter[str] = Counter()
    for name, job in found.jobs.items():
        seen["dead after its last failure"] += job.reason == "exhausted"
        seen["crash charged"] += job.crashes > 0
        seen["lapse charged"] += job.lapses > 0
        is_cancelled = job.state == "cancelled"
        seen["a running job was cancelled"] += is_cancelled and bool(history.runs.get(name))
    return seen


def _ran_on(one: Reclaimed, runs: list[Run]) -> bool:
    is_open = (run.began <= one.at and (run.ended or one.at) >= one.called_at for run in runs)
    return one.jobs > 0 and any(is_open)


def _meetings(some: list[tuple[int, int]], others: list[tuple[int, int]]) -> int:
    """How many of them were under way at the same time as one of the others."""
    return sum(
        any(first <= end and begin <= last for begin, end in others) for first, last in some
    )
