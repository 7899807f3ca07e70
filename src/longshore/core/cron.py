"""Cron expressions in a time zone, and the next due time after any instant.

cronsim knows the calendar: which local times an expression names. What becomes of a local time
that the zone's clock shows twice, or never, is decided here, because Longshore promises more
than Debian's cron (docs/decisions/0007):

- An expression that names its hours is due once for each local time it names: the first time
  the clock shows that time or a later one. A time inside a spring gap is due at the gap's end,
  a time inside an autumn fold the first time round.
- An expression that runs in every hour follows elapsed time: it is due whenever the clock
  shows a matching time, so it never falls silent while an hour is repeated.

`zoneinfo` reads the zone's rules from the tz database once and keeps them; it is the only
thing in this package that touches a file.
"""

from collections.abc import Iterator
from copy import copy
from datetime import datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from longshore.errors import ConfigError

__all__ = ["ALIASES", "Cron", "Quirk", "parse", "zone"]

ALIASES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}

_SECOND = 1_000_000
_DAY_S = 86_400
_LONGEST_EXPRESSION = 200
_EPOCH = datetime.fromisoformat("1970-01-01")
_ONE_SECOND = timedelta(seconds=1)
# cronsim looks fifty years ahead; past this instant it would leave the calendar.
_LAST_S = 7_900 * 365 * _DAY_S


class Quirk(StrEnum):
    """What a change of the clock makes of a due time."""

    GAP = "gap"
    """A local time that it names never comes on this day; it is due when the gap ends."""
    FOLD = "fold"
    """Its local time comes twice on this day; it is due the first time only."""
    FIRST_PASS = "first_pass"
    """Its local time comes twice, and it is due both times; this is the first."""
    SECOND_PASS = "second_pass"
    """The second."""


