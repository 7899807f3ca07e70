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
    expire: str
    expire_dead: str
    firing_add: str
    forget: str
    forget_session: str
    journal_of: str
    lapsed: str
    migration_add: str
    migration_home: str
    migration_lock: str
    migration_schema: str
    migration_table: str
    migrations_applied: str
    next_due: str
    outbox_add: str
    outbox_after: str
    outbox_published: str
    outbox_unpublished: str
    promote: str
    promoted: str
    prune_facts: str
    prune_firing: str
    prune_idempotency: str
    prune_outbox: str
    prune_shipped: str
    requests: str
    schedule_delete: str
    schedule_due: str
    schedule_last_job: str
    schedule_move: str
    schedule_put: str
    schedules: str
    session_ahead: str
    session_bury: str
    session_end: str
    session_lock: str
    session_open: str
    session_renew: str
    session_shorten: str
    settle: str
    submit: str
    submit_keyed: str


SQL = load(Statements, __name__, ".sql")
