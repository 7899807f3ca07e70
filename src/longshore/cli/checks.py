"""What is usually wrong with a queue: a diagnosis from facts."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum

from longshore.cli import waits
from longshore.cli.broken import text_of
from longshore.core import quantity
from longshore.core.event import EventBatch
from longshore.core.job import Job
from longshore.core.schedule import Schedule
from longshore.core.state import State
from longshore.engine import (
    BrokenRecord,
    Engine,
    JobFilter,
    Lapsed,
    Pause,
    QueueCounts,
    Retention,
    SessionView,
)

__all__ = ["Facts", "Finding", "Health", "diagnose", "gather"]

SAMPLE = 500
_SECOND = 1_000_000
_MINUTE = 60 * _SECOND
_MANY_DEAD = 100


class Health(StrEnum):
    """How good or bad a finding is."""

    FINE = "fine"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check found, and what to do about it."""

    check: str
    health: Health
    text: str
    advice: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What the engine says of itself at one moment."""

    engine_now: int
    local_now: int
    counts: Sequence[QueueCounts] = ()
    pauses: Sequence[Pause] = ()
    sessions: Sequence[SessionView] = ()
    lapsed: Sequence[Lapsed] = ()
    ready: Sequence[Job] = ()
    """The newest ones."""
    scheduled: Sequence[Job] = ()
    """The newest ones."""
    schedules: Sequence[Schedule] = ()
    broken: Sequence[BrokenRecord] = ()
    oldest_event: EventBatch | None = None
    retention: Retention = field(default_factory=Retention)


async def gather(engine: Engine, retention: Retention, *, local_now: int) -> Facts:
    """The facts that `diagnose` needs. Changes nothing."""
    events = await engine.events(after=0, limit=1)
    return Facts(
        engine_now=await engine.now(),
        local_now=local_now,
        counts=await engine.counts(may_estimate=True),
        pauses=await engine.pauses(),
        sessions=await engine.sessions(),
        lapsed=await _lapsed(engine),
        ready=(await engine.find(JobFilter(state=State.READY), limit=SAMPLE)).jobs,
        scheduled=(await engine.find(JobFilter(state=State.SCHEDULED), limit=SAMPLE)).jobs,
        schedules=await engine.schedules(),
        broken=await engine.broken_records(),
        oldest_event=events[0] if events else None,
        retention=retention,
    )


async def _lapsed(engine: Engine) -> Sequence[Lapsed]:
    # Over HTTP nobody is told what others hold: the service itself reclaims.
    if not engine.traits.maintenance:
        return ()
    return await engine.lapsed(grace=_MINUTE, limit=SAMPLE)


def diagnose(facts: Facts) -> list[Finding]:
    """One finding per check, in the order in which they are worth reading."""
    return [check(facts) for check in _CHECKS]


def _clock(facts: Facts) -> Finding:
    apart = abs(facts.engine_now - facts.local_now)
    if apart > 5 * _SECOND:
        return Finding(
            "clock",
            Health.WARNING,
            f"this machine and the engine are {_duration(apart)} apart",
            "the engine's clock counts; set this one by NTP",
        )
    return Finding("clock", Health.FINE, "this machine and the engine agree")


def _workers(facts: Facts) -> Finding:
    waiting = sum(one.ready for one in facts.counts)
    if facts.sessions:
        holding = sum(one.holding for one in facts.sessions)
        return Finding("workers", Health.FINE, f"{len(facts.sessions)} live, holding {holding}")
    if waiting:
        return Finding(
            "workers",
            Health.PROBLEM,
            f"none is live; ready jobs: {waiting}",
            "start one: longshore worker --app module:attribute",
        )
    return Finding("workers", Health.WARNING, "none is live", "start one: longshore worker")


def _queues(facts: Facts) -> Finding:
    served = {name for one in facts.sessions for name in one.queues}
    unserved = [one for one in facts.counts if one.ready and one.queue not in served]
    if unserved and facts.sessions:
        return Finding(
            "queues",
            Health.PROBLEM,
            f"nobody serves {_named(unserved)}",
            "start a worker with --queues, or add the queue to one that runs",
        )
    return Finding("queues", Health.FINE, f"{len(facts.counts)} known")


def _types(facts: Facts) -> Finding:
    served = {name for one in facts.sessions for name in one.types}
    # A type may be served on other queues than the one where its jobs are.
    unserved = {
        f"{job.type} on {job.queue}"
        for job in facts.ready
        if not waits.is_served(job.type, job.queue, facts.sessions)
    }
    if unserved and facts.sessions:
        return Finding(
            "types",
            Health.PROBLEM,
            f"ready jobs that no live worker serves: {', '.join(sorted(unserved))}",
            "they wait, uncharged; start a worker whose app has these tasks, or cancel them",
        )
    return Finding("types", Health.FINE, f"{len(served)} served by live workers")


def _pauses(facts: Facts) -> Finding:
    if facts.pauses:
        paused = ", ".join(map(waits.pause_text, facts.pauses))
        advice = "hand out again: longshore queues resume [QUEUE] [--type TYPE]"
        return Finding("pauses", Health.WARNING, f"paused: {paused}", advice)
    return Finding("pauses", Health.FINE, "nothing is paused")


def _reclaiming(facts: Facts) -> Finding:
    held = sum(len(one.held) for one in facts.lapsed)
    if facts.lapsed:
        return Finding(
            "reclaiming",
            Health.PROBLEM,
            f"{len(facts.lapsed)} workers vanished over a minute ago, holding {held} jobs",
            "nobody reclaims them: start a worker or a scheduler",
        )
    return Finding("reclaiming", Health.FINE, "no vanished worker holds jobs")


def _promoting(facts: Facts) -> Finding:
    late = [job for job in facts.scheduled if job.run_at < facts.engine_now - _MINUTE]
    if late:
        return Finding(
            "promoting",
            Health.PROBLEM,
            f"{_at_least(late)} scheduled jobs are over a minute late",
            "nobody promotes them: start a worker or a scheduler",
        )
    return Finding("promoting", Health.FINE, "no scheduled job is late")


def _firing(facts: Facts) -> Finding:
    late = [
        one.name
        for one in facts.schedules
        if not one.is_paused and one.next_due and one.next_due < facts.engine_now - _MINUTE
    ]
    if late:
        return Finding(
            "firing",
            Health.PROBLEM,
            f"schedules over a minute late: {', '.join(late)}",
            "nobody fires them: start longshore scheduler",
        )
    return Finding("firing", Health.FINE, f"{len(facts.schedules)} schedules, none late")


def _records(facts: Facts) -> Finding:
    if facts.broken:
        return Finding(
            "records",
            Health.PROBLEM,
            "; ".join(map(text_of, facts.broken)),
            "they are left out of everything: store each anew, or delete it",
        )
    return Finding("records", Health.FINE, "all can be decoded")


def _dead(facts: Facts) -> Finding:
    dead = sum(one.dead for one in facts.counts)
    if dead >= _MANY_DEAD:
        advice = "see why: longshore dead list; then replay or purge"
        return Finding("dead", Health.WARNING, f"{dead} dead jobs", advice)
    return Finding("dead", Health.FINE, f"{dead} dead jobs")


def _pruning(facts: Facts) -> Finding:
    """The outbox has the shortest retention, so it tells first that nobody prunes."""
    oldest = facts.oldest_event
    age = 0 if oldest is None else facts.engine_now - oldest.at
    if age > facts.retention.outbox + 60 * _MINUTE:
        return Finding(
            "pruning",
            Health.WARNING,
            f"the oldest event is {_duration(age)} old; the store grows without end",
            "nobody prunes: start longshore scheduler",
        )
    return Finding("pruning", Health.FINE, "nothing is kept longer than it should be")


_CHECKS = (
    _clock,
    _workers,
    _queues,
    _types,
    _pauses,
    _reclaiming,
    _promoting,
    _firing,
    _records,
    _dead,
    _pruning,
)


def _named(counts: Iterable[QueueCounts]) -> str:
    return ", ".join(f"{one.queue} ({one.ready} ready)" for one in counts)


def _at_least(sample: Sequence[Job]) -> str:
    return f"{len(sample)}" if len(sample) < SAMPLE else f"{SAMPLE} or more"


def _duration(microseconds: int) -> str:
    return quantity.duration_text(timedelta(seconds=microseconds // _SECOND))
