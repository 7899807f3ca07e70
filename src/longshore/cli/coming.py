"""Due times that are still to come, as people and programs see them."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from longshore.cli import documents, tables
from longshore.cli.documents import Document
from longshore.cli.render import Table
from longshore.core import cron, quantity
from longshore.core.cron import Quirk
from longshore.core.schedule import Schedule, quirk

__all__ = ["listed", "local", "table"]

_SECOND = 1_000_000
_REMARKS = {
    Quirk.GAP: "a time it names is missing on this day: due when the gap ends",
    Quirk.FOLD: "comes twice on this day: due the first time only",
    Quirk.FIRST_PASS: "comes twice on this day: the first time",
    Quirk.SECOND_PASS: "comes twice on this day: the second time",
}


def local(instant: int, timezone: str) -> str:
    """The instant as the zone's clock shows it."""
    moment = _moment(instant, timezone)
    fraction = f".{moment.microsecond:06}".rstrip("0") if moment.microsecond else ""
    return moment.strftime("%a %Y-%m-%d %H:%M:%S") + fraction + moment.strftime(" %Z")


def table(schedule: Schedule, times: Sequence[int], *, after: int, now: int) -> Table:
    """One due time per line, with a remark where the clock changes."""
    rows = [
        (local(due, schedule.timezone), tables.when(due, now), remark)
        for due, remark in zip(times, _remarks(schedule, times, after), strict=True)
    ]
    return Table(columns=("due", "", ""), rows=rows, empty="it is never due")


def listed(schedule: Schedule, times: Sequence[int]) -> Iterator[Document]:
    """The same for programs."""
    for due in times:
        moment = _moment(due, schedule.timezone)
        yield {
            "due": documents.instant(due),
            "local": moment.isoformat(),
            "quirk": quirk(schedule, due),
        }


def _remarks(schedule: Schedule, times: Sequence[int], after: int) -> Iterator[str]:
    before = after
    for due in times:
        shift = _offset(due, schedule.timezone) - _offset(before, schedule.timezone)
        found = quirk(schedule, due)
        words = [f"the clock has gone {_shift(shift)}"] if shift else []
        words += [_REMARKS[found]] if found is not None else []
        yield "; ".join(words)
        before = due


def _shift(by: timedelta) -> str:
    return f"{'forward' if by > timedelta() else 'back'} {quantity.duration_text(abs(by))}"


def _offset(instant: int, timezone: str) -> timedelta:
    return _moment(instant, timezone).utcoffset() or timedelta()


def _moment(instant: int, timezone: str) -> datetime:
    whole, rest = divmod(instant, _SECOND)
    # Adding would forget which pass of a fold it is.
    return datetime.fromtimestamp(whole, cron.zone(timezone)).replace(microsecond=rest)
