-- count_prune: forget queues that have nothing to count.
-- :limit
delete from longshore_count where (tenant, queue, state) in (
    select tenant, queue, state from longshore_count where jobs = 0 limit :limit)
