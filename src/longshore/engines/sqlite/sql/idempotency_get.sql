-- idempotency_get: the job that a key stands for, and how it was accepted.
-- :tenant :key
select fingerprint, id, created_at, run_at
  from longshore_idempotency where tenant = :tenant and key = :key
