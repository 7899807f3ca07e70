"""Records of what somebody ordered, each in the commit that carries it out."""

import msgspec

from longshore.core.audit_record import AuditRecord
from longshore.engines.sqlite.sql import SQL
from longshore.engines.sqlite.transaction import Transaction

__all__ = ["record_order"]


def record_order(transaction: Transaction, done: AuditRecord) -> None:
    """Store what somebody ordered, until it is chained."""
    scope = {**msgspec.structs.asdict(done), "at": transaction.now}
    transaction.db.execute(SQL.deed_add, scope)
