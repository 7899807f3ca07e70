"""What is said of queues and of the breakers of types."""

from collections.abc import Sequence
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
from longshore.core.line import Line
from longshore.core.view import BrokenRecord
from longshore.engines.postgres import breaking, keying, lining
from longshore.engines.postgres.database import Connection, Database
from longshore.engines.postgres.holding import Row
from longshore.engines.postgres.recording import recording
from longshore.engines.postgres.sql import SQL
from longshore.runtime.decoding import RecordName, decode_each
from longshore.runtime.depth import Depth, Depths

__all__ = ["PostgresFlow", "stored_settings"]

Settings = TypeVar("Settings", QueueSettings, BreakerSettings)

_encode = msgspec.json.Encoder().encode
_KINDS = {QueueSettings: "queue", BreakerSettings: "breaker"}


class PostgresFlow:
    """Keeps both layers, and for claims what holds of them."""

    _depths: Depths

    @property
    def _open(self) -> Database: ...

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
        body = partial(_put_queue, name, layer, settings, seen)
        order = {"name": name, "layer": layer, "settings": settings}
        change = await recording(self._open, "put_queue", **order).transact(body)
        self._depths.forget()
        if isinstance(change, tuple) and line.may_open(*change):
            await lining.look_at(self._open, name)
        return bool(change)

    async def queue_settings(self) -> list[QueueFlow]:
        """All that is said of queues."""
        flows = flow.queues(await stored_settings(self._open, QueueSettings))
        buckets = {row["queue"]: row["empty_at"] for row in await self._open.fetch(SQL.flows)}
        (row,) = await self._open.fetch(SQL.clock, self._open.now())
        return flow.paced(flows, buckets, row["clock"])

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
        order = {"type": type, "layer": layer, "settings": settings}
        database = recording(self._open, "put_breaker", **order)
        return await database.transact(partial(_put_breaker, type, layer, settings, seen))

    async def breaker_settings(self) -> list[BreakerFlow]:
        """All that is said of breakers."""
        flows = flow.breakers(await stored_settings(self._open, BreakerSettings))
        standings = await breaking.standings(self._open)
        (row,) = await self._open.fetch(SQL.clock, self._open.now())
        return breaker.shown(flows, standings, row["clock"])

    async def reset_breaker(self, type: str) -> None:
        """Close a type's breaker, and forget what it has counted."""
        database = recording(self._open, "reset_breaker", type=type)
        await database.transact(partial(breaking.reset, type, database.now()))

    async def line(self, queue: str, key: str, *, tenant: str = "default") -> Line | None:
        """How the line of an ordering key stands."""
        return await lining.get(self._open, queue, tenant, key)

    async def blocked_lines(self, *, limit: int, tenant: str | None = None) -> list[Line]:
        """The lines that dead jobs block."""
        return await lining.blocked(self._open, tenant, limit)

    async def release_line(self, queue: str, key: str, *, tenant: str = "default") -> bool:
        """Let a blocked line go on without the dead."""
        order = {"queue": queue, "tenant": tenant, "key": key}
        return await lining.release(recording(self._open, "release_line", **order), **order)

    async def depths(self) -> list[Depth]:
        """Where no more than so many jobs may wait."""
        return [Depth(*row) for row in await self._open.fetch(SQL.depths)]

    async def known(self, jobs: Sequence[NewJob]) -> set[JobId]:
        """Those of the jobs that stand already."""
        ids, tenants, keys, fingerprints, *_ = keying.asked(jobs)
        found = await self._open.fetch(SQL.known, ids, tenants, keys, fingerprints)
        places: list[int] = [row["place"] for row in found]
        return {jobs[place - 1].id for place in places}


async def _put_queue(
    name: str,
    layer: Layer,
    settings: QueueSettings,
    seen: QueueSettings | None,
    connection: Connection,
) -> tuple[QueueSettings, QueueSettings] | Literal[False]:
    """What held for the queue before, and what does now; False when it is refused."""
    # Before anything is read: others put too.
    await connection.execute(SQL.setting_lock)
    before = (await _whole(connection, name)).effective
    if not await _put(name, layer, settings, seen, connection):
        return False
    await connection.execute(SQL.flow_hold, name)
    whole = await _whole(connection, name)
    now = whole.effective
    if whole != QueueFlow(name):
        await connection.execute(SQL.flow_put, name, _encode(now).decode())
    else:
        await connection.execute(SQL.flow_delete, name)
    is_fair = now.order is Order.FAIR
    await connection.execute(SQL.lanes_put if is_fair else SQL.lanes_forget, name)
    # Nobody counted while nothing was said.
    await connection.execute(SQL.running_delete, name)
    return before, now


async def _whole(connection: Connection, name: str) -> QueueFlow:
    layers = await _layers(connection, name, QueueSettings)
    (whole,) = flow.queues((name, *one) for one in layers.items()) or [QueueFlow(name)]
    return whole


async def _put_breaker(
    type_name: str,
    layer: Layer,
    settings: BreakerSettings,
    seen: BreakerSettings | None,
    connection: Connection,
) -> bool:
    if not await _put(type_name, layer, settings, seen, connection):
        return False
    layers = await _layers(connection, type_name, BreakerSettings)
    (whole,) = flow.breakers((type_name, *one) for one in layers.items()) or [
        BreakerFlow(type_name)
    ]
    held = breaker.rules(whole.effective)
    if held is None:
        await connection.execute(SQL.breaker_delete, type_name)
    else:
        text = _encode(whole.effective).decode()
        await connection.execute(SQL.breaker_put, type_name, text, held.probes)
    return True


async def _put(
    name: str,
    layer: Layer,
    settings: Settings,
    seen: Settings | None,
    connection: Connection,
) -> bool:
    kind = type(settings)
    await connection.execute(SQL.setting_lock)
    stored = (await _layers(connection, name, kind)).get(layer, kind())
    if not flow.may_put(stored, settings, seen):
        return False
    where = (_KINDS[kind], name, layer.value)
    if flow.said(settings):
        await connection.execute(SQL.setting_put, *where, _encode(settings).decode())
    else:
        await connection.execute(SQL.setting_delete, *where)
    await connection.execute(SQL.wake)
    return True


async def _layers(
    connection: Connection, name: str, kind: type[Settings]
) -> dict[Layer, Settings]:
    rows = await connection.fetch(SQL.settings_of, _KINDS[kind], name)
    return dict(
        decode_each(rows, partial(_layer, kind), lambda _: RecordName(_KINDS[kind], name))
    )


async def stored_settings(
    database: Database, kind: type[Settings], broken: list[BrokenRecord] | None = None
) -> list[tuple[str, Layer, Settings]]:
    """All layers of all that is said of one kind."""

    def read(row: Row) -> tuple[str, Layer, Settings]:
        return row["name"], *_layer(kind, row)

    rows = await database.fetch(SQL.settings, _KINDS[kind])
    return decode_each(rows, read, lambda row: RecordName(_KINDS[kind], row["name"]), broken)


def _layer(kind: type[Settings], row: Row) -> tuple[Layer, Settings]:
    return Layer(row["layer"]), msgspec.json.decode(row["settings"], type=kind)
