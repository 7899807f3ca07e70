-- prune_idempotency: forget keys past their window.
-- :before :limit
delete from longshore_idempotency where (tenant, key) in (
    select tenant, key from longshore_idempotency indexed by longshore_idempotency_age
     where created_at <= :before order by created_at limit :limit)
