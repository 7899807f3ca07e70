"""Records of what somebody ordered, each in the commit that carries it out."""

from collections.abc import Callable
from typing import TypeVar

import msgspec

from longshore.core import audit_record
from longshore.core.audit_record import AuditRecord
from longshore.engines.sqlite.sql import SQL
from longshore.engines.sqlite.transaction import Transaction
from longshore.runtime.acting import actor

__all__ = ["record_order", "recorded"]

T = TypeVar("T")


def recorded(
    method: str, body: Callable[[Transaction], T], **arguments: object
) -> Callable[[Transaction], T]:
    """The body of an order, which leaves a record; none of what it refuses."""
    done = audit_record.of(method, arguments, actor=actor())

    def both(transaction: Transaction) -> T:
        result = body(transaction)
        is_refused = result is False
        if done is not None and not is_refused:
            record_order(transaction, done)
        return result

    return both


def record_order(transaction: Transaction, done: AuditRecord) -> None:
    """Store what somebody ordered, until it is chained."""
    scope = {**msgspec.structs.asdict(done), "at": transaction.now}
    transaction.db.execute(SQL.deed_add, scope)
