"""What can be checked only where all that happens is seen: in a simulation."""

from collections.abc import Iterable, Set
from itertools import pairwise

from longshore.contract import Renewed
from longshore_lab.checkers import Finding
from longshore_lab.history import History
from longshore_lab.records import FaultKind
from longshore_lab.sim.loop import SimLoop

__all__ = ["ENGINE", "faults", "lingering", "refused", "revived"]

ENGINE = "engine"
"""Whose clock was set, where it was nobody's but the store's."""
_EXAMPLES = 5
_TOO_LATE = 1_000_000
"""Microseconds in which a worker that goes on past its lease has to stop its handlers."""


def lingering(history: History, *, unaware: Set[str], lease: float) -> Finding:
    """A worker that lost its lease stops its handlers as soon as it can run, and knows.

    Where the engine's clock was set forward, a lease of `lease` seconds ended before its time.
    A worker that cannot hear of that knows when its own count of the seconds is over.
    """
    late: list[str] = []
    for job, runs in history.runs.items():
        for first, second in pairwise(runs):
            if first.actor == second.actor or first.ended is None or first.actor in unaware:
                continue
            able = max([second.began, *_resumed(history, first.actor, first.ended)])
            if _is_out_of_reach(history, first.actor, first.ended):
                able = max(able, _would_have_ended(history, second.began, int(lease * 1e6)))
            if first.ended > able + _TOO_LATE:
                late.append(
                    f"{job} ran on {first.actor} until {first.ended},"
                    f" and on {second.actor} since {second.began}"
                )
    return Finding("lingering", len(history.runs), len(late), late[:_EXAMPLES])


def refused(history: History) -> Finding:
    """A worker that nobody hurt is never told that a job is no longer its own."""
    runs = {
        (run.actor, job, run.delivery): run
        for job, all_of in history.runs.items()
        for run in all_of
    }
    wrong = [
        f"{job}: {actor} was refused delivery {settle.delivery}, though it was unharmed"
        for job, settles in history.settles.items()
        for actor, settle in settles
        if not settle.is_accepted
        and (run := runs.get((actor, job, settle.delivery))) is not None
        and not history.was_hurt(run, settle.at)
    ]
    return Finding("refused", len(runs), len(wrong), wrong[:_EXAMPLES])


def revived(renewals: Iterable[tuple[int, Renewed]]) -> Finding:
    """A lease that is over is never renewed."""
    sessions: dict[int, list[Renewed]] = {}
    for token, renewed in renewals:
        sessions.setdefault(token, []).append(renewed)
    wrong = [
        f"session {token} was renewed {late / 1e6:.3f} s after its lease had ended"
        for token, carried_out in sessions.items()
        for first, second in pairwise(carried_out)
        if (late := second.now - first.expires_at) >= 0
    ]
    return Finding("revived", len(sessions), len(wrong), wrong[:_EXAMPLES])


def faults(loop: SimLoop) -> Finding:
    """Nothing escapes from the product's code."""
    told = [f"{one.get('message')}: {one.get('exception')!r}" for one in loop.faults]
    return Finding("faults", loop.turns, len(told), told[:_EXAMPLES])


def _resumed(history: History, actor: str, until: int) -> list[int]:
    return [
        fault.at
        for fault in history.faults[actor]
        if fault.kind is FaultKind.RESUME and fault.at <= until
    ]


def _would_have_ended(history: History, at: int, lease: int) -> int:
    """The latest end of a lease that was over then, if nobody had set the clock forward."""
    steps = [
        fault
        for fault in history.faults[ENGINE]
        if fault.kind is FaultKind.STEP and fault.seconds > 0 and at - lease < fault.at <= at
    ]
    if not steps:
        return at
    early = int(sum(step.seconds for step in steps) * 1e6)
    return min(at + early, max(step.at for step in steps) + lease)


def _is_out_of_reach(history: History, actor: str, at: int) -> bool:
    """It was stopped or cut off then."""
    kinds = [
        fault.kind
        for fault in history.faults[actor]
        if fault.kind in {FaultKind.STOP, FaultKind.RESUME} and fault.at <= at
    ]
    return kinds[-1:] == [FaultKind.STOP]
