-- idempotency_put: remember what a key stands for.
-- :tenant :key :fingerprint :id :now
insert into longshore_idempotency (tenant, key, fingerprint, id, created_at)
values (:tenant, :key, :fingerprint, :id, :now)
