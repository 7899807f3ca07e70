"""The kinds of records that claims obey, and the typed tables that claims read instead of them.

A hook runs in the commit that stores or removes the record. The functions below it write the
tables: of queues, circuit breakers, pauses, and the weights of tenants.
"""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import NamedTuple, Protocol

import msgspec

from longshore.contract.records import Delete, Kind, Put, Record
from longshore.core import circuit_breaker, limit_settings, ordering_key
from longshore.core.account import Tenant
from longshore.core.limit_settings import (
    BreakerFlow,
    BreakerSettings,
    Order,
    QueueFlow,
    QueueSettings,
)
from longshore.core.view import Pause
from longshore.engines.postgres import circuit_breakers, ordering_keys
from longshore.engines.postgres.database import Connection, Database
from longshore.engines.postgres.sql import SQL
from longshore.runtime.decoding import RecordName, decode_or

__all__ = [
    "HOOKS",
    "Change",
    "Effect",
    "obey_breaker",
    "obey_pause",
    "obey_queue",
    "obey_weight",
]

Effect = Callable[[Database], Awaitable[None]]
"""What is done once the change is committed. It may be done again, or be lost."""

_encode = msgspec.json.Encoder().encode
_tenant = msgspec.json.Decoder(Tenant)
_USUAL_WEIGHT = 1


class Change(NamedTuple):
    """A change of a record whose row is held, and what stood before."""

    change: Put | Delete
    before: Record | None
    now: int

    @property
    def name(self) -> str:
        """The record's."""
        return self.change.ref.name

    @property
    def body(self) -> bytes | None:
        """The record's new body; None when it goes."""
        return self.change.body if isinstance(self.change, Put) else None

    @property
    def resets(self) -> bool:
        """Whether what the engine knows of it is to be forgotten."""
        return isinstance(self.change, Put) and self.change.resets


class Hook(Protocol):
    """What happens to the tables that claims read when a record of a kind changes."""

    async def apply(self, connection: Connection, it: Change) -> Effect | None:
        """Write the tables, in the commit of the change, also where nothing changed."""
        ...


class _QueueHook:
    async def apply(self, connection: Connection, it: Change) -> Effect | None:
        before = QueueFlow(it.name)
        if it.before is not None:
            read = partial(limit_settings.read_queue, it.name, it.before.body)
            before = decode_or(before, read, RecordName("queue", it.name))
        after = (
            QueueFlow(it.name)
            if it.body is None
            else limit_settings.read_queue(it.name, it.body)
        )
        await obey_queue(connection, after)
        if it.resets:
            await connection.execute(SQL.flow_reset, it.name)
        if ordering_key.may_open(before.effective, after.effective):
            return partial(ordering_keys.look_at, queue=it.name)
        return None


class _BreakerHook:
    async def apply(self, connection: Connection, it: Change) -> Effect | None:
        whole = (
            BreakerFlow(it.name)
            if it.body is None
            else limit_settings.read_breaker(it.name, it.body)
        )
        await obey_breaker(connection, whole)
        if it.resets:
            await circuit_breakers.reset(it.name, it.now, connection)
        return None


class _PauseHook:
    async def apply(self, connection: Connection, it: Change) -> Effect | None:
        try:
            pause = Pause.named(it.name)
        except ValueError:
            return None  # the Delete of a name that no pause can have
        await obey_pause(connection, pause, stands=it.body is not None)
        return None


class _TenantHook:
    async def apply(self, connection: Connection, it: Change) -> Effect | None:
        weight = _USUAL_WEIGHT if it.body is None else _tenant.decode(it.body).weight
        await obey_weight(connection, it.name, weight)
        return None


HOOKS: Mapping[Kind, Hook] = {
    Kind.QUEUE: _QueueHook(),
    Kind.BREAKER: _BreakerHook(),
    Kind.PAUSE: _PauseHook(),
    Kind.TENANT: _TenantHook(),
}
"""The hooks, in the order in which one write runs them: a claim locks queues before breakers,
too, and each of them by name."""


async def obey_queue(connection: Connection, whole: QueueFlow) -> None:
    """Let claims obey these settings of a queue from the commit on.

    Whoever claims from a queue with a limit is waited for, and what the sessions hold of it is
    counted anew: nobody counts while nothing is said.
    """
    await connection.execute(SQL.flow_hold, whole.queue)
    settings: QueueSettings = whole.effective
    if whole != QueueFlow(whole.queue):
        await connection.execute(SQL.flow_put, whole.queue, _encode(settings).decode())
    else:
        await connection.execute(SQL.flow_delete, whole.queue)
    is_fair = settings.order is Order.FAIR
    await connection.execute(SQL.lanes_put if is_fair else SQL.lanes_forget, whole.queue)
    await connection.execute(SQL.running_delete, whole.queue)
    await connection.execute(SQL.wake)


async def obey_breaker(connection: Connection, whole: BreakerFlow) -> None:
    """Let claims obey these settings of a circuit breaker from the commit on."""
    settings: BreakerSettings = whole.effective
    held = circuit_breaker.rules(settings)
    if held is None:
        await connection.execute(SQL.breaker_delete, whole.type)
    else:
        text = _encode(settings).decode()
        await connection.execute(SQL.breaker_put, whole.type, text, held.probes)
    await connection.execute(SQL.wake)


async def obey_pause(connection: Connection, pause: Pause, *, stands: bool) -> None:
    """Stop handing out the jobs of a queue, a type or both, or go on with them."""
    statement = SQL.pause if stands else SQL.resume
    await connection.execute(statement, pause.queue or "", pause.type or "")
    await connection.execute(SQL.wake)


async def obey_weight(connection: Connection, tenant: str, weight: int) -> None:
    """Give a tenant this share of fair queues."""
    if weight == _USUAL_WEIGHT:
        await connection.execute(SQL.tenant_weight_delete, tenant)
    else:
        await connection.execute(SQL.tenant_weight_put, tenant, weight)
