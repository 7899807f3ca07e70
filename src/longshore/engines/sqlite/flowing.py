"""What is said of queues and of the breakers of types."""

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Literal, TypeVar

import msgspec

from longshore.core import breaker, flow, line
from longshore.core.flow import (
    BreakerFlow,
    BreakerSettings,
    Layer,
    Order,
    QueueFlow,
    QueueSettings,
)
from longshore.core.job import JobId, NewJob
from longshore.core.line import Line, LineName
from longshore.core.view import BrokenRecord
from longshore.engines.sqlite import breaking, lining, submitting
from longshore.engines.sqlite.connection import Store
from longshore.engines.sqlite.recording import recorded
from longshore.engines.sqlite.sql import SQL
from longshore.engines.sqlite.transaction import Transaction
from longshore.engines.sqlite.writer import Writer
from longshore.runtime.decoding import RecordName, decode_each
from longshore.runtime.depth import Depth, Depths

__all__ = ["SqliteFlow", "admit", "stored_settings"]

T = TypeVar("T")
Settings = TypeVar("Settings", QueueSettings, BreakerSettings)

_encode = msgspec.json.Encoder().encode
_LATEST = 2**63 - 1
_SORTED_AT_ONCE = 5_000
_Place = tuple[str, int, int]
"""Type, rank and number of a ready job."""
_place = msgspec.json.Decoder(_Place)
_KINDS = {QueueSettings: "queue", BreakerSettings: "breaker"}


class SqliteFlow:
    """Keeps both layers, and for claims what holds of them."""

    _writer: Writer
    _store: Store

    _depths: Depths

    async def _read(self, body: Callable[[sqlite3.Connection], T]) -> T: ...

    async def put_queue(
        self,
        name: str,
        layer: Layer,
        settings: QueueSettings,
        *,
        seen: QueueSettings | None = None,
    ) -> bool:
        """Replace a layer of what is said of a queue."""
        flow.validate(name, settings)
        if settings.order is Order.FAIR:
            await self._sort(name)
        body = partial(_put_queue, name, layer, settings, seen)
        order = {"name": name, "layer": layer, "settings": settings}
        change = await self._writer.call(recorded("put_queue", body, **order))
        self._depths.forget()
        if isinstance(change, tuple) and line.may_open(*change):
            await self._open_lines(name)
        return bool(change)

    async def _open_lines(self, queue: str) -> None:
        """Have promote look at all lines of a queue, a part at a time: there may be many."""
        last, at = None, ("", "")
        while at != last:
            last = at
            at = await self._writer.call(partial(lining.look_at, queue, at), durable=False)

    async def _sort(self, queue: str) -> None:
        """Let what waits in a queue be in lanes before it becomes fair, a part at a time.

        Until then lanes mean nothing, and others write in between: a million jobs take seconds.
        """
        at: _Place | None = ("", 0, 0)
        while at is not None:
            at = await self._writer.call(partial(_sort_step, queue, at), durable=False)

    async def queue_settings(self) -> list[QueueFlow]:
        """All that is said of queues."""
        rows, flows = await self._read(
            lambda db: (stored_settings(db, QueueSettings), db.execute(SQL.flows).fetchall())
        )
        buckets = {queue: empty_at for queue, _, _, empty_at, _ in flows}
        return flow.paced(flow.queues(rows), buckets, self._store.clock.now())

    async def put_breaker(
        self,
        type: str,
        layer: Layer,
        settings: BreakerSettings,
        *,
        seen: BreakerSettings | None = None,
    ) -> bool:
        """Replace a layer of what is said of a type's breaker."""
        flow.validate(type, settings)
        body = partial(_put_breaker, type, layer, settings, seen)
        order = {"type": type, "layer": layer, "settings": settings}
        return await self._writer.call(recorded("put_breaker", body, **order))

    async def breaker_settings(self) -> list[BreakerFlow]:
        """All that is said of breakers."""
        rows, standings = await self._read(
            lambda db: (stored_settings(db, BreakerSettings), breaking.standings(db))
        )
        return breaker.shown(flow.breakers(rows), standings, self._store.clock.now())

    async def reset_breaker(self, type: str) -> None:
        """Close a type's breaker, and forget what it has counted."""
        body = partial(breaking.reset, type)
        await self._writer.call(recorded("reset_breaker", body, type=type))

    async def line(self, queue: str, key: str, *, tenant: str = "default") -> Line | None:
        """How the line of an ordering key stands."""
        name = LineName(queue, tenant, key)
        return await self._read(lambda db: lining.get(db, name))

    async def blocked_lines(self, *, limit: int, tenant: str | None = None) -> list[Line]:
        """The lines that dead jobs block."""
        return await self._read(lambda db: lining.blocked(db, tenant, limit))

    async def release_line(self, queue: str, key: str, *, tenant: str = "default") -> bool:
        """Let a blocked line go on without the dead."""
        name = LineName(queue, tenant, key)
        body = partial(lining.release, name)
        return await self._writer.call(recorded("release_line", body, **name._asdict()))

    async def depths(self) -> list[Depth]:
        """Where no more than so many jobs may wait."""
        return await self._read(_count_depths)

    async def known(self, jobs: Sequence[NewJob]) -> set[JobId]:
        """Those of the jobs that stand already."""
        return await self._read(lambda db: submitting.known(db, jobs))


