"""What is usually wrong with a queue and its store: the facts, and a diagnosis from them."""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from longshore.contract import Engine, JobFilter, Lapsed, QueueCounts, Retention, SessionView
from longshore.core import units
from longshore.core.event import EventBatch
from longshore.core.job import Job
from longshore.core.schedule import Schedule
from longshore.core.state import State
from longshore.core.view import BrokenRecord, Pause
from longshore.errors import LongshoreError
from longshore.operations import sqlite_checks
from longshore.operations.findings import Diagnosis, Finding, Severity, fine, problem, warning
from longshore.records import broken, pauses, schedules

__all__ = ["Facts", "clock", "diagnose", "examine", "gather"]

SAMPLE = 500
_SECOND = 1_000_000
_MINUTE = 60 * _SECOND
_MANY_DEAD = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What the engine says of itself at one moment."""

    engine_now: int
    local_now: int
    place: str = "this machine"
    """Where `local_now` was read."""
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


async def examine(
    engine: Engine, retention: Retention, *, local_now: int, place: str = "this machine"
) -> Diagnosis:
    """Every check of an engine and its store. Changes nothing, and makes no store.

    `retention` is what pruning is told to keep, `local_now` the clock of this machine, which
    findings call by the name `place`.
    """
    store = await _store(engine)
    findings = [fine("engine", engine.url), store]
    file = sqlite_checks.file_of(engine.url)
    if file is not None and file.exists():
        findings += await asyncio.to_thread(sqlite_checks.examine, file)
    if store.health is not Severity.PROBLEM:
        facts = await gather(engine, retention, local_now=local_now, place=place)
        findings += diagnose(facts)
    return Diagnosis.of(findings)


async def _store(engine: Engine) -> Finding:
    try:
        sqlite_checks.refuse_absent(engine.url)
        await engine.ping()
    except LongshoreError as error:
        return problem("store", str(error))
    if not engine.traits.survives_power_loss:
        advice = "jobs accepted in the last moment may be lost with the power"
        return warning("store", "writable, but not durable at once", advice)
    return fine("store", "writable, durable, and its schema is current")


async def gather(
    engine: Engine, retention: Retention, *, local_now: int, place: str = "this machine"
) -> Facts:
    """The facts that `diagnose` needs. Changes nothing."""
    events = await engine.events(after=0, limit=1)
    return Facts(
        engine_now=await engine.now(),
        local_now=local_now,
        place=place,
        counts=await engine.counts(may_estimate=True),
        pauses=await pauses.every(engine),
        sessions=(await engine.sessions()).sessions,
        lapsed=await engine.expired_sessions(grace=_MINUTE, limit=SAMPLE),
        ready=(await engine.find(JobFilter(state=State.READY), limit=SAMPLE)).jobs,
        scheduled=(await engine.find(JobFilter(state=State.SCHEDULED), limit=SAMPLE)).jobs,
        schedules=await schedules.every(engine),
        broken=await broken.every(engine),
        oldest_event=events[0] if events else None,
        retention=retention,
    )


def diagnose(facts: Facts) -> list[Finding]:
    """One finding per check, in the order in which they are worth reading."""
    return [check(facts) for check in _CHECKS]


def clock(engine_now: int, local_now: int, place: str) -> Finding:
    """Whether two clocks agree: the engine's, and that of the place."""
    apart = abs(engine_now - local_now)
    if apart > 5 * _SECOND:
        return warning(
            "clock",
            f"{place} and the engine are {_duration(apart)} apart",
            "the engine's clock counts; set the other one by NTP",
        )
    return fine("clock", f"{place} and the engine agree")


def _clock(facts: Facts) -> Finding:
    return clock(facts.engine_now, facts.local_now, facts.place)


def _workers(facts: Facts) -> Finding:
    waiting = sum(one.ready for one in facts.counts)
    if facts.sessions:
        holding = sum(one.holding for one in facts.sessions)
        return fine("workers", f"{len(facts.sessions)} live, holding {holding}")
    if waiting:
        return problem(
            "workers",
            f"none is live; ready jobs: {waiting}",
            "start one: longshore worker --app module:attribute",
        )
    return warning("workers", "none is live", "start one: longshore worker")


