"""Cron by brute force: walk the clock minute by minute and write down when it is due.

Shares nothing with `longshore.core.cron` but the zones' rules: fields are read into plain
sets, and every minute is asked whether it is named.
"""

from bisect import bisect_left, bisect_right
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import NamedTuple
from zoneinfo import ZoneInfo

MINUTE = timedelta(minutes=1)
MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
WEEKDAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]

EXPRESSIONS = """
* * * * *
*/15 * * * *
0 * * * *
30 * * * *
7,37 * * * *
*/20 0-23 * * *
59 * * * *
15 * * * 0
0 */2 * * *
0 1-23/2 * * *
30 */3 * * *
0 0 * * *
1 0 * * *
30 0 * * *
59 23 * * *
0 1 * * *
15 1 * * *
45 1 * * *
0 2 * * *
15 2 * * *
30 2 * * *
59 2 * * *
0 3 * * *
30 3 * * *
0 12 * * *
0 2,3 * * *
30 1,2 * * *
*/30 2 * * *
* 2 * * *
*/10 0-3 * * *
0-5 1-3 * * *
0 0 * * sun
0 2 * * 0
30 2 * * 7
0 2 * * mon-fri
0 0 1 * *
0 2 1-7 * *
0 2 29 3 *
30 1 * mar,oct,nov *
0 0 8-14 * mon
""".strip().splitlines()


class Oracle:
    """What an expression names, as plain sets."""

    def __init__(self, expression: str) -> None:
        minute, hour, day, month, weekday = expression.split()
        self.minutes = members(minute, 0, 59)
        self.hours = members(hour, 0, 23)
        self.days = members(day, 1, 31)
        self.months = members(month, 1, 12, MONTHS)
        self.weekdays = {value % 7 for value in members(weekday, 0, 7, WEEKDAYS)}
        self.needs_both = day.startswith("*") or weekday.startswith("*")

    def names(self, local: datetime) -> bool:
        if local.minute not in self.minutes or local.hour not in self.hours:
            return False
        by_day = local.day in self.days
        by_weekday = local.isoweekday() % 7 in self.weekdays
        is_day = by_day and by_weekday if self.needs_both else by_day or by_weekday
        return is_day and local.month in self.months

    def due_times(self, walk: list[tuple[int, datetime]]) -> list[int]:
        """The due seconds of a walk. Its first minute only says where the clock stood."""
        if self.hours == set(range(24)):
            return [instant for instant, local in walk[1:] if self.names(local)]
        found: list[int] = []
        furthest = walk[0][1]
        for instant, local in walk[1:]:
            reached = False
            while furthest < local:
                furthest += MINUTE
                reached = reached or self.names(furthest)
            if reached:
                found.append(instant)
        return found


def members(field: str, low: int, high: int, names: list[str] | None = None) -> set[int]:
    found: set[int] = set()
    for term in field.split(","):
        span, _, step = term.partition("/")
        first, _, last = span.partition("-")
        if first == "*":
            start, end = low, high
        else:
            start = number(first, low, names)
            end = number(last, low, names) if last else start
        found.update(range(start, end + 1, int(step or 1)))
    return found


def number(word: str, low: int, names: list[str] | None) -> int:
    return names.index(word) + low if names and word in names else int(word)


def walk(zone: ZoneInfo, start: int, end: int) -> list[tuple[int, datetime]]:
    """Every minute of [start, end], in seconds since the epoch, and what the clock shows."""
    return [
        (instant, datetime.fromtimestamp(instant, zone).replace(tzinfo=None))
        for instant in range(start, end + 1, 60)
    ]


def clock_changes(zone: ZoneInfo, first_year: int, last_year: int) -> list[int]:
    """The minutes at which the zone's offset changes in these years."""
    start = int(datetime(first_year, 1, 1, tzinfo=UTC).timestamp())
    end = int(datetime(last_year + 1, 1, 1, tzinfo=UTC).timestamp())
    changes: list[int] = []
    for noon in range(start, end, 86_400):
        if offset(zone, noon) != offset(zone, noon + 86_400):
            old = offset(zone, noon)
            minutes = range(noon, noon + 86_401, 60)
            changes.append(next(minute for minute in minutes if offset(zone, minute) != old))
    return changes


def offset(zone: ZoneInfo, instant: int) -> timedelta | None:
    return datetime.fromtimestamp(instant, zone).utcoffset()


class Stretch(NamedTuple):
    """A time in which a zone leaves its clock alone; seconds since the epoch."""

    start: int
    end: int
    ahead: int
    """Of UTC."""


def stretches(zone: ZoneInfo, first_year: int, last_year: int) -> tuple[Stretch, ...]:
    """These years, cut at every change of the zone's clock."""
    start = int(datetime(first_year, 1, 1, tzinfo=UTC).timestamp())
    end = int(datetime(last_year + 1, 1, 1, tzinfo=UTC).timestamp())
    edges = [start, *clock_changes(zone, first_year, last_year), end]
    return tuple(
        Stretch(this, then, int((offset(zone, this) or timedelta()).total_seconds()))
        for this, then in pairwise(edges)
    )


def named_minutes(oracle: Oracle, first_year: int, last_year: int) -> list[int]:
    """Every minute that the oracle names in these years and two days on either side."""
    local = datetime(first_year, 1, 1) - timedelta(days=2)  # noqa: DTZ001 - of no zone at all
    end = datetime(last_year + 1, 1, 1) + timedelta(days=2)  # noqa: DTZ001
    second = int(local.replace(tzinfo=UTC).timestamp())
    found: list[int] = []
    while local < end:
        if oracle.names(local):
            found.append(second)
        local += MINUTE
        second += 60
    return found


def due_of_years(oracle: Oracle, named: list[int], over: tuple[Stretch, ...]) -> list[int]:
    """The due seconds in the stretches, from the first of them on."""
    if oracle.hours == set(range(24)):
        return [
            minute - one.ahead
            for one in over
            for minute in named[
                bisect_left(named, one.start + one.ahead) : bisect_left(
                    named, one.end + one.ahead
                )
            ]
        ]
    found: list[int] = []
    furthest = over[0].start + over[0].ahead - 1
    for one in over:
        for minute in named[bisect_right(named, furthest) :]:
            if minute >= one.end + one.ahead:
                break
            # What lies behind the clock's first showing was jumped over, or comes again.
            found.append(max(minute - one.ahead, one.start))
            furthest = minute
        furthest = max(furthest, one.end + one.ahead - 1)
    return sorted(set(found))
