-- prune_old: delete what is too old; how many rows. The last moments of idempotency keys, events
-- and firings, limit
select longshore.prune_old($1, $2, $3, $4)
