-- flow_took: jobs of a queue were claimed.
-- :queue :jobs :empty_at
update longshore_flow set running = running + :jobs, empty_at = :empty_at where queue = :queue
