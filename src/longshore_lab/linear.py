"""Whether the answers to all calls about a job fit one order, in which each took effect once.

The search of Wing and Gong with the memory of Lowe, per job, for jobs do not touch each other.
A call took effect at some moment between its sending and its answer; one without an answer at
some moment after its sending, or never. Beside the calls there are moves that nobody was told
of: a claim whose answer was lost, and a claim that was taken away or given back.
"""

import math
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from longshore.core.state import State, Verb
from longshore_lab.history import History
from longshore_lab.records import CancelAnswer, Outcome

__all__ = ["Act", "Op", "fits", "ops_of"]


class Act(StrEnum):
    """What was asked of the queue, and what it said."""

    SUBMIT_ACCEPTED = "submit: accepted"
    SUBMIT_REPEATED = "submit: repeated"
    SUBMIT = "submit: no answer"
    CLAIM = "claim"
    KEPT = "renew: kept"
    LOST = "renew: lost"
    SETTLE_ACCEPTED = "settle: accepted"
    SETTLE_REFUSED = "settle: refused"
    SETTLE = "settle: no answer"
    CANCELLED = "cancel: cancelled"
    ASKED = "cancel: asked"
    TOO_LATE = "cancel: too late"
    NO_JOB = "cancel: no such job"
    CANCEL = "cancel: no answer"


@dataclass(frozen=True, slots=True)
class Op:
    """One call about a job."""

    act: Act
    called: int
    answered: float
    """Infinity: nobody knows whether and when it took effect."""
    actor: str = ""
    delivery: int = 0
    verb: str = ""


class _Standing(NamedTuple):
    """The job as the calls so far have left it; `state` None: there is none."""

    state: State | None = None
    delivery: int = 0
    holder: str = ""
    is_asked: bool = False


_NOWHERE = _Standing()
_CANCELS = {
    CancelAnswer.CANCELLED: Act.CANCELLED,
    CancelAnswer.ASKED: Act.ASKED,
    CancelAnswer.TOO_LATE: Act.TOO_LATE,
    CancelAnswer.NO_JOB: Act.NO_JOB,
}
_LIKELY = {
    Outcome.RETURNED: Verb.SUCCEED,
    Outcome.RAISED: Verb.RETRY,
    Outcome.STOPPED: Verb.RELEASE,
}
_ENDS = {
    Verb.SUCCEED: State.SUCCEEDED,
    Verb.KILL: State.DEAD,
    Verb.CANCEL: State.CANCELLED,
}


def fits(ops: Sequence[Op]) -> bool:
    """Whether there is an order of the calls that explains every answer."""
    ops = _telling(ops)
    heard = {op.delivery for op in ops if op.act is Act.CLAIM}
    known = sum(1 << n for n, op in enumerate(ops) if op.answered != math.inf)
    stack, seen = [(0, _NOWHERE)], set[tuple[int, _Standing]]()
    while stack:
        at = stack.pop()
        if at in seen:
            continue
        seen.add(at)
        done, job = at
        if done & known == known:
            return True
        stack += ((done, after) for after in _unseen(job, heard))
        open_ = [n for n in range(len(ops)) if not done >> n & 1]
        first = min(ops[n].answered for n in open_)
        stack += (
            (done | 1 << n, after)
            for n in reversed(open_)
            if ops[n].called <= first
            for after in _after(job, ops[n])
        )
    return False


def _telling(ops: Sequence[Op]) -> list[Op]:
    """Without submits that add nothing: a producer without an answer sends again and again.

    Of those without an answer the first may take effect whenever a later one may, and a job
    that exists is not made again; each more would double the orders to try.
    """
    unanswered = [op for op in ops if op.act is Act.SUBMIT]
    first = min(unanswered, key=lambda op: op.called, default=None)
    return [op for op in ops if op.act is not Act.SUBMIT or op is first]


def ops_of(history: History) -> dict[str, list[Op]]:
    """The calls about every job whose story is not plain, in order of their sending."""
    busy = {job for _, one in history.renewals for job, _ in (*one.kept, *one.lost)}
    busy |= history.cancels.keys()
    ops: dict[str, list[Op]] = {
        job: [] for job in history.submissions if job in busy or not _is_plain(history, job)
    }
    for part in (_submits, _claims, _settles, _untold, _renewals, _cancels):
        for job, op in part(history, ops.keys()):
            ops[job].append(op)
    for of_job in ops.values():
        of_job.sort(key=lambda op: op.called)
    return ops


def _is_plain(history: History, job: str) -> bool:
    """Claimed once and settled once, by the same worker: most are, in the longest trials."""
    claims, settles = history.claims.get(job, ()), history.settles.get(job, ())
    if len(claims) != 1 or len(settles) != 1 or len(history.runs.get(job, ())) != 1:
        return False
    (by, claim), (actor, settle) = claims[0], settles[0]
    return (
        by == actor
        and claim.delivery == settle.delivery == 1
        and settle.is_accepted
        and claim.called_at <= settle.at
    )


_Part = Iterator[tuple[str, Op]]


