"""Why a job does not run: one function over what is known of it, of its queue and of workers.

Every reason is a sentence with, where it can be said, the moment at which it ends. Reasons that
somebody has to remove come first, those that pass by themselves after them.
"""

from collections.abc import Iterable, Sequence
from datetime import timedelta

import msgspec

from longshore.core import ids
from longshore.core.circuit_breaker import PARKED
from longshore.core.instant import moment, rfc3339
from longshore.core.job import Job
from longshore.core.limit_settings import BreakerFlow, Order, Phase, QueueSettings, aging_of
from longshore.core.ordering_key import Line
from longshore.core.state import State
from longshore.core.units import duration_text, rate_text
from longshore.core.view import Pause, QueueCounts, SessionView

__all__ = ["Facts", "Pace", "Reason", "explain", "goes_first", "pace"]

_STEPS = (
    (86_400_000_000, 3_600_000_000),
    (3_600_000_000, 60_000_000),
    (1_000_000, 1_000_000),
)
_PROMOTED_US = 5_000_000
"""What is due for longer than this has nobody who makes it ready."""
_LATELY_US = 600_000_000
"""What ended before that says nothing of how fast a queue is now."""


class Pace(msgspec.Struct, frozen=True):
    """How fast a queue has been lately."""

    per_second: float
    """Jobs that ended."""
    run_time: int
    """Microseconds that one of them ran, in the mean."""


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What is known about why a job does not run. What nobody knows stays at its default."""

    job: Job
    now: int
    counts: QueueCounts | None = None
    """Of its queue, as far as whoever asks may know."""
    running: int = 0
    """Jobs of its queue that run, whoever's they are."""
    settings: QueueSettings = QueueSettings()
    """What holds for its queue."""
    pauses: Sequence[Pause] = ()
    sessions: Sequence[SessionView] = ()
    ahead: int | None = None
    """Ready jobs that go first, at most; in a fair queue, of its tenant."""
    token_at: int | None = None
    """When the queue's rate lets the next job start."""
    breaker: BreakerFlow | None = None
    """Of its type."""
    line: Line | None = None
    """Of its ordering key, if it is parked there."""
    pace: Pace | None = None
    """Of its queue."""


class Reason(msgspec.Struct, frozen=True):
    """One thing that keeps a job from running, or says why it needs not."""

    code: str
    """For programs."""
    text: str
    """For people."""
    until: int | None = None
    """When it passes by itself, as far as that can be said."""


def explain(facts: Facts) -> list[Reason]:
    """Why the job does not run now, or what it does instead of waiting; never empty."""
    if facts.job.state is State.SCHEDULED:
        return [_scheduled(facts), *_put_off(facts), *_obstacles(facts)]
    if facts.job.state is State.RUNNING:
        return [_running(facts)]
    if facts.job.state is State.READY:
        return [*_obstacles(facts), *_limits(facts)] or [_turn(facts)]
    return [_ended(facts)]


def goes_first(one: Job, other: Job, settings: QueueSettings) -> bool:
    """Whether a ready job is ahead of another of its queue, as far as their fields tell.

    In a fair queue, of another of its tenant.
    """
    if settings.order is Order.AGING:
        aging = aging_of(settings)
        return one.run_at + one.priority * aging < other.run_at + other.priority * aging
    return (one.priority, one.run_at) < (other.priority, other.run_at)


