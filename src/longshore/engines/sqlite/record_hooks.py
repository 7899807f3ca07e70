"""Writes the tables that claims read when a record of a kind changes that claims obey.

A claim decodes no record: what holds for queues, circuit breakers, pauses and the weights of
tenants stands in tables of its own, written in the commit that changes the record.
"""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Protocol, TypeVar

import msgspec

from longshore.contract.records import Delete, Kind, Put
from longshore.core import circuit_breaker, limit_settings, ordering_key
from longshore.core.account import Tenant
from longshore.core.limit_settings import BreakerFlow, Order, QueueFlow, QueueSettings
from longshore.core.view import Pause
from longshore.engines.sqlite import circuit_breakers, ordering_keys
from longshore.engines.sqlite.sql import SQL
from longshore.engines.sqlite.transaction import Transaction
from longshore.engines.sqlite.writer import Writer
from longshore.runtime.backpressure import Depths
from longshore.runtime.decoding import RecordName, decode_or

__all__ = [
    "HOOKS",
    "Effect",
    "Hook",
    "put_breaker",
    "put_queue",
    "set_weight",
    "sort_lanes",
]

T = TypeVar("T")

_encode = msgspec.json.Encoder().encode
_tenant = msgspec.json.Decoder(Tenant)
_LATEST = 2**63 - 1
_USUAL_WEIGHT = 1
_SORTED_AT_ONCE = 5_000
_Place = tuple[str, int, int]
"""Type, rank and number of a ready job."""
_place = msgspec.json.Decoder(_Place)

Effect = Callable[[Writer, Depths], Awaitable[None]]
"""What follows a commit. Whoever made the commit may be gone before it is done, so it may be
called for again by the same change."""


class Hook(Protocol):
    """What a change of a record means for claims: before the commit, in it, and behind it."""

    async def prepare(self, writer: Writer, put: Put) -> None:
        """Do before the commit, in parts, what would make it long.

        It changes nothing that anyone sees, so it may be interrupted, and done again.
        """
        ...

    def apply(self, transaction: Transaction, change: Put | Delete) -> Effect | None:
        """Write what claims read, also where the record was so already."""
        ...


class _QueueHook:
    async def prepare(self, writer: Writer, put: Put) -> None:
        if limit_settings.read_queue(put.ref.name, put.body).effective.order is Order.FAIR:
            await sort_lanes(writer, put.ref.name)

    def apply(self, transaction: Transaction, change: Put | Delete) -> Effect:
        if isinstance(change, Delete):
            return put_queue(transaction, QueueFlow(change.ref.name))
        whole = limit_settings.read_queue(change.ref.name, change.body)
        return put_queue(transaction, whole, resets=change.resets)


class _BreakerHook:
    async def prepare(self, writer: Writer, put: Put) -> None:
        pass

    def apply(self, transaction: Transaction, change: Put | Delete) -> None:
        if isinstance(change, Delete):
            put_breaker(transaction, BreakerFlow(change.ref.name))
            return
        put_breaker(transaction, limit_settings.read_breaker(change.ref.name, change.body))
        if change.resets:
            circuit_breakers.reset(change.ref.name, transaction)


class _PauseHook:
    async def prepare(self, writer: Writer, put: Put) -> None:
        pass

    def apply(self, transaction: Transaction, change: Put | Delete) -> None:
        try:
            pause = Pause.named(change.ref.name)
        except ValueError:
            return  # the Delete of a name that no pause can have
        is_paused = isinstance(change, Put)
        _write_pause(transaction, pause, is_paused=is_paused)


class _TenantHook:
    async def prepare(self, writer: Writer, put: Put) -> None:
        pass

    def apply(self, transaction: Transaction, change: Put | Delete) -> None:
        is_there = isinstance(change, Put)
        weight = _tenant.decode(change.body).weight if is_there else _USUAL_WEIGHT
        set_weight(transaction, change.ref.name, weight)


HOOKS: Mapping[Kind, Hook] = {
    Kind.QUEUE: _QueueHook(),
    Kind.BREAKER: _BreakerHook(),
    Kind.PAUSE: _PauseHook(),
    Kind.TENANT: _TenantHook(),
}
"""One for each kind that claims obey."""


