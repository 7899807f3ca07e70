"""Schedules: recurring definitions, and which of their due times to fire.

A due time is a point on the schedule's own grid, exact to the microsecond. When it fires, and
when its job runs, are other matters: a scheduler may look late, and jitter moves the job.
"""

import hashlib
from collections import deque
from collections.abc import Callable, Iterator
from enum import StrEnum
from itertools import islice, takewhile

import msgspec

from longshore.core import cron, schedule_tags, submission
from longshore.core.backoff import LONGEST_US
from longshore.core.instant import LATEST_US
from longshore.core.job import DEFAULT_TIMEOUT_US, JobId, NewJob
from longshore.core.submission import MOST_TAGS
from longshore.errors import ConfigError, PayloadError, SubmitError

__all__ = [
    "PUNCTUAL_US",
    "SHORTEST_EVERY_US",
    "STALL_US",
    "CatchUp",
    "DueSchedule",
    "Firing",
    "Overlap",
    "Schedule",
    "Shot",
    "check_firing",
    "decide",
    "declared",
    "due_times",
    "extra_job",
    "firing_rate",
    "has_times_of",
    "next_due",
    "preview",
    "quirk",
    "validate",
]

_SECOND = 1_000_000

SHORTEST_EVERY_US = 100_000
STALL_US = 5 * _SECOND
"""A backlog no older than this is a scheduler out of breath, not downtime: all of it fires."""
PUNCTUAL_US = 60 * _SECOND
"""A due time up to this old is late, not missed: `skip` still fires it, if it is the latest."""

_LONGEST_NAME = 200
_MOST_CAUGHT_UP = 1_000
_MOST_PREVIEWED = 1_000
_MEASURED = 120
"""Due times by which the rate of a cron expression is judged."""
_MEASURED_US = 366 * 86_400 * _SECOND
_FIRED_TAGS = 2
"""That `core.schedule_tags` gives a fired job besides the schedule's own."""
_NOBODY = JobId(bytes(16))
_LONGEST_JITTER_US = 86_400 * _SECOND


class CatchUp(StrEnum):
    """What happens to due times that passed while no scheduler ran."""

    SKIP = "skip"
    LATEST = "latest"
    ALL = "all"


class Overlap(StrEnum):
    """What a due time does while the schedule's last job is still live."""

    ALLOW = "allow"
    SKIP = "skip"


class Schedule(msgspec.Struct, frozen=True, kw_only=True):
    """A recurring definition of a job: a cron expression in a time zone, or an interval."""

    name: str
    tenant: str = "default"
    cron: str | None = None
    every: int | None = None
    """Microseconds between due times, counted from `anchor`."""
    anchor: int = 0
    timezone: str = "UTC"
    type: str
    payload: bytes = b"{}"
    queue: str = "default"
    priority: int = 5
    max_attempts: int = 5
    timeout: int | None = DEFAULT_TIMEOUT_US
    tags: tuple[str, ...] = ()
    catch_up: CatchUp = CatchUp.LATEST
    catch_up_limit: int = 100
    overlap: Overlap = Overlap.ALLOW
    jitter: int = 0
    """Each job runs up to this long after its due time; the due time itself stays exact."""
    is_paused: bool = False
    next_due: int | None = None
    last_due: int | None = None
    last_job: JobId | None = None


class DueSchedule(msgspec.Struct, frozen=True):
    """A schedule whose next due time has come, as the engine saw it."""

    schedule: Schedule
    now: int
    is_last_job_live: bool
    version: int | None = None
    """Of its record."""


class Shot(msgspec.Struct, frozen=True):
    """One due time and its job; no job when the overlap policy skipped it."""

    due: int
    job: NewJob | None


class Firing(msgspec.Struct, frozen=True):
    """What to do for a due schedule: applied only if `expected` is still its next due time.

    And only if nobody has changed it since it was decided.
    """

    name: str
    tenant: str
    expected: int
    shots: tuple[Shot, ...]
    next_due: int | None
    version: int | None = None
    """Of the schedule's record; None: any."""

    @property
    def jobs(self) -> list[NewJob]:
        """What it submits."""
        return [shot.job for shot in self.shots if shot.job is not None]


