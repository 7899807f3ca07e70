"""Due times that are still to come, as people see them."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from longshore.cli import tables
from longshore.cli.render import Table
from longshore.core import units
from longshore.core.cron import Quirk
from longshore.operations.schedule_documents import DueTime, local_time

__all__ = ["local", "table"]

_REMARKS = {
    Quirk.GAP: "a time it names is missing on this day: due when the gap ends",
    Quirk.FOLD: "comes twice on this day: due the first time only",
    Quirk.FIRST_PASS: "comes twice on this day: the first time",
    Quirk.SECOND_PASS: "comes twice on this day: the second time",
}


def local(due: datetime, timezone: str) -> str:
    """The moment as the zone's clock shows it."""
    moment = local_time(due, timezone)
    fraction = f".{moment.microsecond:06}".rstrip("0") if moment.microsecond else ""
    return moment.strftime("%a %Y-%m-%d %H:%M:%S") + fraction + moment.strftime(" %Z")


def table(timezone: str, times: Sequence[DueTime], *, after: datetime, now: datetime) -> Table:
    """One due time per line, with a remark where the clock changes."""
    rows = [
        (local(one.due, timezone), tables.ago(one.due, now), remark)
        for one, remark in zip(times, _remarks(timezone, times, after), strict=True)
    ]
    return Table(columns=("due", "", ""), rows=rows, empty="it is never due")


def _remarks(timezone: str, times: Sequence[DueTime], after: datetime) -> Iterator[str]:
    before = after
    for one in times:
        shift = _offset(one.due, timezone) - _offset(before, timezone)
        words = [f"the clock has gone {_shift(shift)}"] if shift else []
        words += [_REMARKS[one.quirk]] if one.quirk is not None else []
        yield "; ".join(words)
        before = one.due


def _shift(by: timedelta) -> str:
    return f"{'forward' if by > timedelta() else 'back'} {units.duration_text(abs(by))}"


def _offset(moment: datetime, timezone: str) -> timedelta:
    return local_time(moment, timezone).utcoffset() or timedelta()
