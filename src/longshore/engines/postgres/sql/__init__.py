"""PostgreSQL statements, one file each."""

from dataclasses import dataclass

from longshore.runtime.statements import load

__all__ = ["SQL"]


@dataclass(frozen=True, slots=True)
class Statements:
    """Field names are file names."""

    admit: str
    arrange: str
    attempts: str
    breaker_delete: str
    breaker_move: str
    breaker_put: str
    breakers: str
    breakers_hold: str
    bucket_hold: str
    bucket_prune: str
    bucket_put: str
    call_holders: str
    cancelled_add: str
    check_in: str
    claim_add: str
    claims_of: str
    clock: str
    complete: str
    completed: str
    consumer_advance: str
    consumer_delete: str
    consumer_leave: str
    consumer_take: str
    consumer_unread: str
    consumers: str
    consumers_gone: str
    counts: str
    counts_of_tenant: str
    depths: str
    erase: str
    exchange: str
    exchanged_add: str
    expire: str
    expire_dead: str
    firing_add: str
    flow_delete: str
    flow_hold: str
    flow_put: str
    flows: str
    forget: str
    forget_session: str
    hold: str
    job_find: str
    jobs_by_id: str
    journal_of: str
    key_add: str
    key_get: str
    key_lock: str
    key_set: str
    key_use: str
    keys: str
    lanes_forget: str
    lanes_put: str
    lapsed: str
    lend: str
    migration_add: str
    migration_announce: str
    migration_behind: str
    migration_home: str
    migration_level: str
    migration_lock: str
    migration_rest: str
    migration_schema: str
    migration_table: str
    migration_tried: str
    migration_withdraw: str
    migrations_applied: str
    next_due: str
    outbox_add: str
    outbox_after: str
    outbox_fresh: str
    outbox_span: str
    outbox_stamp: str
    pause: str
    pauses: str
    progress_forget: str
    promote: str
    promoted: str
    prune_old: str
    purged_add: str
    quarantine_add: str
    quarantine_prune: str
    quarantined: str
    ready_add: str
    ready_of: str
    request_add: str
    requests: str
    resume: str
    running_delete: str
    schedule_delete: str
    schedule_due: str
    schedule_last_job: str
    schedule_lock: str
    schedule_move: str
    schedule_put: str
    schedules: str
    session_ahead: str
    session_await: str
    session_bury: str
    session_end: str
    session_lock: str
    session_of: str
    session_open: str
    session_owner: str
    session_quiet: str
    session_renew: str
    session_shorten: str
    sessions: str
    setting_delete: str
    setting_lock: str
    setting_put: str
    settings: str
    settings_of: str
    settle: str
    store: str
    submit: str
    submit_keyed: str
    submit_one: str
    take_finished: str
    take_ready: str
    take_scheduled: str
    tally_add: str
    tell_running: str
    tenant_add: str
    tenant_delete: str
    tenant_get: str
    tenant_lock: str
    tenant_set: str
    tenant_stay: str
    tenants: str
    wake: str


SQL = load(Statements, __name__, ".sql")