def validate(schedule: Schedule) -> None:
    """Return if the schedule can fire, else a ConfigError that says what to change."""
    where = f"schedule {schedule.name!r:.80}"
    if not 0 < len(schedule.name) <= _LONGEST_NAME or not schedule.name.isprintable():
        raise ConfigError(f"{where}: a name has 1 to {_LONGEST_NAME} printable characters")
    if not schedule.type:
        raise ConfigError(f"{where}: name the task type it submits")
    if len(schedule.tags) > MOST_TAGS - _FIRED_TAGS:
        raise ConfigError(f"{where}: it has up to {MOST_TAGS - _FIRED_TAGS} tags of its own")
    for what, value, least, most in _bounds(schedule):
        if not least <= value <= most:
            raise ConfigError(f"{where}: {what} must be {least} to {most}, not {value}")
    try:
        _validate_times(schedule)
        submission.validate(extra_job(schedule, _NOBODY))
    except (ConfigError, SubmitError, PayloadError) as error:
        raise ConfigError(f"{where}: {error}") from None


def check_firing(firing: Firing) -> None:
    """Return if what the firing stores may be stored, else SubmitError or PayloadError."""
    submission.check(firing.jobs)
    for what, value in (("next due time", firing.next_due), ("due time", firing.expected)):
        if value is not None and not 0 <= value <= LATEST_US:
            raise SubmitError(f"schedule {firing.name!r:.80}: {what} is not from 1970 to 9999")


def next_due(schedule: Schedule, after: int) -> int | None:
    """The first due time later than `after`; None when there is none."""
    if schedule.cron is not None:
        return cron.parse(schedule.cron, schedule.timezone).after(after)
    if schedule.every is None:
        raise ConfigError(f"schedule {schedule.name!r:.80} has neither cron nor interval")
    passed = (after - schedule.anchor) // schedule.every
    return schedule.anchor + max(passed + 1, 0) * schedule.every


def preview(schedule: Schedule, after: int, count: int) -> list[int]:
    """The first `count` due times later than `after`."""
    return list(islice(_grid(schedule, after), min(count, _MOST_PREVIEWED)))


def firing_rate(schedule: Schedule, now: int) -> float:
    """Jobs per second that it fires, on average of the due times that come next.

    It looks a year beyond the first at most: those of a leap day would be five centuries.
    """
    if schedule.every is not None:
        return _SECOND / schedule.every
    times: list[int] = []
    for due in islice(_grid(schedule, now), _MEASURED):
        times.append(due)
        if due - times[0] > _MEASURED_US:
            break
    return (len(times) - 1) * _SECOND / (times[-1] - times[0]) if len(times) > 1 else 0.0


def quirk(schedule: Schedule, due: int) -> cron.Quirk | None:
    """What a change of the clock made of this due time; nothing, for an interval."""
    if schedule.cron is None:
        return None
    return cron.parse(schedule.cron, schedule.timezone).quirk(due)


def declared(schedule: Schedule, *, now: int, existing: Schedule | None = None) -> Schedule:
    """`schedule` as it should be stored, so that declaring it again loses no due time.

    While its times stay the same it keeps its place, and what was missed before a deployment
    is still caught up. New times, and a pause that ends, count from now.
    """
    validate(schedule)
    if existing is None:
        return msgspec.structs.replace(schedule, next_due=next_due(schedule, now))
    is_resumed = existing.is_paused and not schedule.is_paused
    keeps_place = has_times_of(schedule, existing) and not is_resumed
    return msgspec.structs.replace(
        schedule,
        next_due=existing.next_due if keeps_place else next_due(schedule, now),
        last_due=existing.last_due,
        last_job=existing.last_job,
    )


def has_times_of(schedule: Schedule, other: Schedule) -> bool:
    """Whether the due times of both are the same."""
    return _times(schedule) == _times(other)


