"""What became of the faults of a trial: were they done, under load, and survived how soon."""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple

from longshore_lab.checkers import Finding
from longshore_lab.history import History, Run
from longshore_lab.records import FaultKind
from longshore_lab.strokes import OF_STORE_AND_WIRE, PROCESSES, Harm, Span
from longshore_lab.verdict import Figures

__all__ = ["Aftermath", "Hit", "idle", "look_back", "slow", "untold"]

_SECOND = 1_000_000
_SOON = 10 * _SECOND
_EXAMPLES = 5


class Hit(NamedTuple):
    """A fault that was done."""

    harm: Harm
    span: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Aftermath:
    """How soon there was work done again, in seconds, and what was refused meanwhile."""

    back_p50: float
    back_longest: float
    """From whole to the next claim or settlement that was asked for after it, by anyone."""
    back_last_worker: float
    """The same after faults of store and wire, until the last worker that nobody hurt."""
    taken_longest: float
    """After faults of store and wire, until a submission made after it was accepted."""
    refused_when_full: int
    """Submit calls that were made while the disk was full and got no yes."""


def untold(done: Mapping[str, int], figures: Figures) -> Finding:
    """Each signal that is told of is in the ledger, and each of the ledger is told."""
    told: Counter[FaultKind] = Counter()
    for harm, (_, kind) in PROCESSES.items():
        told[kind] += done.get(harm.name.lower(), 0)
    written = {
        FaultKind.KILL: figures.kills,
        FaultKind.STOP: figures.stops,
        FaultKind.TERMINATE: figures.terminations,
    }
    wrong = {kind: abs(told[kind] - times) for kind, times in written.items()}
    examples = [
        f"{kind}: {told[kind]} told, {written[kind]} in the ledger"
        for kind, gap in wrong.items()
        if gap
    ]
    return Finding("untold", sum(written.values()), sum(wrong.values()), examples)


def idle(hits: Sequence[Hit], history: History) -> Finding:
    """No fault was done after the load was over."""
    last = max((call.called_at for call in history.calls.values()), default=0)
    late = [str(hit.harm) for hit in hits if hit.span.whole > last]
    return Finding("idle", len(hits), len(late), late[:_EXAMPLES])


def slow(hits: Sequence[Hit], history: History) -> Finding:
    """Work goes on within 10 s after store or wire is whole again."""
    asked = [hit for hit in hits if hit.harm in OF_STORE_AND_WIRE]
    work = _Work(history)
    waits = [(work.back_after(hit.span.whole), hit.harm) for hit in asked]
    late = [f"{wait / _SECOND:.1f} s: {harm}" for wait, harm in waits if wait > _SOON]
    return Finding("slow", len(asked), len(late), late[:_EXAMPLES])


def look_back(hits: Sequence[Hit], history: History) -> Aftermath:
    """What followed the faults."""
    work = _Work(history)
    waits = [work.back_after(hit.span.whole) for hit in hits]
    mended = [hit.span.whole for hit in hits if hit.harm in OF_STORE_AND_WIRE]
    full = [hit.span for hit in hits if hit.harm is Harm.FILL_DISK]
    return Aftermath(
        back_p50=round(median(waits) / _SECOND, 3) if waits else 0.0,
        back_longest=_seconds(waits),
        back_last_worker=_seconds([work.all_back_after(moment) for moment in mended]),
        taken_longest=_seconds([_taken_after(history, moment) for moment in mended]),
        refused_when_full=sum(
            call.why_unknown is not None and began <= call.called_at <= whole
            for call in history.calls.values()
            for began, whole in full
        ),
    )


def _taken_after(history: History, moment: int) -> int:
    answers = (
        call.answered_at - moment
        for call in history.calls.values()
        if call.answered_at is not None and call.called_at >= moment
    )
    return min(answers, default=0)


def _seconds(waits: Sequence[int]) -> float:
    return round(max(waits, default=0) / _SECOND, 3)


class _Work:
    """When workers claimed or settled: when they asked, and when they had their answer."""

    def __init__(self, history: History) -> None:
        found: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
        for actor, claims in history.claimed_by.items():
            found[actor] += [(one.called_at, one.at) for one in claims]
        for settles in history.settles.values():
            for actor, one in settles:
                if one.is_accepted:
                    found[actor].append((one.called_at, one.at))
        self._history = history
        self._by_worker = {actor: sorted(some) for actor, some in found.items() if some}
        self._all = sorted(one for moments in found.values() for one in moments)
        self._end = max((at for _, at in self._all), default=0)

    def back_after(self, moment: int) -> int:
        """Until anyone had an answer to what was asked after the moment."""
        return self._wait(self._all, moment)

    def all_back_after(self, moment: int) -> int:
        """Until each had that was at work before, and that nobody hurt meanwhile."""
        waits = [
            (self._wait(moments, moment), actor)
            for actor, moments in self._by_worker.items()
            if moments[0][1] < moment
        ]
        return max(
            (wait for wait, actor in waits if self._is_well(actor, moment, wait)), default=0
        )

    def _wait(self, moments: Sequence[tuple[int, int]], moment: int) -> int:
        asked = bisect_left(moments, (moment, 0))
        if asked == len(moments):
            # It never was: as long as there was anything to do.
            return max(self._end - moment, 0)
        return moments[asked][1] - moment

    def _is_well(self, actor: str, moment: int, wait: int) -> bool:
        waiting = Run(job="", delivery=0, actor=actor, began=moment)
        return not self._history.was_hurt(waiting, moment + wait)
