"""Microseconds since 1970, as engines count, and calendar times."""

from datetime import UTC, datetime, timedelta

__all__ = ["LATEST_US", "micros", "moment", "rfc3339"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LATEST_US = 253_402_300_799_999_999
"""The end of the year 9999: calendars and databases know no later time."""


def moment(microseconds: int) -> datetime:
    """The time in UTC; the nearest that a calendar has, for a number that is out of its range.

    A store may hold any number, and whoever tells of many things must not fail on one of them.
    """
    return _EPOCH + timedelta(microseconds=min(max(microseconds, 0), LATEST_US))


def micros(value: datetime) -> int:
    """A calendar time as engines count it."""
    return (value - _EPOCH) // timedelta(microseconds=1)


def rfc3339(value: datetime, timespec: str = "auto") -> str:
    """A time in UTC as text, with a Z."""
    return value.isoformat(timespec=timespec).replace("+00:00", "Z")