def due_times(schedule: Schedule, now: int) -> list[int]:
    """The due times to fire now, oldest first, as the catch-up policy has it."""
    oldest = schedule.next_due
    if oldest is None or oldest > now:
        return []
    if now - oldest <= STALL_US:
        return _newest_due(schedule, oldest, now, STALL_US // SHORTEST_EVERY_US + 1)
    if schedule.catch_up is CatchUp.ALL:
        return _newest_due(schedule, oldest, now, schedule.catch_up_limit)
    latest = _latest_due(schedule, oldest, now)
    if schedule.catch_up is CatchUp.SKIP and now - latest > PUNCTUAL_US:
        return []
    return [latest]


def decide(due: DueSchedule, new_id: Callable[[], JobId]) -> Firing:
    """What to do for a schedule whose next due time has come.

    With overlap `skip`, of several due times that fire together the newest gets the job.
    """
    schedule = due.schedule
    times = due_times(schedule, due.now)
    runs = times
    if schedule.overlap is Overlap.SKIP:
        runs = [] if due.is_last_job_live else times[-1:]
    shots = tuple(
        Shot(time, _fired(schedule, time, due.now, new_id()) if time in runs else None)
        for time in times
    )
    expected = due.now if schedule.next_due is None else schedule.next_due
    coming = next_due(schedule, max(expected, due.now))
    return Firing(schedule.name, schedule.tenant, expected, shots, coming, due.version)


def extra_job(schedule: Schedule, job_id: JobId) -> NewJob:
    """A job like those it fires, besides them: to run now, whatever is due or still runs."""
    return _job(schedule, job_id, tags=schedule_tags.tags_of(schedule.name, None), run_at=None)


def _validate_times(schedule: Schedule) -> None:
    if (schedule.cron is None) == (schedule.every is None):
        raise ConfigError("give either a cron expression or an interval")
    _ = cron.zone(schedule.timezone)
    if schedule.cron is not None:
        _ = cron.parse(schedule.cron, schedule.timezone)
    if schedule.anchor and schedule.cron is not None:
        raise ConfigError("an anchor is for intervals; a cron expression has none")


def _bounds(schedule: Schedule) -> Iterator[tuple[str, int, int, int]]:
    yield "catch-up limit", schedule.catch_up_limit, 1, _MOST_CAUGHT_UP
    yield "jitter in microseconds", schedule.jitter, 0, _LONGEST_JITTER_US
    if schedule.every is not None:
        yield "interval in microseconds", schedule.every, SHORTEST_EVERY_US, LONGEST_US
    if schedule.timeout is not None:
        yield "timeout in microseconds", schedule.timeout, 1, LONGEST_US
    for what, value in (
        ("anchor", schedule.anchor),
        ("next due time", schedule.next_due),
        ("last due time", schedule.last_due),
    ):
        if value is not None:
            yield f"{what} in microseconds since 1970", value, 0, LATEST_US


def _times(schedule: Schedule) -> tuple[str | int | None, ...]:
    return (schedule.cron, schedule.every, schedule.anchor, schedule.timezone)


def _grid(schedule: Schedule, after: int) -> Iterator[int]:
    due = next_due(schedule, after)
    while due is not None:
        yield due
        due = next_due(schedule, due)


def _latest_due(schedule: Schedule, oldest: int, now: int) -> int:
    """The last due time up to `now`, found in steps that halve: a day of tenths takes 19."""
    known, beyond = oldest, now
    # Cron's due times are whole seconds, an interval's at least a tenth apart.
    while beyond - known >= SHORTEST_EVERY_US:
        found = next_due(schedule, known + (beyond - known) // 2)
        if found is not None and found <= now:
            known = found
        else:
            beyond = known + (beyond - known) // 2
    return known


def _newest_due(schedule: Schedule, oldest: int, now: int, count: int) -> list[int]:
    """The last `count` due times from `oldest` to `now`, in order."""
    latest = _latest_due(schedule, oldest, now)
    reach = count * (schedule.every or _SECOND)
    while True:
        start = max(latest - reach, oldest)
        first = [oldest] if start == oldest else []
        rest = takewhile(lambda due: due <= latest, _grid(schedule, start))
        found = deque([*first, *rest], maxlen=count)
        if len(found) == count or start == oldest:
            return list(found)
        # Looking back from the latest keeps a long downtime from costing a step per miss.
        reach *= 4


def _fired(schedule: Schedule, due: int, now: int, job_id: JobId) -> NewJob:
    # After downtime the due time plus jitter is past for every schedule at once; counted from
    # now, the jitter still spreads their jobs.
    base = now if 0 < schedule.jitter < now - due else due
    run_at = base + int(schedule.jitter * _chance(schedule, due))
    return _job(schedule, job_id, tags=schedule_tags.tags_of(schedule.name, due), run_at=run_at)


def _job(
    schedule: Schedule, job_id: JobId, *, tags: tuple[str, ...], run_at: int | None
) -> NewJob:
    return NewJob(
        id=job_id,
        type=schedule.type,
        payload=schedule.payload,
        queue=schedule.queue,
        tenant=schedule.tenant,
        priority=schedule.priority,
        run_at=run_at,
        max_attempts=schedule.max_attempts,
        timeout=schedule.timeout,
        tags=(*tags, *schedule.tags),
    )


def _chance(schedule: Schedule, due: int) -> float:
    """In [0, 1): the same for every scheduler that looks at this due time."""
    words = f"{schedule.tenant}\0{schedule.name}\0{due}".encode("utf-8", "surrogatepass")
    digest = hashlib.blake2b(words, digest_size=6).digest()
    return int.from_bytes(digest, "big") / 2**48