def admit(depths: Depths, db: sqlite3.Connection, jobs: Sequence[NewJob]) -> None:
    """Return if the jobs may be submitted on this connection, else QueueFullError."""
    if depths.is_stale:
        since = depths.look()
        depths.learn(_count_depths(db), since=since)
    crowd = depths.crowd(jobs)
    known = submitting.known(db, [job for job, _ in crowd]) if crowd else set[JobId]()
    depths.let_in(jobs, crowd, known)


def _count_depths(db: sqlite3.Connection) -> list[Depth]:
    return [Depth(*row) for row in db.execute(SQL.depths)]


def _sort_step(queue: str, at: _Place, transaction: Transaction) -> _Place | None:
    """Put the next ready jobs of a queue into lanes; where they end, None behind the last."""
    db, scope = transaction.db, dict(zip(("type", "rank", "seq"), at, strict=True))
    where = {"queue": queue, "limit": _SORTED_AT_ONCE, **scope}
    found = db.execute(SQL.lane_step, where).fetchone()
    if found is None:
        return None
    last = _place.decode(found[0])
    ends = dict(zip(("last_type", "last_rank", "last_seq"), last, strict=True))
    db.execute(SQL.lane_sort_step, {"queue": queue, **scope, **ends})
    return last


def _put_queue(
    name: str,
    layer: Layer,
    settings: QueueSettings,
    seen: QueueSettings | None,
    transaction: Transaction,
) -> tuple[QueueSettings, QueueSettings] | Literal[False]:
    """What held for the queue before, and what does now; False when it is refused."""
    before = _whole(transaction.db, name).effective
    if not _put(name, layer, settings, seen, transaction):
        return False
    whole = _whole(transaction.db, name)
    scope = {"queue": name, "settings": _encode(whole.effective).decode()}
    is_said = whole != QueueFlow(name)
    transaction.db.execute(SQL.flow_put if is_said else SQL.flow_delete, scope)
    if whole.effective.order is Order.FAIR:
        transaction.db.execute(SQL.lane_sort, {"queue": name})
    else:
        transaction.db.execute(SQL.flow_move, {"queue": name, "at": 0})
        transaction.db.execute(SQL.fair_prune, {"queue": name, "at": _LATEST})
    return before, whole.effective


def _whole(db: sqlite3.Connection, name: str) -> QueueFlow:
    layers = _layers(db, name, QueueSettings)
    (whole,) = flow.queues((name, *one) for one in layers.items()) or [QueueFlow(name)]
    return whole


def _put_breaker(
    type_name: str,
    layer: Layer,
    settings: BreakerSettings,
    seen: BreakerSettings | None,
    transaction: Transaction,
) -> bool:
    if not _put(type_name, layer, settings, seen, transaction):
        return False
    layers = _layers(transaction.db, type_name, BreakerSettings)
    (whole,) = flow.breakers((type_name, *one) for one in layers.items()) or [
        BreakerFlow(type_name)
    ]
    holds = breaker.rules(whole.effective) is not None
    scope = {"type": type_name, "settings": _encode(whole.effective).decode()}
    transaction.db.execute(SQL.breaker_put if holds else SQL.breaker_delete, scope)
    return True


def _put(
    name: str,
    layer: Layer,
    settings: Settings,
    seen: Settings | None,
    transaction: Transaction,
) -> bool:
    kind = type(settings)
    stored = _layers(transaction.db, name, kind).get(layer, kind())
    if not flow.may_put(stored, settings, seen):
        return False
    scope = {
        "kind": _KINDS[kind],
        "name": name,
        "layer": layer,
        "settings": _encode(settings).decode(),
    }
    statement = SQL.setting_put if flow.said(settings) else SQL.setting_delete
    transaction.db.execute(statement, scope)
    transaction.wakes = True
    return True


def _layers(db: sqlite3.Connection, name: str, kind: type[Settings]) -> dict[Layer, Settings]:
    rows = db.execute(SQL.settings_of, {"kind": _KINDS[kind], "name": name})
    found = _decoded([(name, *row) for row in rows], kind)
    return {layer: settings for _, layer, settings in found}


def stored_settings(
    db: sqlite3.Connection, kind: type[Settings], broken: list[BrokenRecord] | None = None
) -> list[tuple[str, Layer, Settings]]:
    """All layers of all that is said of one kind."""
    return _decoded(db.execute(SQL.settings, {"kind": _KINDS[kind]}), kind, broken)


def _decoded(
    rows: Iterable[tuple[str, str, str]],
    kind: type[Settings],
    broken: list[BrokenRecord] | None = None,
) -> list[tuple[str, Layer, Settings]]:
    def read(row: tuple[str, str, str]) -> tuple[str, Layer, Settings]:
        name, layer, body = row
        return name, Layer(layer), msgspec.json.decode(body, type=kind)

    return decode_each(rows, read, lambda row: RecordName(_KINDS[kind], row[0]), broken)
