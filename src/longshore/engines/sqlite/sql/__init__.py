"""SQLite statements, one file each."""

from dataclasses import dataclass

from longshore.runtime.statements import load

__all__ = ["SQL", "repeated"]


@dataclass(frozen=True, slots=True)
class Statements:
    """Field names are file names."""

    attempts: str
    audit_add: str
    audit_after: str
    audit_before: str
    audit_before_of_kind: str
    audit_cut: str
    audit_move: str
    audit_oldest: str
    audit_standing: str
    breaker_delete: str
    breaker_move: str
    breaker_put: str
    breakers: str
    bucket_get: str
    bucket_prune: str
    bucket_put: str
    cancel: str
    cancel_request: str
    claim: str
    claim_places: str
    claim_ready: str
    claimable: str
    claimable_end: str
    claimed: str
    consumer_add: str
    consumer_advance: str
    consumer_delete: str
    consumer_get: str
    consumer_gone_at: str
    consumer_leave: str
    consumer_take: str
    consumers: str
    consumers_floor: str
    consumers_gone: str
    count_add: str
    count_prune: str
    counts: str
    counts_of_tenant: str
    deed_add: str
    deeds: str
    deeds_delete: str
    delete_attempts: str
    delete_jobs: str
    delete_progress: str
    delete_unique: str
    depths: str
    due: str
    expired: str
    fact_add: str
    fact_delete: str
    fact_get: str
    fact_put: str
    fair_prune: str
    fair_put: str
    firing_add: str
    firing_prune: str
    flow_delete: str
    flow_free: str
    flow_move: str
    flow_put: str
    flow_took: str
    flows: str
    front: str
    handed_out: str
    held: str
    idempotency_get: str
    idempotency_put: str
    in_any: str
    in_finished: str
    in_held: str
    in_ready: str
    in_scheduled: str
    in_succeeded: str
    is_held: str
    job_by_id: str
    job_columns: str
    job_find: str
    job_insert: str
    job_insert_alike: str
    job_times: str
    joining: str
    joining_again: str
    key_get: str
    key_put: str
    key_use: str
    keyed: str
    keys: str
    lane_claimable: str
    lane_front: str
    lane_put: str
    lane_sort: str
    lane_sort_step: str
    lane_step: str
    lane_types: str
    lanes: str
    lapsed: str
    last_arrival: str
    last_worker: str
    leave_finished: str
    leave_parked: str
    leave_ready: str
    leave_scheduled: str
    let_go: str
    let_in: str
    line_delete: str
    line_get: str
    line_put: str
    lines: str
    lines_blocked: str
    lines_due: str
    losses: str
    migration_add: str
    migration_announce: str
    migration_behind: str
    migration_level: str
    migration_level_prune: str
    migration_levels: str
    migration_table: str
    migration_withdraw: str
    migrations_applied: str
    next_due: str
    outbox_add: str
    outbox_after: str
    outbox_span: str
    park: str
    parked_any: str
    parked_first: str
    parked_next: str
    pause: str
    pauses: str
    promote: str
    prune_idempotency: str
    prune_outbox: str
    prune_passed: str
    prune_sessions: str
    quarantine_add: str
    quarantine_prune: str
    quarantined: str
    queues_ready: str
    ready_add: str
    ready_add_fair: str
    replay: str
    report: str
    resume: str
    ruled: str
    running_of_type: str
    schedule_delete: str
    schedule_due: str
    schedule_get: str
    schedule_last_job: str
    schedule_move: str
    schedule_put: str
    scheduled_add: str
    schedules: str
    session_ahead: str
    session_close: str
    session_exchanged: str
    session_get: str
    session_lapsed: str
    session_of: str
    session_open: str
    session_owner: str
    session_quiet: str
    session_renew: str
    session_shorten: str
    sessions: str
    setting_delete: str
    setting_put: str
    settings: str
    settings_of: str
    settle: str
    settle_finished: str
    settle_ready: str
    settle_scheduled: str
    settle_succeeded: str
    settled_history: str
    sizes: str
    start: str
    tenant_delete: str
    tenant_get: str
    tenant_keys_delete: str
    tenant_put: str
    tenant_webhooks_delete: str
    tenants: str
    type_heads: str
    types_ready: str
    unique_holder: str
    unique_put: str
    unwanted: str
    webhook_delete: str
    webhook_get: str
    webhook_put: str
    webhooks: str


SQL = load(Statements, __name__, ".sql")


def repeated(statement: str, times: int) -> str:
    """The statement with its line of parameters repeated, for that many rows."""
    lines = statement.splitlines()
    at = next(i for i, line in enumerate(lines) if line.lstrip().startswith("(?"))
    lines[at] = ",\n".join([lines[at]] * times)
    return "\n".join(lines)
