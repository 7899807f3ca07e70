"""The model's lines: who of an ordering key is inside, and who is parked."""

from collections.abc import Callable
from typing import NamedTuple

from longshore.core.job import Job, JobId
from longshore.core.limit_settings import QueueSettings
from longshore.core.ordering_key import (
    PARKED,
    Line,
    LineName,
    blocks,
    bucket_limit,
    opens_at,
    room,
    took,
)
from longshore.testing.model.row import Row

__all__ = ["Bucket", "Lines"]


class Bucket(NamedTuple):
    """What is kept of a token bucket."""

    empty_at: int
    full_at: int


class Lines:
    """What changes in a line is noted; who may go on is decided when all is said."""

    def __init__(
        self,
        rows: dict[JobId, Row],
        effective: Callable[[str], QueueSettings],
        buckets: dict[str, Bucket],
        now: Callable[[], int],
    ) -> None:
        self._rows = rows
        self._effective = effective
        self._buckets = buckets
        self._now = now
        self._opens: dict[LineName, int] = {}
        self._dead: dict[LineName, list[JobId]] = {}
        self._last: dict[LineName, JobId] = {}
        self._last_place = 0
        self._stirred: set[LineName] = set()

    def join(self, row: Row) -> None:
        """A job that is ready goes to the end of its line, or back to the gate it blocks."""
        name = _line_of(row.job)
        if name is None:
            return
        self._stirred.add(name)
        blocking = self._dead.get(name, [])
        if row.job.id in blocking:
            blocking.remove(row.job.id)
            self._let_in(name, row)
            return
        self._last_place += 1
        row.place = self._last_place
        row.change(parked=PARKED)

    def leave(self, row: Row) -> None:
        """A job has ended: the next ones of its line go on, unless it blocks them."""
        name, row.place = _line_of(row.job), 0
        row.change(parked=None)
        if name is not None and row.is_inside:
            row.is_inside = False
            self._stirred.add(name)
            if blocks(self._effective(name.queue), row.job.state):
                self._dead.setdefault(name, []).append(row.job.id)

    def release(self, name: LineName) -> bool:
        """Go on without the dead that block a line; whether there were any."""
        is_blocked = bool(self._dead.pop(name, []))
        if is_blocked:
            self._stirred.add(name)
        return is_blocked

    def stir(self) -> None:
        """Let in as many jobs as may, of the lines in which something changed."""
        for name in self._stirred:
            self._move_up(name)
        self._stirred.clear()

    def open(self, limit: int) -> int:
        """Let in what rates let in by now, of so many lines; how many jobs that are."""
        now = self._now()
        due = sorted((at, name) for name, at in self._opens.items() if at <= now)
        return sum(self._move_up(name) for _, name in due[:limit])

    def look_at(self, queue: str) -> None:
        """Other settings hold for a queue: its lines open at the next look, if they may."""
        names = {_line_of(row.job) for row in self._rows.values() if row.place}
        for name in names:
            if name is not None and name.queue == queue and not self._dead.get(name):
                self._opens[name] = self._now()

    @property
    def opens_at(self) -> int | None:
        """When the next line opens by itself."""
        return min(self._opens.values(), default=None)

    def get(self, name: LineName) -> Line | None:
        """How a line stands."""
        rows = self._of(name)
        inside, parked = sum(row.is_inside for row in rows), sum(row.place > 0 for row in rows)
        dead = tuple(self._dead.get(name, ()))
        if not (inside or parked or dead):
            return None
        return Line(
            queue=name.queue,
            key=name.key,
            tenant=name.tenant,
            inside=inside,
            parked=parked,
            last=self._last.get(name),
            dead=dead,
            opens_at=self._opens.get(name),
        )

    def blocked(self) -> list[LineName]:
        """The lines that dead jobs block."""
        return sorted(name for name, dead in self._dead.items() if dead)

    def _of(self, name: LineName) -> list[Row]:
        return [row for row in self._rows.values() if _line_of(row.job) == name]

    def _move_up(self, name: LineName) -> int:
        rows, settings, now = self._of(name), self._effective(name.queue), self._now()
        inside = sum(row.is_inside for row in rows)
        is_blocked, stored = bool(self._dead.get(name)), self._buckets.get(name.bucket)
        empty_at = None if stored is None else stored.empty_at
        free = room(settings, inside=inside, is_blocked=is_blocked, empty_at=empty_at, now=now)
        parked = sorted((row for row in rows if row.place), key=lambda row: row.place)
        entering = parked[:free]
        for row in entering:
            self._let_in(name, row)
        limit = bucket_limit(settings)
        empty_at = took(settings, empty_at, jobs=len(entering), now=now)
        if limit is not None and entering and empty_at is not None:
            self._buckets[name.bucket] = Bucket(empty_at, limit.full_at(empty_at))
        inside += len(entering)
        opens = opens_at(
            settings, inside=inside, is_blocked=is_blocked, empty_at=empty_at, now=now
        )
        has_parked = len(parked) > len(entering)
        if opens is not None and has_parked:
            self._opens[name] = opens
        else:
            self._opens.pop(name, None)
        if not (inside or has_parked or is_blocked):
            self._last.pop(name, None)
        return len(entering)

    def _let_in(self, name: LineName, row: Row) -> None:
        row.place, row.is_inside = 0, True
        row.change(parked=None)
        self._last[name] = row.job.id


def _line_of(job: Job) -> LineName | None:
    if job.ordering_key is None:
        return None
    return LineName(job.queue, job.tenant, job.ordering_key)
