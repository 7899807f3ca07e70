"""The promises, each as a function that looks for a counterexample.

A checker sees the history outside the queue and the queue's final state, and knows nothing
else. It answers with what it looked at and what it found: a checker that looked at nothing
has proven nothing. Its docstring is the promise, and reports print it as such.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import NamedTuple

from longshore.core.event import Name
from longshore.core.state import TERMINAL, State, Verb
from longshore_lab.history import History, Run
from longshore_lab.linear import Op, fits, ops_of
from longshore_lab.records import CancelAnswer, Fate, Outcome
from longshore_lab.survey import Seen, Survey

__all__ = ["CHECKERS", "Checker", "Finding", "check"]

_EXAMPLES = 5
_CHARGED = frozenset({Verb.RETRY, Verb.KILL})


class Finding(NamedTuple):
    """What one checker saw."""

    name: str
    checked: int
    """How many things it looked at."""
    violations: int
    examples: list[str]
    """The first few violations, in words."""

    @property
    def holds(self) -> bool:
        """Nothing was found."""
        return self.violations == 0


Checker = Callable[[History, Survey], Finding]


def check(history: History, survey: Survey) -> dict[str, Finding]:
    """Every checker's finding, by name."""
    return {checker.__name__: checker(history, survey) for checker in CHECKERS}


def lost(history: History, survey: Survey) -> Finding:
    """An accepted job is still there."""
    accepted = history.accepted
    missing = sorted(accepted - survey.jobs.keys())
    return _finding("lost", accepted, (f"{job} was accepted and is nowhere" for job in missing))


def unfinished(history: History, survey: Survey) -> Finding:
    """Every job came to an end."""
    return _finding(
        "unfinished",
        survey.jobs,
        (
            f"{job} is still {seen.state}"
            for job, seen in survey.jobs.items()
            if seen.state not in TERMINAL
        ),
    )


def ghosts(history: History, survey: Survey) -> Finding:
    """Nothing exists, ran or changed that nobody submitted."""
    sent = history.submissions
    stored = (
        f"{job} is stored with order {seen.seq}, which nobody submitted as such"
        for job, seen in survey.jobs.items()
        if job not in sent or sent[job].seq != seen.seq
    )
    ran = (f"{job} ran, and nobody submitted it" for job in history.runs if job not in sent)
    known = {submission.seq for submission in sent.values()}
    changed = (
        f"order {seq} was applied, and nobody submitted it"
        for seq, cell in survey.cells.items()
        if cell.asked and seq not in known
    )
    return _finding("ghosts", survey.jobs, (*stored, *ran, *changed))


def halves(history: History, survey: Survey) -> Finding:
    """One submit call is accepted whole or not at all."""
    violations: list[str] = []
    for call in history.calls.values():
        if call.verdicts and len(set(call.verdicts.values())) > 1:
            tally = dict(Counter(call.verdicts.values()))
            violations.append(f"call {call.batch} of {call.actor} was answered {tally}")
        # The answer may have been lost, or written down only in part: then the store decides.
        stored = len(call.jobs & survey.jobs.keys())
        if not call.verdicts and 0 < stored < len(call.jobs):
            violations.append(
                f"call {call.batch} of {call.actor} left {stored} of {len(call.jobs)} jobs"
            )
    return _finding("halves", history.calls, violations)


def repeats(history: History, survey: Survey) -> Finding:
    """One idempotency key stands for one job."""
    answers: defaultdict[str, set[str]] = defaultdict(set)
    stored: Counter[str] = Counter()
    for sent in history.submissions.values():
        if sent.key is not None:
            answers[sent.key] |= sent.accepted_as
    for seen in survey.jobs.values():
        if seen.key is not None:
            stored[seen.key] += 1
    told = (f"key {key} is {jobs}" for key, jobs in answers.items() if len(jobs) > 1)
    kept = (f"key {key} has {count} jobs" for key, count in stored.items() if count > 1)
    return _finding("repeats", answers, (*told, *kept))


def stale(history: History, survey: Survey) -> Finding:
    """Only the latest claim of a job can settle it."""
    violations: list[str] = []
    for job, settles in history.settles.items():
        for actor, settle in settles:
            newest = _newest_claim(history, job, before=settle.called_at)
            if settle.is_accepted and settle.delivery < newest:
                violations.append(
                    f"{job}: {actor} settled delivery {settle.delivery}"
                    f" when delivery {newest} had been claimed"
                )
    for job, claims in history.claims.items():
        holders: defaultdict[int, set[str]] = defaultdict(set)
        for actor, claim in claims:
            holders[claim.delivery].add(actor)
        violations += [
            f"{job}: delivery {delivery} was claimed by {sorted(actors)}"
            for delivery, actors in holders.items()
            if len(actors) > 1
        ]
    return _finding("stale", history.settles, violations)


