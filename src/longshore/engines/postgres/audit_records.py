"""Records of what somebody ordered, each in the commit that carries it out."""

from longshore.core.audit_record import AuditRecord
from longshore.engines.postgres.database import Connection
from longshore.engines.postgres.sql import SQL

__all__ = ["record_order"]


async def record_order(connection: Connection, clock: int | None, done: AuditRecord) -> None:
    """Store what somebody ordered, until it is chained."""
    facts = (done.action, done.subject, done.tenant, done.facts, done.actor)
    await connection.execute(SQL.deed_add, clock, *facts)
