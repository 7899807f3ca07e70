-- idempotency_put: remember what a key stands for.
-- :tenant :key :fingerprint :id :arrival :run_at
insert into longshore_idempotency (tenant, key, fingerprint, id, created_at, run_at)
values (:tenant, :key, :fingerprint, :id, :arrival, :run_at)