def pace(ended: Iterable[Job], now: int) -> Pace | None:
    """How fast the queue of these jobs, which ended last, has been; None: it has not been."""
    times = [
        (one.finished_at, one.finished_at - one.started_at)
        for one in ended
        if one.finished_at is not None
        and one.started_at is not None
        and now - one.finished_at < _LATELY_US
    ]
    if len(times) < 2:
        return None
    since = max(now - min(finished_at for finished_at, _ in times), 1)
    return Pace(len(times) * 1e6 / since, sum(ran for _, ran in times) // len(times))


def _scheduled(facts: Facts) -> Reason:
    job = facts.job
    overdue = facts.now - job.run_at
    if overdue > _PROMOTED_US:
        return Reason(
            "overdue",
            f"It was due {_span(overdue)} ago and was not made ready: no worker and no "
            "scheduler does that. `longshore doctor` tells.",
        )
    when = f"in {_span(-overdue)}, at {_time(job.run_at)}" if overdue < 0 else "now"
    if job.failures == 0:
        return Reason("scheduled", f"It is not due yet: it is due {when}.", job.run_at)
    why = "" if job.failure is None else f" ({job.failure.kind}: {_short(job.failure.message)})"
    left = job.max_attempts - job.failures
    return Reason(
        "retry",
        f"Attempt {job.failures} of {job.max_attempts} failed{why}; it is tried again {when}, "
        f"and dead after {left} more {'failure' if left == 1 else 'failures'}.",
        job.run_at,
    )


def _put_off(facts: Facts) -> Iterable[Reason]:
    """What the retry budget of the queue adds to the backoff."""
    job, rate = facts.job, facts.settings.retry_rate
    if job.failure is None or isinstance(job.failure.put_off, msgspec.UnsetType):
        return
    most = "about as many as normally succeed" if rate is None else f"at most {rate_text(rate)}"
    yield Reason(
        "retry_rate",
        f"Many jobs failed at once, and {most} of those come back to queue {job.queue}: "
        f"it waits {_span(job.failure.put_off)} longer than it would by itself.",
        job.run_at,
    )


def _running(facts: Facts) -> Reason:
    job, who = facts.job, facts.job.worker or "a worker"
    if job.cancel_requested:
        return Reason("stopping", f"It runs on {who}, which was asked to stop it.")
    if job.started_at is None:
        return Reason("buffered", f"It was handed to {who}, which will start it next.")
    spent = _span(facts.now - job.started_at)
    if job.timeout is None:
        return Reason("running", f"It has run on {who} for {spent}, without a time limit.")
    end = job.started_at + job.timeout
    text = f"It has run on {who} for {spent}, and is stopped after {_span(job.timeout)}."
    return Reason("running", text, end)


def _ended(facts: Facts) -> Reason:
    job = facts.job
    when = "" if job.finished_at is None else f" {_span(facts.now - job.finished_at)} ago"
    if job.state is State.SUCCEEDED:
        return Reason("succeeded", f"It succeeded{when}.{_spent(job)}")
    what = "died" if job.state is State.DEAD else "was cancelled"
    why = f": {_short(job.reason)}" if job.reason else ""
    again = "`longshore dead replay` runs it again."
    return Reason(job.state.value, f"It {what}{when}{why}.{_spent(job)} {again}")


def _spent(job: Job) -> str:
    """How long the last attempt of an ended job waited and ran."""
    if job.finished_at is None:
        return ""
    if job.started_at is None:
        return f" It had waited {_span(job.finished_at - job.run_at)}, and never started."
    ran, waited = job.finished_at - job.started_at, job.started_at - job.run_at
    return f" It ran {_span(ran)} on attempt {job.attempt} after waiting {_span(waited)}."


def _obstacles(facts: Facts) -> list[Reason]:
    """What does not pass by itself."""
    return [
        reason
        for find in (_pauses, _workers, _breaker, _line, _parked)
        for reason in find(facts)
    ]


def _limits(facts: Facts) -> list[Reason]:
    """What lets only so many jobs run."""
    return [reason for find in (_max_running, _rate) for reason in find(facts)]


def _pauses(facts: Facts) -> Iterable[Reason]:
    job = facts.job
    for pause in facts.pauses:
        if pause.queue in (None, job.queue) and pause.type in (None, job.type):
            words = " ".join(
                word
                for word in (pause.queue, pause.type and f"--type {pause.type}")
                if word is not None
            )
            yield Reason(
                "paused",
                f"The {pause.words} is paused; `longshore queues resume {words}` ends that.",
            )


def _workers(facts: Facts) -> Iterable[Reason]:
    job, sessions = facts.job, facts.sessions
    serving = [one for one in sessions if job.queue in one.queues and job.type in one.types]
    if any(not one.is_quiet for one in serving):
        return
    if serving:
        text = f"Every worker that serves {job.type} on queue {job.queue} is draining."
    elif not sessions:
        text = "No worker is connected."
    elif not any(job.queue in one.queues for one in sessions):
        text = f"No connected worker serves the queue {job.queue}."
    elif not any(job.type in one.types for one in sessions):
        text = f"No connected worker knows the type {job.type}."
    else:
        text = f"No connected worker serves both the type {job.type} and queue {job.queue}."
    yield Reason("no_worker", text)


def _breaker(facts: Facts) -> Iterable[Reason]:
    standing, kind = facts.breaker, facts.job.type
    if standing is None or standing.phase is Phase.CLOSED:
        return
    if standing.phase is Phase.HALF_OPEN:
        text = f"The breaker of {kind} lets only a few jobs try whether it works"
        if facts.job.timeout is None:
            yield Reason("breaker", f"{text}.")
        else:
            left = standing.since + facts.job.timeout
            known = f"; that is known within {_span(left - facts.now)} at the latest."
            yield Reason("breaker", f"{text}{known}", left)
        return
    wait = standing.until - facts.now
    text = f"The breaker of {kind} is open, because its jobs fail; it is tried again "
    yield Reason(
        "breaker", text + (f"in {_span(wait)}." if wait > 0 else "now."), standing.until
    )


def _line(facts: Facts) -> Iterable[Reason]:
    """What keeps a job that is parked in the line of its ordering key."""
    it, key = facts.line, _short(facts.job.ordering_key or "")
    if it is None:
        return
    if it.dead:
        dead = ids.text(it.dead[0])
        yield Reason(
            "line_blocked",
            f"The dead job {dead} blocks the ordering key {key}; `longshore dead replay` runs "
            "it again first, and `longshore lines release` goes on without it.",
        )
    elif it.opens_at is not None:
        yield _key_rate(facts, it.opens_at, it.parked)
    elif it.inside == 1 and it.last is not None:
        text = f"It waits for job {ids.text(it.last)}, which is before it in the ordering key "
        yield _in_line(facts, it, f"{text}{key}")
    else:
        most = facts.settings.max_running_per_key or 1
        text = f"{it.inside} jobs of the ordering key {key} run or are to run before it; "
        yield _in_line(facts, it, f"{text}the queue runs {most} of a key at once")


def _key_rate(facts: Facts, opens_at: int, parked: int) -> Reason:
    rate = facts.settings.rate_per_key
    key = _short(facts.job.ordering_key or "")
    text = f"Queue {facts.job.queue} starts only so many jobs of an ordering key per second"
    if rate is None:
        return Reason("rate_per_key", f"{text}.", opens_at)
    until = opens_at + round((parked - 1) / rate * 1e6)
    text = f"Queue {facts.job.queue} starts at most {rate_text(rate)} of an ordering key, and "
    text += f"{parked} of {key} wait: by that alone its turn comes within about "
    return Reason("rate_per_key", f"{text}{_span(until - facts.now)}.", until)


def _in_line(facts: Facts, it: Line, text: str) -> Reason:
    """With an estimate, if all who wait in the line were before it."""
    if facts.pace is None:
        return Reason("line", f"{text}.")
    rounds = -(-(it.parked - 1 + it.inside) // (facts.settings.max_running_per_key or 1))
    wait = rounds * facts.pace.run_time
    return Reason("line", f"{text}; {_within(wait)}.", facts.now + wait)


def _parked(facts: Facts) -> Iterable[Reason]:
    if facts.line is not None:
        return
    if facts.job.parked not in (None, PARKED):
        key = facts.job.ordering_key
        behind = "" if key is None else f", among the jobs of the key {_short(key)}"
        yield Reason("parked", f"It waits{behind}: {_short(facts.job.parked)}.")


def _max_running(facts: Facts) -> Iterable[Reason]:
    most = facts.settings.max_running
    if most is not None and facts.running >= most:
        yield Reason(
            "max_running",
            f"Queue {facts.job.queue} runs at most {most} jobs at once, and so many run; "
            f"the next one starts when one ends{_queued(facts)}{_estimate(facts)}.",
            _until(facts),
        )


def _rate(facts: Facts) -> Iterable[Reason]:
    rate = facts.settings.rate
    if rate is None or (not facts.ahead and (facts.token_at or 0) <= facts.now):
        return
    first = max(facts.token_at or facts.now, facts.now)
    until = first + round((facts.ahead or 0) / rate * 1e6)
    yield Reason(
        "rate",
        f"Queue {facts.job.queue} starts at most {rate_text(rate)}{_queued(facts)}: "
        f"by that alone its turn comes within about {_span(until - facts.now)}.",
        until,
    )


def _turn(facts: Facts) -> Reason:
    """Nothing keeps it but those before it."""
    if not facts.ahead and facts.settings.order is Order.FAIR:
        return Reason("next", "It is the next of its tenant, and tenants take turns.")
    if not facts.ahead:
        return Reason("next", "Nothing keeps it: the next free worker takes it.")
    text = f"It waits for its turn{_queued(facts)}{_estimate(facts)}."
    counts, until = facts.counts, _until(facts)
    if counts is None or counts.oldest_ready_at is None:
        return Reason("queued", text, until)
    waited = max(facts.now - counts.oldest_ready_at, 0)
    return Reason("queued", f"{text} The oldest ready job has waited {_span(waited)}.", until)


def _until(facts: Facts) -> int | None:
    """When its turn comes if those before it go as fast as the queue has been."""
    if facts.pace is None:
        return None
    return facts.now + round(((facts.ahead or 0) + 1) / facts.pace.per_second * 1e6)


def _estimate(facts: Facts) -> str:
    until = _until(facts)
    return "" if until is None else f"; {_within(until - facts.now)}"


def _within(wait: int) -> str:
    return f"as fast as the queue has been lately, its turn comes within about {_span(wait)}"


def _queued(facts: Facts) -> str:
    if not facts.ahead:
        return ""
    many = "1 ready job" if facts.ahead == 1 else f"{facts.ahead} ready jobs"
    if facts.settings.order is Order.FAIR:
        return f", with up to {many} of its tenant before it while tenants take turns"
    if facts.settings.order is Order.AGING:
        worth = _span(aging_of(facts.settings))
        return f", with up to {many} before it; a priority level is worth {worth}"
    return f", with up to {many} before it"


def _span(microseconds: int) -> str:
    """A duration in the one or two units that matter."""
    value = max(microseconds, 0)
    step = next((step for least, step in _STEPS if value >= least), 1_000)
    return duration_text(timedelta(microseconds=value // step * step))


def _time(microseconds: int) -> str:
    return rfc3339(moment(microseconds), "seconds")


def _short(words: str) -> str:
    line = " ".join(words.split())
    return line if len(line) <= 200 else f"{line[:200]}…"