def doubles(history: History, survey: Survey) -> Finding:
    """No job succeeds twice."""
    violations: list[str] = []
    for job, settles in history.settles.items():
        # A call sent again is answered again; that is one success, of one delivery.
        successes = {
            (actor, settle.delivery)
            for actor, settle in settles
            if settle.is_accepted and settle.verb == Verb.SUCCEED
        }
        if len(successes) > 1:
            violations.append(f"{job} succeeded as {sorted(successes)}")
    violations += [
        f"{job} was announced as succeeded {count} times"
        for job, names in survey.events.items()
        if (count := names.count(Name.SUCCEEDED)) > 1
    ]
    return _finding("doubles", history.settles, violations)


def overlaps(history: History, survey: Survey) -> Finding:
    """No two workers run a job at once, unless one was hit."""
    violations: list[str] = []
    for job, runs in history.runs.items():
        violations += [
            f"{job} ran on {first.actor} and on {second.actor} at the same time"
            for first, second in pairwise(runs)
            if _overlap(first, second)
            and not history.was_hurt(first, max(first.began, second.began))
        ]
    return _finding("overlaps", history.runs, violations)


def reruns(history: History, survey: Survey) -> Finding:
    """No job runs again unless it failed or lost its worker."""
    violations: list[str] = []
    for job, runs in history.runs.items():
        violations += [
            f"{job} ran again on {second.actor}, though {first.actor} was unharmed"
            for first, second in pairwise(runs)
            if not _failed(first)
            and not history.was_hurt(first, max(first.began, second.began))
        ]
    return _finding("reruns", history.runs, violations)


def attempts(history: History, survey: Survey) -> Finding:
    """Every attempt is counted; dead after the last failure."""
    violations = (
        f"{job} {fault}"
        for job, seen in survey.jobs.items()
        for fault in _miscounted(history, job, seen)
    )
    return _finding("attempts", survey.jobs, violations)


def outcomes(history: History, survey: Survey) -> Finding:
    """Queue and handlers agree on how each job ended."""
    violations = (
        f"{job} {fault}"
        for job, seen in survey.jobs.items()
        for fault in _false_ends(history, job, seen)
    )
    return _finding("outcomes", survey.jobs, violations)


def linear(history: History, survey: Survey) -> Finding:
    """One order of the calls about a job explains all answers."""
    violations = (
        f"{job}: no order explains {'; '.join(map(_told, ops))}"
        for job, ops in ops_of(history).items()
        if not fits(ops)
    )
    return _finding("linear", history.submissions, violations)


def effects(history: History, survey: Survey) -> Finding:
    """A success changed the world once, a dead job never."""
    expected = {Fate.SUCCEEDED.value: 1, Fate.DEAD.value: 0}
    violations = (
        f"order {seen.seq} of {job}, which is {seen.state}, was applied {applied} times"
        for job, seen in survey.jobs.items()
        if seen.seq in survey.cells
        and (applied := survey.cells[seen.seq].applied) != expected.get(seen.state, applied)
    )
    return _finding("effects", survey.cells, violations)


_WAITS, _RUNS, _FAILING = "waits", "runs", "fails"
_STEPS: dict[Name, tuple[frozenset[str], str | None]] = {
    Name.READY: (frozenset({_WAITS}), _WAITS),
    Name.STARTED: (frozenset({_WAITS}), _RUNS),
    Name.SUCCEEDED: (frozenset({_RUNS}), State.SUCCEEDED),
    Name.FAILED: (frozenset({_RUNS}), _FAILING),
    Name.RETRYING: (frozenset({_FAILING}), _WAITS),
    Name.DEAD: (frozenset({_FAILING, _RUNS, _WAITS}), State.DEAD),
    # A suspect for which there is no room is put off before it starts.
    Name.SNOOZED: (frozenset({_WAITS, _RUNS}), _WAITS),
    Name.RELEASED: (frozenset({_WAITS, _RUNS}), _WAITS),
    Name.RECLAIMED: (frozenset({_WAITS, _RUNS}), _WAITS),
    Name.CANCEL_REQUESTED: (frozenset({_WAITS, _RUNS}), None),
    Name.CANCELLED: (frozenset({_WAITS, _RUNS, _FAILING}), State.CANCELLED),
    Name.REPLAYED: (frozenset({State.DEAD, State.CANCELLED}), _WAITS),
}
"""Which event may follow in which phase of a job's life, and the phase after it."""


