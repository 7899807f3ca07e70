"""The circuit breakers of types: they hear how jobs end."""

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial

import msgspec

from longshore.core import circuit_breaker, event
from longshore.core.circuit_breaker import Outcome, Standing
from longshore.core.job import Settlement
from longshore.core.limit_settings import BreakerSettings, Phase
from longshore.engines.postgres.database import Connection, Database
from longshore.engines.postgres.exchange_result import Meta
from longshore.engines.postgres.held_claims import Row
from longshore.engines.postgres.settlement_plan import Plan
from longshore.engines.postgres.sql import SQL
from longshore.errors import EngineError
from longshore.runtime.decoding import RecordName, decode_or

__all__ = ["Hearing", "configured", "observe", "reset", "standings"]

_json = msgspec.json.Encoder()
_AT_LEAST = 1.0
"""Seconds after which successes are told, if nothing else is."""


class Hearing:
    """What a session has to tell breakers.

    A failure is told at once, together with the successes before it; successes alone are told
    once a second. What could not be told is told with the next exchange.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._types: frozenset[str] = frozenset()
        self._heard: dict[str, list[Outcome]] = {}
        """With the exchange that is under way."""
        self._said: dict[str, list[Outcome]] = {}
        self._is_urgent = False
        self._told_at = 0.0

    def hear(self, plan: Plan, settlements: Sequence[Settlement]) -> None:
        """Mark what these settlements say, as far as anyone wants to know."""
        self._heard = {}
        if self._types and settlements:
            self._heard = circuit_breaker.verdicts(plan.settled(settlements), self._types)

    def note(self, meta: Meta) -> None:
        """They are applied."""
        if meta.status == "applied":
            self._types = frozenset(meta.breakers or ())
        for type_name, outcomes in self._heard.items():
            self._said.setdefault(type_name, []).extend(outcomes)
            self._is_urgent |= not all(one.is_success for one in outcomes)
        for type_name in meta.due or ():
            self._said.setdefault(type_name, [])
            self._is_urgent = True
        self._is_urgent |= bool(meta.probed)

    async def tell(self, now: int) -> None:
        """Let the breakers know what is worth it."""
        moment = asyncio.get_running_loop().time()
        if not self._said or not (self._is_urgent or moment > self._told_at + _AT_LEAST):
            return
        try:
            await self._database.transact(partial(observe, self._said, now))
        except EngineError:
            # The exchange itself is done. Breakers hear of it later.
            return
        self._told_at, self._is_urgent = moment, False
        self._said.clear()


async def configured(connection: Connection) -> frozenset[str]:
    """The types that have a breaker."""
    return frozenset(row["type"] for row in await connection.fetch(SQL.breakers))


async def observe(
    said: Mapping[str, Sequence[Outcome]], now: int, connection: Connection
) -> None:
    """Jobs of these types ended so."""
    changes: list[event.Group] = []
    for row in await connection.fetch(SQL.breakers_hold, list(said)):
        read = partial(msgspec.json.decode, row["settings"], type=BreakerSettings)
        held = circuit_breaker.rules(decode_or(BreakerSettings(), read, _name(row)))
        if held is None:
            continue
        before = _standing(row)
        after, passed = circuit_breaker.observe(before, held, said[row["type"]], now)
        if after != before:
            await _move(connection, row["type"], after)
        changes += circuit_breaker.told(row["type"], passed)
    await _announce(connection, now, changes)


async def reset(type_name: str, clock: int | None, connection: Connection) -> None:
    """Close a breaker, and forget what it has counted."""
    now: int = await connection.fetchval(SQL.clock, clock)
    for row in await connection.fetch(SQL.breakers_hold, [type_name]):
        before = _standing(row)
        after = circuit_breaker.reset(before, now)
        if before == after:
            continue
        await _move(connection, type_name, after)
        if before.phase is not Phase.CLOSED:
            await _announce(connection, now, circuit_breaker.told(type_name, [after]))


async def standings(database: Database | Connection) -> dict[str, Standing]:
    """How every breaker stands."""
    return {row["type"]: _standing(row) for row in await database.fetch(SQL.breakers)}


async def _move(connection: Connection, type_name: str, after: Standing) -> None:
    await connection.execute(
        SQL.breaker_move,
        type_name,
        _json.encode(after).decode(),
        after.phase.value,
        after.since,
        after.until,
    )


async def _announce(connection: Connection, now: int, groups: Sequence[event.Group]) -> None:
    if groups:
        await connection.execute(SQL.outbox_add, now, event.encode(groups))
        # Those who wait have to learn when to look again, too.
        await connection.execute(SQL.wake)


def _name(row: Row) -> RecordName:
    return RecordName("breaker", row["type"])


def _standing(row: Row) -> Standing:
    """How a type's breaker stands; closed, where that cannot be decoded."""
    read = partial(msgspec.json.decode, row["standing"], type=Standing)
    return decode_or(Standing(), read, _name(row))
