"""PostgreSQL statements, one file each."""

from dataclasses import dataclass

from longshore.runtime.statements import load

__all__ = ["SQL"]


@dataclass(frozen=True, slots=True)
class Statements:
    """Field names are file names."""

    admit: str
    claims_of: str
    exchange: str
    forget_session: str
    journal_of: str
    migration_add: str
    migration_home: str
    migration_lock: str
    migration_schema: str
    migration_table: str
    migrations_applied: str
    requests: str
    session_end: str
    session_lock: str
    session_open: str
    session_renew: str
    settle: str
    submit: str
    submit_keyed: str


SQL = load(Statements, __name__, ".sql")