class Cron:
    """The due times of one expression in one time zone. Made by `parse`."""

    __slots__ = ("_calendar", "_zone", "follows_elapsed_time")

    def __init__(self, calendar: CronSim, zone: ZoneInfo) -> None:
        self._calendar = calendar
        self._zone = zone
        self.follows_elapsed_time = len(calendar.hours) == 24
        """It runs in every hour, so a repeated hour repeats its due times."""

    def after(self, instant: int) -> int | None:
        """The first due time later than `instant`; None when the next fifty years have none."""
        floor = instant // _SECOND
        if not -_LAST_S < floor < _LAST_S:
            return None
        find = self._next_shown if self.follows_elapsed_time else self._next_reached
        due = find(floor)
        return None if due is None else due * _SECOND

    def quirk(self, due: int) -> Quirk | None:
        """What a change of the clock made of this due time, which is one of its own."""
        moment = datetime.fromtimestamp(due // _SECOND, self._zone)
        if moment.replace(fold=0).utcoffset() != moment.replace(fold=1).utcoffset():
            if not self.follows_elapsed_time:
                return Quirk.FOLD
            return Quirk.SECOND_PASS if moment.fold else Quirk.FIRST_PASS
        before = _local(self._zone, due // _SECOND - 1)
        named = next(self._local_times(before), None)
        if self.follows_elapsed_time or named is None:
            return None
        # The clock jumped over a time that is named: it shows a later one.
        return Quirk.GAP if named < moment.replace(tzinfo=None) else None

    def _next_reached(self, floor: int) -> int | None:
        for wanted in self._local_times(_local(self._zone, floor)):
            due = _first_reached(self._zone, wanted)
            # The rest of a gap is due at an instant that has passed, and so is a fold that
            # comes round again.
            if due > floor:
                return due
        return None

    def _next_shown(self, floor: int) -> int | None:
        start: int | None = floor + 1
        due: int | None = None
        while start is not None:
            offset = _offset(self._zone, start)
            before = _EPOCH + (start + offset - 1) * _ONE_SECOND
            wanted = next(self._local_times(before), None)
            if wanted is None:
                return None
            due = (wanted - _EPOCH) // _ONE_SECOND - offset
            # Up to the next change of the clock the search is done; go on from there.
            start = _next_change(self._zone, start, due)
        return due

    def _local_times(self, after: datetime) -> Iterator[datetime]:
        calendar = copy(self._calendar)
        calendar.dt = after
        return calendar


@lru_cache(maxsize=4_096)
def parse(expression: str, timezone: str = "UTC") -> Cron:
    """The due times of a cron expression, or a ConfigError that says what is wrong with it.

    Five fields (minute, hour, day of month, month, day of week), six with the seconds in
    front, or one of ALIASES.
    """
    place = zone(timezone)
    fields = _fields(expression)
    try:
        calendar = CronSim(fields, _EPOCH)
    except CronSimError as error:
        raise ConfigError(_complaint(expression, fields, str(error))) from None
    if next(copy(calendar), None) is None:
        raise ConfigError(f"cron expression {expression!r} never fires in fifty years")
    return Cron(calendar, place)


def zone(name: str) -> ZoneInfo:
    """The IANA time zone of this name, or ConfigError."""
    try:
        return ZoneInfo(name)
    # A folder of the database, a path out of it, a name no file can have: each of them raises
    # something else.
    except (LookupError, ValueError, OSError):
        raise ConfigError(
            f"unknown time zone {name!r:.80}; use an IANA name such as 'Europe/Berlin'"
        ) from None


def _fields(expression: str) -> str:
    if len(expression) > _LONGEST_EXPRESSION:
        raise ConfigError(f"cron expression is longer than {_LONGEST_EXPRESSION} characters")
    if not expression.strip().startswith("@"):
        return expression
    try:
        return ALIASES[expression.strip().lower()]
    except KeyError:
        known = ", ".join(ALIASES)
        raise ConfigError(f"unknown cron alias {expression!r}; there are {known}") from None


def _complaint(expression: str, fields: str, problem: str) -> str:
    parts = fields.split()
    if len(parts) not in (5, 6):
        return (
            f"cron expression {expression!r} has {len(parts)} fields; it needs 5 (minute hour "
            "day-of-month month day-of-week), or 6 with seconds in front"
        )
    any_month = [*parts[:-2], "*", parts[-1]]
    if problem == "Bad day-of-month" and _is_valid(" ".join(any_month)):
        return f"cron expression {expression!r} never fires: no month it names has such a day"
    return f"cron expression {expression!r} has a {problem[0].lower()}{problem[1:]} field"


def _is_valid(fields: str) -> bool:
    try:
        CronSim(fields, _EPOCH)
    except CronSimError:
        return False
    return True


def _local(zone: ZoneInfo, instant: int) -> datetime:
    return datetime.fromtimestamp(instant, zone).replace(tzinfo=None)


def _offset(zone: ZoneInfo, instant: int) -> int:
    return (_local(zone, instant) - _EPOCH) // _ONE_SECOND - instant


def _first_reached(zone: ZoneInfo, wanted: datetime) -> int:
    """The first instant at which the zone's clock shows `wanted` or a later time."""
    by_old_offset = int(wanted.replace(tzinfo=zone, fold=0).timestamp())
    by_new_offset = int(wanted.replace(tzinfo=zone, fold=1).timestamp())
    if by_old_offset <= by_new_offset:
        return by_old_offset
    # Only in a gap does the old offset give the later instant; the gap lies between the two.
    change = _next_change(zone, by_new_offset, by_old_offset)
    return by_old_offset if change is None else change


def _next_change(zone: ZoneInfo, start: int, end: int) -> int | None:
    """The first instant in (start, end] at which the zone's offset differs from `start`'s."""
    offset = _offset(zone, start)
    low = high = start
    # No zone has changed its clock twice within a day and come back, so daily probes meet
    # every change.
    while _offset(zone, high) == offset:
        if high == end:
            return None
        low, high = high, min(high + _DAY_S, end)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _offset(zone, middle) == offset else (low, middle)
    return high