def events(history: History, survey: Survey) -> Finding:
    """The events of each job tell its life in order."""
    violations = (
        f"{job} {fault}"
        for job, seen in survey.jobs.items()
        if (fault := _illegal_life(survey.events.get(job, []), seen.state))
    )
    return _finding("events", survey.jobs, violations)


CHECKERS: tuple[Checker, ...] = (
    lost,
    unfinished,
    ghosts,
    halves,
    repeats,
    stale,
    doubles,
    overlaps,
    reruns,
    attempts,
    outcomes,
    linear,
    effects,
    events,
)


def _finding(name: str, checked: Iterable[object], violations: Iterable[str]) -> Finding:
    found = list(violations)
    return Finding(name, sum(1 for _ in checked), len(found), found[:_EXAMPLES])


def _told(op: Op) -> str:
    facts = (op.act, f"of delivery {op.delivery}" if op.delivery else "", f"by {op.actor}")
    return " ".join(fact for fact in facts if fact)


def _newest_claim(history: History, job: str, *, before: int) -> int:
    return max(
        (claim.delivery for _, claim in history.claims.get(job, ()) if claim.at < before),
        default=0,
    )


def _overlap(first: Run, second: Run) -> bool:
    return (first.ended is None or first.ended > second.began) and (
        second.ended is None or second.ended > first.began
    )


def _failed(run: Run) -> bool:
    return run.outcome in (Outcome.RAISED, Outcome.STOPPED)


def _returned(runs: Iterable[Run]) -> bool:
    return any(run.outcome is Outcome.RETURNED for run in runs)


def _was_told_succeeded(history: History, job: str) -> bool:
    return any(
        settle.is_accepted and settle.verb == Verb.SUCCEED
        for _, settle in history.settles.get(job, ())
    )


def _false_ends(history: History, job: str, seen: Seen) -> Iterable[str]:
    sent, cancels = history.submissions.get(job), history.cancels.get(job, ())
    has_end = seen.state in TERMINAL
    if seen.state is State.CANCELLED:
        if not cancels:
            yield "is cancelled, and nobody asked for that"
    elif sent is not None and has_end and seen.state.value != sent.fate.value:
        yield f"ended {seen.state}; it had to end {sent.fate}"
    if seen.state is not State.CANCELLED and any(
        one.answer is CancelAnswer.CANCELLED for one in cancels
    ):
        yield f"is {seen.state}, and had been cancelled"
    if seen.state is State.SUCCEEDED and not _returned(history.runs.get(job, ())):
        yield "is succeeded, and no handler of it ever returned"
    if seen.state is not State.SUCCEEDED and _was_told_succeeded(history, job):
        yield f"is {seen.state}, and its success had been accepted"


def _miscounted(history: History, job: str, seen: Seen) -> Iterable[str]:
    runs = history.runs.get(job, ())
    ran = {run.delivery for run in runs}
    accepted = [settle for _, settle in history.settles.get(job, ()) if settle.is_accepted]
    # A worker that died may have run a handler the engine never heard of, or have told the
    # engine of a start that its handler never wrote down. What was settled is exact.
    settled = {settle.delivery for settle in accepted} & ran
    if not len(settled) <= seen.attempt <= len(ran) + seen.crashes:
        yield f"shows {seen.attempt} attempts; its handlers began {len(ran)} times"
    charged = {settle.delivery for settle in accepted if settle.verb in _CHARGED}
    failed = {run.delivery for run in runs if _failed(run)}
    if not len(charged) <= seen.failures <= len(failed):
        yield f"shows {seen.failures} failures; its handlers failed {len(failed)} times"
    if seen.state is State.DEAD and seen.reason == "exhausted":
        if seen.failures != seen.max_attempts:
            yield f"is dead after {seen.failures} of {seen.max_attempts} failures"
    elif seen.state is not State.DEAD and seen.failures >= seen.max_attempts:
        yield f"is {seen.state} after {seen.failures} of {seen.max_attempts} failures"


def _illegal_life(names: list[Name], state: State) -> str | None:
    if not names or names[0] is not Name.SUBMITTED:
        return f"begins its life with {names[:1]}"
    phase = _WAITS
    for name in names[1:]:
        allowed, following = _STEPS.get(name, (frozenset[str](), None))
        if phase not in allowed:
            return f"shows {name} while it {phase}, in {[str(one) for one in names]}"
        phase = following or phase
    ended = state if state in TERMINAL else None
    told = phase if phase in TERMINAL else None
    return None if ended == told else f"is {state}, and its events end with {names[-1]}"