def _submits(history: History, jobs: Set[str]) -> _Part:
    for call in history.calls.values():
        for job in call.jobs:
            # Under a key another job may stand for this one, which then never existed.
            stands = call.stands.get(job, job)
            if stands not in jobs:
                continue
            if job not in call.verdicts:
                yield job, Op(Act.SUBMIT, call.called_at, math.inf, call.actor)
                continue
            is_new = stands == job and call.verdicts[job] == "accepted"
            act = Act.SUBMIT_ACCEPTED if is_new else Act.SUBMIT_REPEATED
            yield stands, Op(act, call.called_at, call.answered_at or math.inf, call.actor)


def _claims(history: History, jobs: Set[str]) -> _Part:
    for job in jobs:
        for actor, claim in history.claims.get(job, ()):
            yield job, Op(Act.CLAIM, claim.called_at, claim.at, actor, claim.delivery)


def _settles(history: History, jobs: Set[str]) -> _Part:
    for job in jobs:
        # An answer that came twice is one answer, and the first came first.
        told = reversed(history.settles.get(job, ()))
        firsts = {(actor, one.delivery): one for actor, one in told}
        for (actor, delivery), one in firsts.items():
            act = Act.SETTLE_ACCEPTED if one.is_accepted else Act.SETTLE_REFUSED
            answered: float = one.at
            if not one.is_sure:
                act, answered = Act.SETTLE, math.inf
            yield job, Op(act, one.called_at, answered, actor, delivery, one.verb)


def _untold(history: History, jobs: Set[str]) -> _Part:
    """Settlements that may have been sent: their handlers ended, and no answer was heard."""
    for run in (run for job in jobs for run in history.runs.get(job, ())):
        if run.outcome is None or (run.actor, run.job, run.delivery) in history.settled_at:
            continue
        for verb in (_LIKELY[run.outcome], Verb.KILL):
            called = run.ended or run.began
            op = Op(Act.SETTLE, called, math.inf, run.actor, run.delivery, verb)
            yield run.job, op


def _renewals(history: History, jobs: Set[str]) -> _Part:
    for actor, one in history.renewals:
        for act, those in (Act.KEPT, one.kept), (Act.LOST, one.lost):
            for job, delivery in those:
                if job in jobs:
                    yield job, Op(act, one.called_at, one.at, actor, delivery)


def _cancels(history: History, jobs: Set[str]) -> _Part:
    for job in jobs:
        for one in history.cancels.get(job, ()):
            if one.answer is None or one.answered_at is None:
                yield job, Op(Act.CANCEL, one.called_at, math.inf, one.actor)
            else:
                yield job, Op(_CANCELS[one.answer], one.called_at, one.answered_at, one.actor)


def _unseen(job: _Standing, heard: set[int]) -> Iterator[_Standing]:
    """Moves that nobody was told of."""
    if job.state is State.RUNNING:
        yield _waiting(job)
    following = job.delivery + 1
    is_unheard = following not in heard and following <= max(heard, default=0) + 1
    if job.state is State.READY and is_unheard:
        yield _Standing(State.RUNNING, following)


def _waiting(job: _Standing) -> _Standing:
    """Given back; a job that was asked to stop waits for no other run."""
    return job._replace(
        state=State.CANCELLED if job.is_asked else State.READY, holder="", is_asked=False
    )


def _after(job: _Standing, op: Op) -> Iterator[_Standing]:
    """The job after the call, if the answer fits."""
    match op.act:
        case Act.SUBMIT_ACCEPTED | Act.SUBMIT_REPEATED | Act.SUBMIT:
            if job.state is None or op.act is not Act.SUBMIT_ACCEPTED:
                yield job if job.state else _Standing(State.READY)
        case Act.CLAIM:
            if job.state is State.READY and op.delivery == job.delivery + 1:
                yield _Standing(State.RUNNING, op.delivery, op.actor)
        case Act.KEPT | Act.LOST:
            if _holds(job, op) == (op.act is Act.KEPT):
                yield job
        case Act.SETTLE_ACCEPTED | Act.SETTLE_REFUSED | Act.SETTLE:
            yield from _settled(job, op)
        case _:
            yield from _cancelled(job, op)


def _settled(job: _Standing, op: Op) -> Iterator[_Standing]:
    if not _holds(job, op):
        if op.act is not Act.SETTLE_ACCEPTED:
            yield job
    elif op.act is not Act.SETTLE_REFUSED:
        end = _ENDS.get(Verb(op.verb))
        yield _waiting(job) if end is None else job._replace(state=end, holder="")


def _cancelled(job: _Standing, op: Op) -> Iterator[_Standing]:
    fact = {
        None: Act.NO_JOB,
        State.READY: Act.CANCELLED,
        State.RUNNING: Act.ASKED,
    }.get(job.state, Act.TOO_LATE)
    if op.act not in (fact, Act.CANCEL):
        return
    if fact is Act.CANCELLED:
        yield job._replace(state=State.CANCELLED)
    else:
        yield job._replace(is_asked=job.is_asked or fact is Act.ASKED)


def _holds(job: _Standing, op: Op) -> bool:
    return job.state is State.RUNNING and job.delivery == op.delivery and job.holder == op.actor
