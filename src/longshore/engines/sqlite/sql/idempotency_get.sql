-- idempotency_get: the job that a key stands for.
-- :tenant :key
select fingerprint, id from longshore_idempotency where tenant = :tenant and key = :key