def put_queue(transaction: Transaction, whole: QueueFlow, *, resets: bool = False) -> Effect:
    """Let these settings hold for a queue, or none; with `resets` its token bucket is full.

    Before a queue becomes fair, call `sort_lanes`: the commit is short then.
    """
    db, name, now = transaction.db, whole.queue, whole.effective
    before = _held(transaction, name)
    is_said = whole != QueueFlow(name)
    scope = {"queue": name, "settings": _encode(now).decode(), "resets": resets}
    db.execute(SQL.flow_put if is_said else SQL.flow_delete, scope)
    if now.order is not Order.FAIR:
        db.execute(SQL.flow_move, {"queue": name, "at": 0})
        db.execute(SQL.fair_prune, {"queue": name, "at": _LATEST})
    elif before is None or before.order is not Order.FAIR:
        db.execute(SQL.lane_sort, {"queue": name})
    transaction.wakes = True
    may_open = before is None or ordering_key.may_open(before, now)
    return partial(_follow_queue, name, may_open)


async def _follow_queue(name: str, may_open: bool, writer: Writer, depths: Depths) -> None:
    """Count anew how many jobs may wait, and have promote look at all lines of the queue."""
    depths.forget()
    last, at = None, ("", "")
    while may_open and at != last:
        last = at
        at = await writer.call(partial(ordering_keys.look_at, name, at), durable=False)


async def sort_lanes(writer: Writer, queue: str) -> None:
    """Let what waits in a queue be in lanes before it becomes fair, a part at a time.

    Until then lanes mean nothing, and others write in between: a million jobs take seconds.
    """
    at: _Place | None = ("", 0, 0)
    while at is not None:
        at = await writer.call(partial(_sort_step, queue, at), durable=False)


def _sort_step(queue: str, at: _Place, transaction: Transaction) -> _Place | None:
    """Put the next ready jobs of a queue into lanes; the last of them, None at the end."""
    held = _held(transaction, queue)
    if held is not None and held.order is Order.FAIR:
        return None  # all are in lanes since it became fair
    db, scope = transaction.db, dict(zip(("type", "rank", "seq"), at, strict=True))
    where = {"queue": queue, "limit": _SORTED_AT_ONCE, **scope}
    found = db.execute(SQL.lane_step, where).fetchone()
    if found is None:
        return None
    last = _place.decode(found[0])
    ends = dict(zip(("last_type", "last_rank", "last_seq"), last, strict=True))
    db.execute(SQL.lane_sort_step, {"queue": queue, **scope, **ends})
    return last


def _held(transaction: Transaction, queue: str) -> QueueSettings | None:
    """The settings that hold for a queue; None where they cannot be decoded."""
    row = transaction.db.execute(SQL.flow_get, {"queue": queue}).fetchone()
    if row is None:
        return QueueSettings()
    read = partial(msgspec.json.decode, row[0], type=QueueSettings)
    return decode_or(None, read, RecordName("queue", queue))


def put_breaker(transaction: Transaction, whole: BreakerFlow) -> None:
    """Let these settings hold for a type's circuit breaker, or none; its standing stays."""
    holds = circuit_breaker.rules(whole.effective) is not None
    scope = {"type": whole.type, "settings": _encode(whole.effective).decode()}
    transaction.db.execute(SQL.breaker_put if holds else SQL.breaker_delete, scope)
    transaction.wakes = True


def _write_pause(transaction: Transaction, pause: Pause, *, is_paused: bool) -> None:
    scope = {"queue": pause.queue or "", "type": pause.type or ""}
    transaction.db.execute(SQL.pause if is_paused else SQL.resume, scope)
    transaction.wakes = True


def set_weight(transaction: Transaction, tenant: str, weight: int) -> None:
    """Give a tenant its share of fair queues."""
    statement = SQL.weight_delete if weight == _USUAL_WEIGHT else SQL.weight_put
    transaction.db.execute(statement, {"tenant": tenant, "weight": weight})
