"""The circuit breakers of types: they hear how jobs end, and hold claims back."""

import sqlite3
from collections.abc import Iterable, Sequence
from functools import lru_cache, partial

import msgspec

from longshore.core import circuit_breaker
from longshore.core.circuit_breaker import Outcome, Rules, Standing
from longshore.core.job import Settlement
from longshore.core.limit_settings import BreakerSettings
from longshore.engines.sqlite.sql import SQL
from longshore.engines.sqlite.transaction import Transaction
from longshore.runtime.decoding import RecordName, decode_or

__all__ = ["Gate", "observe", "reset", "standings"]

_json = msgspec.json.Encoder()


class Gate:
    """What breakers hold back of one claim."""

    def __init__(self, transaction: Transaction, types: frozenset[str]) -> None:
        self.shut: set[str] = set()
        """Types that are not handed out like others."""
        self.probes: dict[str, int] = {}
        """How many may be handed out of those of which a few may."""
        self.look_in: int | None = None
        """When it pays to ask again for what is held back."""
        db, now = transaction.db, transaction.now
        for type_name, settings, stored in _rows(transaction):
            standing, held = _standing(type_name, stored), _rules(type_name, settings)
            if held is None or type_name not in types:
                continue
            standing = _observed(transaction, type_name, standing, held, ())
            if standing.phase is circuit_breaker.Phase.CLOSED:
                continue
            (running,) = db.execute(SQL.running_of_type, {"type": type_name}).fetchone()
            room = circuit_breaker.room(standing, held, running=running, now=now)
            self.shut.add(type_name)
            if room:
                self.probes[type_name] = room
            else:
                look = circuit_breaker.look_in(standing, now)
                self.look_in = look if self.look_in is None else min(look, self.look_in)


def observe(transaction: Transaction, settled: Iterable[tuple[str, str, Settlement]]) -> None:
    """Jobs of these types and tenants ended so."""
    rows = _rows(transaction)
    if not rows:
        return
    said = circuit_breaker.verdicts(settled, {row[0] for row in rows})
    for type_name, settings, stored in rows:
        held = _rules(type_name, settings)
        if held is not None and type_name in said:
            before = _standing(type_name, stored)
            _observed(transaction, type_name, before, held, said[type_name])


def reset(type_name: str, transaction: Transaction) -> None:
    """Close a breaker, and forget what it has counted."""
    before = standings(transaction.db).get(type_name, Standing())
    after = circuit_breaker.reset(before, transaction.now)
    if before == after:
        return
    is_news = before.phase is not after.phase
    _move(transaction, type_name, after, [after] if is_news else [])


def standings(db: sqlite3.Connection) -> dict[str, Standing]:
    """How every breaker stands."""
    rows = db.execute(SQL.breakers)
    return {type_name: _standing(type_name, stored) for type_name, _, stored in rows}


def _rows(transaction: Transaction) -> list[tuple[str, str, str]]:
    if not transaction.ruled.by_breakers:
        return []
    return transaction.db.execute(SQL.breakers).fetchall()


def _observed(
    transaction: Transaction,
    type_name: str,
    before: Standing,
    held: Rules,
    outcomes: Sequence[Outcome],
) -> Standing:
    after, changes = circuit_breaker.observe(before, held, outcomes, transaction.now)
    if after != before:
        _move(transaction, type_name, after, changes)
    return after


def _move(
    transaction: Transaction, type_name: str, after: Standing, changes: Sequence[Standing]
) -> None:
    scope = {"type": type_name, "standing": _json.encode(after).decode()}
    transaction.db.execute(SQL.breaker_move, scope)
    transaction.groups += circuit_breaker.told(type_name, changes)
    # Those who wait have to learn when to look again, too.
    transaction.wakes |= bool(changes)


@lru_cache(maxsize=1_024)
def _rules(type_name: str, settings: str) -> Rules | None:
    """The rules of a type's breaker; None, too, where they cannot be decoded."""
    read = partial(msgspec.json.decode, settings, type=BreakerSettings)
    name = RecordName("breaker", type_name)
    return circuit_breaker.rules(decode_or(BreakerSettings(), read, name))


def _standing(type_name: str, stored: str) -> Standing:
    """How a type's breaker stands; closed, where that cannot be decoded."""
    read = partial(msgspec.json.decode, stored, type=Standing)
    return decode_or(Standing(), read, RecordName("breaker", type_name))