def _queues(facts: Facts) -> Finding:
    served = {name for one in facts.sessions for name in one.queues}
    unserved = [one for one in facts.counts if one.ready and one.queue not in served]
    if unserved and facts.sessions:
        return problem(
            "queues",
            f"nobody serves {_named(unserved)}",
            "start a worker with --queues, or add the queue to one that runs",
        )
    return fine("queues", f"{len(facts.counts)} known")


def _types(facts: Facts) -> Finding:
    served = {name for one in facts.sessions for name in one.types}
    # A type may be served on other queues than the one where its jobs are.
    unserved = {
        f"{job.type} on {job.queue}"
        for job in facts.ready
        if not any(job.type in one.types and job.queue in one.queues for one in facts.sessions)
    }
    if unserved and facts.sessions:
        return problem(
            "types",
            f"ready jobs that no live worker serves: {', '.join(sorted(unserved))}",
            "they wait, uncharged; start a worker whose app has these tasks, or cancel them",
        )
    return fine("types", f"{len(served)} served by live workers")


def _pauses(facts: Facts) -> Finding:
    if facts.pauses:
        paused = ", ".join(one.words for one in facts.pauses)
        advice = "hand out again: longshore queues resume [QUEUE] [--type TYPE]"
        return warning("pauses", f"paused: {paused}", advice)
    return fine("pauses", "nothing is paused")


def _reclaiming(facts: Facts) -> Finding:
    held = sum(len(one.held) for one in facts.lapsed)
    if facts.lapsed:
        return problem(
            "reclaiming",
            f"{len(facts.lapsed)} workers vanished over a minute ago, holding {held} jobs",
            "nobody reclaims them: start a worker or a scheduler",
        )
    return fine("reclaiming", "no vanished worker holds jobs")


def _promoting(facts: Facts) -> Finding:
    late = [job for job in facts.scheduled if job.run_at < facts.engine_now - _MINUTE]
    if late:
        return problem(
            "promoting",
            f"{_at_least(late)} scheduled jobs are over a minute late",
            "nobody promotes them: start a worker or a scheduler",
        )
    return fine("promoting", "no scheduled job is late")


def _firing(facts: Facts) -> Finding:
    late = [
        one.name
        for one in facts.schedules
        if not one.is_paused and one.next_due and one.next_due < facts.engine_now - _MINUTE
    ]
    if late:
        return problem(
            "firing",
            f"schedules over a minute late: {', '.join(late)}",
            "nobody fires them: start longshore scheduler",
        )
    return fine("firing", f"{len(facts.schedules)} schedules, none late")


def _records(facts: Facts) -> Finding:
    if facts.broken:
        return problem(
            "records",
            "; ".join(one.words for one in facts.broken),
            "they are left out of everything: store each anew, or delete it",
        )
    return fine("records", "all can be decoded")


def _dead(facts: Facts) -> Finding:
    dead = sum(one.dead for one in facts.counts)
    if dead >= _MANY_DEAD:
        advice = "see why: longshore dead list; then replay or purge"
        return warning("dead", f"{dead} dead jobs", advice)
    return fine("dead", f"{dead} dead jobs")


def _pruning(facts: Facts) -> Finding:
    """The outbox has the shortest retention, so it tells first that nobody prunes."""
    oldest = facts.oldest_event
    age = 0 if oldest is None else facts.engine_now - oldest.at
    if age > facts.retention.outbox + 60 * _MINUTE:
        return warning(
            "pruning",
            f"the oldest event is {_duration(age)} old; the store grows without end",
            "nobody prunes: start longshore scheduler",
        )
    return fine("pruning", "nothing is kept longer than it should be")


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
    return units.duration_text(timedelta(seconds=microseconds // _SECOND))
