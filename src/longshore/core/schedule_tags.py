"""What a fired job tells of its schedule: two tags, `schedule:NAME` and `due:TIME`.

Tags travel with every job through every engine, and people can filter by them.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from longshore.core.instant import rfc3339

__all__ = ["due_of", "schedule_of", "tags_of"]

_SCHEDULE = "schedule:"
_DUE = "due:"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def tags_of(schedule: str, due: int | None) -> tuple[str, ...]:
    """The tags of a job that a schedule fired; no due time when someone asked for it."""
    name = _SCHEDULE + schedule
    if due is None:
        return (name,)
    return (name, _DUE + rfc3339(_EPOCH + due * _MICROSECOND))


def schedule_of(tags: Sequence[str]) -> str | None:
    """The name of the schedule; None for a job that no schedule fired."""
    return next(
        (tag.removeprefix(_SCHEDULE) for tag in tags if tag.startswith(_SCHEDULE)), None
    )


def due_of(tags: Sequence[str]) -> datetime | None:
    """The due time; None for a job that was not fired for one."""
    for tag in tags:
        if tag.startswith(_DUE):
            return _moment(tag.removeprefix(_DUE))
    return None


def _moment(words: str) -> datetime | None:
    # Anybody may tag a job with anything.
    try:
        moment = datetime.fromisoformat(words)
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else None
